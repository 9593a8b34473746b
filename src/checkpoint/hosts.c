/*
 * checkpoint/hosts.c: checkpoints of a job of several hosts: what their agents tell each other.
 *
 * Each host has a folder and heads of its own, with a row for every rank of the job. A host's tasks write their own
 * ranks' rows; its agent writes those of other hosts, as they are told. A follower's agent tells the leader its ranks'
 * rows, the leader's tells all others every rank's. So each head is the same table, later here and earlier there, and
 * no row in it ever goes back while tasks live: where all rows of a head are done with a generation, all parts are, and
 * whichever process finds that commits it on its host (head.c). A rank begins g + 1 when g is whole in its host's head:
 * so no host is more than one generation ahead of another, and each rank's two parts have the job's newest between
 * them.
 *
 * What an agent says of rows comes before it says that its last task has ended, for all talk of agents is in order. So
 * the leader's head has every row when an attempt is over, and what any wait has returned with is whole in it. It
 * outlives the attempt: with the next one's orders each host takes over what it says, and what ranks have saved beyond
 * that counts no more.
 *
 * A task wakes its agent by a byte in a pipe with a name in the folder. What a SIGKILL leaves:
 *
 *   of a task, between row and byte       its agent looks at the rows when the task's process has ended
 *   of an agent                           rows that are not told: its successor (--survive) tells all rows anew, and is
 *                                         told all; without one the job ends
 *   of the leader's host                  its guard removes its folder; the job ends, and its checkpoints with it
 *
 * All rows of a host are told at once when the last of them has come to a generation; one that is late is told LATE_NS
 * after the first change, so that each host can name the tasks that are missing.
 */
#include "checkpoint/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BELL    "bell"
#define LATE_NS 100000000u

enum { RUNS_MAX = 16384 }; /* of a message, 32 bytes each: the agents' talk is of at most 1 MiB */

/* Of ranks behind each other that have saved the same. */
struct same_rows {
    uint32_t first, count;
    uint64_t done, step, before; /* before: the step of the generation before */
};

struct relay_head {
    struct relay_head *next;
    char name[MUSTER_CHECKPOINT_NAME_MAX + 1];
    struct mu_checkpoint_head *head;
    uint64_t changed; /* when a row was first seen to differ from what was told; 0: none does */
    uint64_t told[];  /* of each rank from `from` */
};

struct mu_checkpoint_relay {
    char folder[MU_CHECKPOINT_PATH_MAX / 2];
    uint32_t ranks, first, count; /* first, count: this host's */
    uint32_t from, num;           /* the ranks that it tells of */
    bool leads;
    int bell;
    struct relay_head *heads;
};

/* ---- the bell ---------------------------------------------------------------------------------------------------- */

/* Open for both ways: then it always has a reader, and a write is never a SIGPIPE. 0, or an errno. */
static int bell_open(const char *folder, int *ret_bell)
{
    char path[MU_CHECKPOINT_PATH_MAX];
    struct stat st;
    int fd;

    snprintf(path, sizeof path, "%s/" BELL, folder);
    fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno;
    if (fstat(fd, &st) || !S_ISFIFO(st.st_mode) || st.st_uid != geteuid()) {
        close(fd);
        return EINVAL;
    }
    *ret_bell = fd;
    return 0;
}

enum muster_status mu_checkpoint_bell_open(const char *folder, int *ret_bell)
{
    int rc = bell_open(folder, ret_bell);

    if (!rc)
        return MUSTER_OK;
    return mu_fail(MUSTER_FAILED_PRECONDITION,
                   "the agent of this host does not look after checkpoints in %s, as those of a job of several hosts "
                   "need it: %s",
                   folder, strerror(rc));
}

void mu_checkpoint_bell_ring(int bell, char what)
{
    ssize_t n;

    do
        n = write(bell, &what, 1);
    while (n < 0 && errno == EINTR); /* EAGAIN: so much lies there that the agent will look */
}

/* Empty it: whether a head may be new. */
static bool bell_answer(int bell)
{
    char what[512];
    bool is_new = false;
    ssize_t n;

    while ((n = read(bell, what, sizeof what)) > 0 || (n < 0 && errno == EINTR))
        is_new |= n > 0 && memchr(what, MU_CHECKPOINT_OPENED, (size_t)n);
    return is_new;
}

/* ---- heads ------------------------------------------------------------------------------------------------------- */

static struct relay_head *relay_find(struct mu_checkpoint_relay *relay, const char *name)
{
    struct relay_head *h = relay->heads;

    while (h && strcmp(h->name, name) != 0)
        h = h->next;
    return h;
}

/* NULL: there is no room for it, or what is there is none: a task that opens it is told. */
static struct relay_head *relay_add(struct mu_checkpoint_relay *relay, const char *name)
{
    struct relay_head *h = relay_find(relay, name);

    if (h)
        return h;
    h = calloc(1, sizeof *h + relay->num * sizeof *h->told);
    if (!h)
        return NULL;
    if (mu_checkpoint_head_open(relay->folder, name, relay->ranks, true, &h->head)) {
        free(h);
        return NULL;
    }
    memcpy(h->name, name, strlen(name));
    h->next = relay->heads;
    relay->heads = h;
    return h;
}

static void relay_visit(void *arg, const char *name, uint32_t ranks)
{
    struct mu_checkpoint_relay *relay = arg;

    if (ranks == relay->ranks && mu_checkpoint_is_name(name))
        relay_add(relay, name);
}

struct mu_checkpoint_relay *mu_checkpoint_relay_new(const char *run_id, uint32_t ranks, uint32_t first, uint32_t count,
                                                    bool leads)
{
    struct mu_checkpoint_relay *relay = calloc(1, sizeof *relay);
    char path[MU_CHECKPOINT_PATH_MAX];

    if (!relay)
        return NULL;
    *relay = (struct mu_checkpoint_relay){.ranks = ranks,
                                          .first = first,
                                          .count = count,
                                          .from = leads ? 0 : first,
                                          .num = leads ? ranks : count,
                                          .leads = leads,
                                          .bell = -1};
    mu_checkpoint_folder(run_id, relay->folder, sizeof relay->folder);
    snprintf(path, sizeof path, "%s/" BELL, relay->folder);
    if (mu_checkpoint_folder_own(relay->folder) || (mkfifo(path, 0600) && errno != EEXIST) ||
        bell_open(relay->folder, &relay->bell)) {
        free(relay);
        return NULL;
    }
    mu_checkpoint_each(relay->folder, relay_visit, relay);
    return relay;
}

void mu_checkpoint_relay_free(struct mu_checkpoint_relay *relay)
{
    struct relay_head *h;

    if (!relay)
        return;
    while ((h = relay->heads)) {
        relay->heads = h->next;
        mu_checkpoint_head_close(h->head, relay->ranks);
        free(h);
    }
    close(relay->bell);
    free(relay);
}

int mu_checkpoint_relay_fd(const struct mu_checkpoint_relay *relay)
{
    return relay->bell;
}

void mu_checkpoint_relay_forget(struct mu_checkpoint_relay *relay)
{
    for (struct relay_head *h = relay->heads; h; h = h->next)
        memset(h->told, 0, relay->num * sizeof *h->told);
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static struct same_rows row_read(struct mu_checkpoint_head *head, uint32_t rank)
{
    struct mu_checkpoint_row *row = &head->rows[rank];
    /* acquire: pairs with mu_checkpoint_done() */
    struct same_rows run = {.first = rank, .count = 1, .done = mu_load_acquire(&row->done)};

    /* relaxed, both: behind done. The rank may write the other one already, for the next generation but one: then the
     * reader knows that step, and does not take it (row_hear()) */
    run.step = mu_load_relaxed(&row->step[run.done & 1]);
    run.before = mu_load_relaxed(&row->step[~run.done & 1]);
    return run;
}

static void run_pack(struct mu_pack *p, const struct same_rows *run)
{
    mu_pack_u32(p, run->first);
    mu_pack_u32(p, run->count);
    mu_pack_u64(p, run->done);
    mu_pack_u64(p, run->step);
    mu_pack_u64(p, run->before);
}

static struct same_rows run_unpack(struct mu_unpack *u)
{
    struct same_rows run = {.first = mu_unpack_u32(u)};

    run.count = mu_unpack_u32(u);
    run.done = mu_unpack_u64(u);
    run.step = mu_unpack_u64(u);
    run.before = mu_unpack_u64(u);
    return run;
}

static void rows_say(const struct mu_checkpoint_relay *relay, struct relay_head *h, mu_checkpoint_say say, void *arg)
{
    struct mu_pack what = {.bytes = NULL};
    uint32_t r = 0;

    while (r < relay->num) {
        mu_pack_reset(&what);
        mu_pack_text(&what, h->name);
        for (uint32_t runs = 0; r < relay->num && runs < RUNS_MAX; runs++) {
            struct same_rows run = row_read(h->head, relay->from + r), next;

            for (h->told[r++] = run.done; r < relay->num; h->told[r++] = run.done, run.count++) {
                next = row_read(h->head, relay->from + r);
                if (next.done != run.done || next.step != run.step || next.before != run.before)
                    break;
            }
            run_pack(&what, &run);
        }
        if (!what.failed)
            say(arg, &what);
    }
    mu_pack_done(&what);
}

/* When this head is to be looked at again. */
static uint64_t head_look(const struct mu_checkpoint_relay *relay, struct relay_head *h, uint64_t now,
                          mu_checkpoint_say say, void *arg)
{
    uint64_t least = UINT64_MAX, least_told = UINT64_MAX;
    bool differs = false;

    mu_checkpoint_settle(h->head, relay->ranks);
    for (uint32_t r = 0; r < relay->num; r++) {
        uint64_t done = mu_load_acquire(&h->head->rows[relay->from + r].done); /* acquire: as in rows_say() */

        least = done < least ? done : least;
        least_told = h->told[r] < least_told ? h->told[r] : least_told;
        differs |= done != h->told[r];
    }
    if (!differs) {
        h->changed = 0;
        return UINT64_MAX;
    }
    h->changed = h->changed ? h->changed : now;
    if (least == least_told && now < h->changed + LATE_NS)
        return h->changed + LATE_NS;
    h->changed = 0;
    rows_say(relay, h, say, arg);
    return UINT64_MAX;
}

uint64_t mu_checkpoint_relay_look(struct mu_checkpoint_relay *relay, uint64_t now, bool ended, mu_checkpoint_say say,
                                  void *arg)
{
    uint64_t due = UINT64_MAX;

    if (bell_answer(relay->bell) || ended)
        mu_checkpoint_each(relay->folder, relay_visit, relay);
    for (struct relay_head *h = relay->heads; h; h = h->next) {
        uint64_t then = head_look(relay, h, now, say, arg);

        due = then < due ? then : due;
    }
    return due;
}

/* ---- hearing ----------------------------------------------------------------------------------------------------- */

/*
 * What was the step before is of use only to a head that has not even that generation of the rank. The rank cannot have
 * written over it then: it does so when its own host's head has the next as whole, for which all ranks have saved it,
 * and none of them before its host's head had this one from all.
 */
static void row_hear(const struct mu_checkpoint_relay *relay, struct mu_checkpoint_head *head, uint32_t rank,
                     const struct same_rows *run)
{
    uint64_t done = mu_load_relaxed(&head->rows[rank].done); /* relaxed: this agent's own rows */

    if (rank - relay->first < relay->count || done >= run->done)
        return;
    if (done + 1 < run->done) /* relaxed: the next store publishes it; pairs with stray_of() */
        mu_store_relaxed(&head->rows[rank].step[~run->done & 1], run->before);
    mu_checkpoint_done(head, rank, run->done, run->step);
}

bool mu_checkpoint_relay_hear(struct mu_checkpoint_relay *relay, uint32_t first, uint32_t count, struct mu_unpack *u)
{
    char name[MUSTER_CHECKPOINT_NAME_MAX + 1] = "";
    struct relay_head *h;

    mu_unpack_text(u, name, sizeof name);
    if (u->failed || !mu_checkpoint_is_name(name))
        return false;
    h = relay_add(relay, name);
    while (u->left) {
        struct same_rows run = run_unpack(u);

        if (u->failed || run.first < first || run.count > count || run.first - first > count - run.count ||
            run.done >= MU_CHECKPOINT_WITHDRAWAL >> 1)
            return false;
        for (uint32_t r = run.first; h && r < run.first + run.count; r++)
            row_hear(relay, h->head, r, &run);
    }
    if (h)
        mu_checkpoint_settle(h->head, relay->ranks);
    return true;
}

/* ---- from one attempt to the next -------------------------------------------------------------------------------- */

static void visit_any(void *arg, const char *name, uint32_t ranks)
{
    (void)name;
    (void)ranks;
    *(bool *)arg = true;
}

bool mu_checkpoint_is_there(const char *run_id)
{
    char folder[MU_CHECKPOINT_PATH_MAX / 2];
    bool is_there = false;

    mu_checkpoint_folder(run_id, folder, sizeof folder);
    mu_checkpoint_each(folder, visit_any, &is_there);
    return is_there;
}

struct newest {
    const char *folder;
    uint32_t ranks;
    struct mu_pack *pack;
};

static void newest_visit(void *arg, const char *name, uint32_t ranks)
{
    const struct newest *newest = arg;
    struct mu_checkpoint_head *head;
    uint64_t whole;

    if (ranks != newest->ranks || mu_checkpoint_head_open(newest->folder, name, ranks, false, &head))
        return;
    whole = mu_checkpoint_settle(head, ranks);
    mu_pack_text(newest->pack, name);
    mu_pack_u64(newest->pack, whole);
    mu_pack_u64(newest->pack, mu_load_relaxed(&head->rows[0].step[whole & 1])); /* relaxed: no task lives */
    mu_checkpoint_head_close(head, ranks);
}

void mu_checkpoint_pack_newest(const char *run_id, uint32_t ranks, struct mu_pack *p)
{
    char folder[MU_CHECKPOINT_PATH_MAX / 2];
    struct newest newest = {.folder = folder, .ranks = ranks, .pack = p};

    mu_checkpoint_folder(run_id, folder, sizeof folder);
    mu_checkpoint_each(folder, newest_visit, &newest);
}

bool mu_checkpoint_take_newest(const char *run_id, uint32_t ranks, struct mu_unpack *u)
{
    char folder[MU_CHECKPOINT_PATH_MAX / 2], name[MUSTER_CHECKPOINT_NAME_MAX + 1];
    struct mu_checkpoint_head *head;

    if (mu_checkpoint_rewind(run_id, MU_CHECKPOINT_ALL))
        return false;
    mu_checkpoint_folder(run_id, folder, sizeof folder);
    if (u->left && mu_checkpoint_folder_own(folder))
        return false;
    while (u->left) {
        uint64_t generation, step;

        mu_unpack_text(u, name, sizeof name);
        generation = mu_unpack_u64(u);
        step = mu_unpack_u64(u);
        if (u->failed || !mu_checkpoint_is_name(name) || generation >= MU_CHECKPOINT_WITHDRAWAL >> 1 ||
            mu_checkpoint_head_open(folder, name, ranks, true, &head))
            return false;
        mu_checkpoint_agree(head, ranks, generation, step);
        mu_checkpoint_head_close(head, ranks);
    }
    return true;
}
