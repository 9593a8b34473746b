/*
 * tests/lin/worker.c: a task of a job of several hosts whose process is killed and starts again: operations on a few
 * keys, whose calls and answers it writes down for the director, and local reads of others, which it judges itself
 * (causal.h).
 */
#include "across.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS 120000000000u

const char *const across_keys[KEYS] = {"k0", "k1", "k2"};

struct self {
    struct board *board;
    struct worker *worker;
    struct known *known; /* this host's */
    struct muster *m;
    struct test_random random;
    int number;
    uint64_t event; /* the next to be read */
    uint64_t versions[KEYS];
    uint32_t lens[KEYS];
    struct op got[KEYS];        /* an answer of each key, */
    uint64_t seen[CAUSAL_KEYS]; /* and a version: what a lie says again */
    struct knowledge told_by[CAUSAL_KEYS];
};

static int board_fd = -1;

struct board *board_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct board *b = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof *b) == 0)
        b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    board_fd = fd;
    return b == MAP_FAILED ? NULL : b;
}

bool board_direct(struct board *board)
{
    bool is_locked = flock(board_fd, LOCK_EX) == 0;

    atomic_store(&board->directed, is_locked);
    return is_locked;
}

/* Killed, perhaps, with all that would have ended this job, whose tasks survive that. */
static bool is_director_dead(const struct board *board)
{
    return atomic_load(&board->directed) && flock(board_fd, LOCK_SH | LOCK_NB) == 0 && !atomic_load(&board->stop);
}

/* What must not be: the director reads it, and ends everything. */
__attribute__((format(printf, 2, 3))) _Noreturn static void fault(struct self *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->worker->fault, sizeof s->worker->fault, format, args);
    va_end(args);
    atomic_store(&s->worker->faulty, 1);
    for (;;)
        pause();
}

static void need(struct self *s, const char *what, enum muster_status status)
{
    if (status)
        fault(s, "%s: %s: %s", what, muster_status_name(status), muster_last_error());
}

/* ---- operations that are written down ---- */

/* A read that answers what this process had been answered before. */
static void lie(struct self *s, uint32_t key, struct op *o)
{
    const struct op *old = &s->got[key];

    o->status = old->status;
    o->version = old->version;
    o->found_len = old->found_len;
    memcpy(o->found, old->found, sizeof o->found);
}

static void one_entry(struct self *s, int n)
{
    struct entry *e = &s->worker->log[n];
    uint32_t key = e->key = (uint32_t)test_below(&s->random, KEYS);
    struct op o;

    choose(&s->random, &o, s->number, n, s->versions[key], s->lens[key]);
    entry_call(e, &o);
    o.status = perform(s->m, across_keys[key], &o, get_fresh);
    o.returned = muster_now_ns();
    if (o.kind == OP_GET && atomic_load(&s->board->lies) && s->got[key].version)
        lie(s, key, &o);
    else if (o.kind == OP_GET)
        s->got[key] = o;
    entry_return(e, &o);
    remember(&o, &s->versions[key], &s->lens[key]);
}

/* ---- operations that are judged at once ---- */

static void name_of(uint32_t key, char name[16])
{
    snprintf(name, 16, "c/%u", key);
}

static void judge(struct self *s, const struct knowledge *before, uint32_t key, uint64_t version)
{
    if (causal_allows(before, key, version))
        return;
    if (atomic_load(&s->board->lies))
        atomic_fetch_add(&s->board->caught, 1);
    else
        fault(s,
              "causality: on its host it read version %" PRIu64 " of key c/%u, where version %" PRIu64 "%s was known",
              version, key, before->least[key] / 2, before->least[key] % 2 ? ", and its end," : "");
}

static void read_here(struct self *s, uint32_t key)
{
    struct knowledge before = causal_now(s->known), told = {{0}};
    uint8_t value[CAUSAL_MOST];
    uint64_t version = 0;
    enum muster_status status;
    char name[16];
    size_t len = 0;

    name_of(key, name);
    status = muster_kv_try_get(s->m, name, MUSTER_NTS, value, sizeof value, &len, &version);
    atomic_fetch_add(&s->board->reads, 1);
    if (status == MUSTER_NOT_FOUND) {
        judge(s, &before, key, 0);
        causal_learn_absence(s->known, key, &before);
        return;
    }
    need(s, "a local read", status);
    if (!causal_unpack(value, len, &told))
        fault(s, "the value of c/%u is torn: %zu bytes", key, len);
    if (atomic_load(&s->board->lies) && s->seen[key]) {
        version = s->seen[key];
        told = s->told_by[key];
    }
    s->seen[key] = version;
    s->told_by[key] = told;
    judge(s, &before, key, version);
    for (uint32_t i = 0; i < CAUSAL_KEYS; i++)
        atomic_fetch_add(&s->board->learned, told.least[i] > before.least[i]);
    causal_learn(s->known, &told);
    causal_learn_version(s->known, key, version);
}

static void write_what_is_known(struct self *s, uint32_t key)
{
    struct knowledge now = causal_now(s->known);
    uint8_t value[CAUSAL_MOST];
    size_t len = causal_pack(&now, test_below(&s->random, CAUSAL_MOST), value);
    uint64_t version;
    char name[16];

    name_of(key, name);
    need(s, "a write", muster_kv_set(s->m, name, MUSTER_NTS, value, len, &version));
    atomic_fetch_add(&s->board->writes, 1);
    causal_learn_version(s->known, key, version);
}

static void delete_one(struct self *s, uint32_t key)
{
    struct knowledge before = causal_now(s->known);
    char name[16];

    name_of(key, name);
    need(s, "a delete", muster_kv_delete(s->m, name, MUSTER_NTS, NULL));
    causal_learn_absence(s->known, key, &before);
}

static void send_event(struct self *s)
{
    struct knowledge now = causal_now(s->known);
    enum muster_status status = muster_event_send(s->m, 7, &now, sizeof now, NULL);

    if (status != MUSTER_UNAVAILABLE) /* after a break it may not be known whether it was sent */
        need(s, "an event", status);
}

static void read_events(struct self *s)
{
    struct muster_event e;
    struct knowledge told;
    uint64_t lost;
    enum muster_status status;

    for (int most = 0; most < 16; most++) {
        status = muster_event_read(s->m, &s->event, muster_now_ns(), &e, &told, sizeof told, &lost);
        if (status == MUSTER_DEADLINE_EXCEEDED)
            return;
        if (status == MUSTER_OUT_OF_RANGE)
            continue; /* it goes on from the oldest that is left */
        need(s, "an event's read", status);
        atomic_fetch_add(&s->board->events, 1);
        if (e.len == sizeof told)
            causal_learn(s->known, &told);
    }
}

static void causal_step(struct self *s)
{
    uint32_t key = (uint32_t)test_below(&s->random, CAUSAL_KEYS);

    switch (test_below(&s->random, 16)) {
    case 0:
    case 1:
    case 2: write_what_is_known(s, key); break;
    case 3: delete_one(s, key < CAUSAL_KEPT ? key + CAUSAL_KEPT : key); break;
    case 4: send_event(s); break;
    case 5:
    case 6: read_events(s); break;
    default: read_here(s, key);
    }
}

/* ---- its life ---- */

static void join(struct self *s)
{
    struct muster_options o;

    muster_options_init(&o);
    o.flags = MUSTER_JOIN_RECOVERABLE;
    o.deadline = muster_after_ns(PATIENCE_NS);
    need(s, "it cannot join", muster_join(&o, &s->m));
    need(s, "events", muster_event_next(s->m, &s->event));
}

_Noreturn static void live(struct self *s)
{
    atomic_store(&s->worker->pid, getpid());
    s->random.state = muster_now_ns() ^ (uint64_t)getpid() << 40;
    join(s);
    for (;;) {
        uint32_t window;

        while ((window = atomic_load(&s->board->window)) == atomic_load(&s->worker->done)) {
            if (atomic_load(&s->board->stop)) {
                need(s, "it cannot leave", muster_leave(s->m));
                _exit(0);
            }
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* sleep: between looks for the next window */
        }
        for (int n = 0; n < PER_WINDOW; n++) {
            one_entry(s, n);
            for (uint64_t more = test_below(&s->random, 4); more; more--)
                causal_step(s);
        }
        atomic_store(&s->worker->done, window);
    }
}

int across_work(struct board *board)
{
    const char *task = getenv("MUSTER_TASK_ID"), *host = getenv("MUSTER_NODE_ID");
    long number = task ? strtol(task, NULL, 10) : -1, node = host ? strtol(host, NULL, 10) : -1;
    struct self s = {.board = board, .number = (int)number};
    int status = 0;
    pid_t self = getpid(), pid, ended;

    if (number < 0 || number >= WORKERS_MOST || node < 0 || node >= HOSTS_MOST)
        return 2;
    s.worker = &board->workers[number];
    s.known = &board->known[node];
    for (uint32_t life = 0;; life++) {
        while (atomic_load(&s.worker->lives) < life && !is_director_dead(board))
            nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* sleep: between looks for the director's word */
        pid = fork();
        if (pid < 0)
            return 3;
        if (!pid) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != self)
                _exit(3);
            live(&s);
        }
        while ((ended = waitpid(pid, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
            if (is_director_dead(board))
                return 5;                                            /* and the worker with us */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* sleep: between two looks */
        }
        atomic_store(&s.worker->pid, 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
    }
}
