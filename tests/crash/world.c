/*
 * tests/crash/world.c: building the world, looking at it, and the kernel's part.
 */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "segment/format.h"
#include "segment/slot.h"
#include "segment/wait.h"
#include "task/task.h"

struct world world;
struct board *board;

static void die(const char *what)
{
    printf("cannot build the world: %s: %s\n", what, muster_last_error());
    fflush(stdout);
    _exit(2);
}

void crash_board(void)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        die("board");
}

void crash_bad(const char *format, ...)
{
    size_t n = strlen(board->complaints);
    va_list args;

    board->bad++;
    if (n + 200 > sizeof board->complaints)
        return;
    n += (size_t)snprintf(board->complaints + n, sizeof board->complaints - n, "      ");
    va_start(args, format);
    n += (size_t)vsnprintf(board->complaints + n, sizeof board->complaints - n, format, args);
    va_end(args);
    if (n + 2 < sizeof board->complaints)
        memcpy(board->complaints + n, "\n", 2);
}

static int new_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)world.size))
        die(name);
    return fd;
}

static uint8_t *map_at(void *where, int fd, int flags)
{
    uint8_t *p = mmap(where, world.size, PROT_READ | PROT_WRITE, flags, fd, 0);

    if (p == MAP_FAILED)
        die("mmap");
    return p;
}

static void recheck(struct mu_ctx *ctx)
{
    mu_task_scavenge(ctx);
}

/* What muster_join() does after it has mapped the segment. */
static void join(int who)
{
    bool task = who < SPARE;
    struct muster *m = mu_handle_new(&world.seg, task ? MUSTER_JOIN_NO_HEARTBEAT : MUSTER_JOIN_OBSERVER);
    struct mu_registration r = {.task = (uint32_t)who, .flags = MUSTER_JOIN_NO_HEARTBEAT};

    if (!m)
        die("handle");
    m->task_id = task ? who : -1;
    m->incarnation = 1000 + (uint64_t)who;
    world.m[who] = m;
    if (mu_enter(m, &world.ctx[who]))
        die("slot");
    /* owners are made up in the images that are explored: nobody may ask the kernel whether they exist */
    mu_store_relaxed(&world.ctx[who]->own->pid_namespace, 0);
    r.incarnation = m->incarnation;
    r.pid = (uint32_t)getpid();
    r.start = mu_process_start(getpid());
    r.slot = world.ctx[who]->slot + 1;
    r.slot_incarnation = world.ctx[who]->incarnation;
    if (task && mu_task_register(world.ctx[who], &r))
        die("register");
    if (task)
        m->pulse = world.ctx[who]->own, m->pulse_incarnation = world.ctx[who]->incarnation;
    mu_exit(world.ctx[who]);
}

void crash_fill(uint8_t *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(seed * 131 + len * 7 + (i / 8) * 29 + i % 8);
}

static const size_t background_sizes[] = {0, 3, 90, 600, 5000, BIG};

void crash_background(struct muster *m)
{
    static uint8_t want[BIG], got[BIG];

    for (unsigned i = 0; i < sizeof background_sizes / sizeof background_sizes[0]; i++) {
        char key[32];
        size_t len = 0, size = background_sizes[i];

        snprintf(key, sizeof key, "background/%u", i);
        crash_fill(want, size, i);
        if (muster_kv_try_get(m, key, MUSTER_NTS, got, sizeof got, &len, NULL))
            crash_bad("background key %s is lost: %s", key, muster_last_error());
        else if (len != size || memcmp(got, want, size))
            crash_bad("background key %s is torn", key);
    }
}

/* What is slow or allocates at its first use must not be stepped through. */
static void warm_up(void)
{
    char c;

    mu_wait_pauses(1000);
    muster_kv_get(world.m[VICTIM], "no/such", MUSTER_NTS, 0, &c, 1, NULL, NULL);
    muster_status_name(MUSTER_OK);
}

void crash_build(void)
{
    struct muster_segment_config config = {.num_tasks = TASKS,
                                           .num_slots = SLOTS,
                                           .num_buckets = BUCKETS,
                                           .num_events = EVENTS,
                                           .heap_bytes = HEAP_BYTES,
                                           .object_bytes = 16 * MU_UNIT,
                                           .memfd = 1};
    static struct mu_header h;
    static uint8_t bytes[BIG];

    if (mu_format_plan("crash", &config, &h))
        die("plan");
    h.hash_seed = 12345; /* so that every run has the same keys in the same buckets */
    world.size = h.total_bytes;
    world.fd = new_file("world");
    world.alt_fd = new_file("alt");
    world.base = map_at(NULL, world.fd, MAP_SHARED);
    world.alt = map_at(NULL, world.alt_fd, MAP_SHARED);
    world.join_fd = world.fd;
    mu_format_write(world.base, &h);
    if (mu_format_check(&h, world.size, "world", &world.seg))
        die("check");
    world.seg.base = world.base;
    world.seg.arena = world.seg.arena_views = world.base + world.seg.arena_offset; /* mapped with all else */
    world.seg.fd = world.fd;
    world.seg.writable = true;
    world.seg.users = 1000;
    world.seg.views = world.base; /* what forks map there privately is what they are to see */
    if (mu_format_bind(&world.seg, &h, "world"))
        die("bind");
    mu_wait_recheck = recheck;
    for (int i = 0; i < HOLDERS; i++)
        join(i);
    for (unsigned i = 0; i < sizeof background_sizes / sizeof background_sizes[0]; i++) {
        char key[32];

        snprintf(key, sizeof key, "background/%u", i);
        crash_fill(bytes, background_sizes[i], i);
        if (muster_kv_set(world.m[PEER], key, MUSTER_NTS, bytes, background_sizes[i], NULL))
            die(key);
    }
    warm_up();
}

size_t crash_used(const uint8_t *base)
{
    const mu_a32 *chunks = (const mu_a32 *)(base + ((uint8_t *)world.seg.chunks - world.base));
    size_t heap = (size_t)(world.seg.heap - world.base), used = heap;
    uint32_t high = mu_load32_relaxed(&((const struct mu_header *)base)->objects_high); /* relaxed, as below */

    for (uint32_t c = 0; c < world.seg.num_chunks; c++)
        if (mu_load32_relaxed(&chunks[c])) /* relaxed: nobody runs */
            used = heap + (c + 1) * (size_t)MU_CHUNK;
    if (high) /* their words lie behind the heap */
        used = (size_t)((uint8_t *)world.seg.objects - world.base) + high * 8;
    if (mu_load32_relaxed(&((const struct mu_header *)base)->queue_there)) /* relaxed, likewise: few places of it */
        used = (size_t)((uint8_t *)(world.seg.queue + 64) - world.base);
    if (mu_load32_relaxed(&((const struct mu_header *)base)->units_high)) /* and those of the units; the last of all */
        used = world.size;
    return used;
}

void crash_copy_to_alt(void)
{
    size_t used = crash_used(world.base), before = crash_used(world.alt);

    memcpy(world.alt, world.base, used);
    if (before > used)
        memset(world.alt + used, 0, before - used);
}

void crash_map(enum crash_map how)
{
    bool alt = how == MAP_PRIVATE_ALT || how == MAP_SHARED_ALT;
    int flags = how == MAP_SHARED_ALT ? MAP_SHARED : MAP_PRIVATE;

    if (how == MAP_AS_IS)
        return;
    map_at(world.base, alt ? world.alt_fd : world.fd, flags | MAP_FIXED);
    if (alt)
        world.seg.fd = world.join_fd = world.alt_fd;
}

void crash_separate(void)
{
    int fd = new_file("separate");
    uint8_t *copy = map_at(NULL, fd, MAP_SHARED);

    memcpy(copy, world.base, crash_used(world.base));
    munmap(copy, world.size);
    munmap(world.alt, world.size);
    map_at(world.base, fd, MAP_SHARED | MAP_FIXED);
    world.fd = world.seg.fd = world.join_fd = fd;
    world.alt_fd = new_file("alt");
    world.alt = map_at(NULL, world.alt_fd, MAP_SHARED);
}

int crash_run(enum crash_map how, void (*fn)(void *arg), void *arg)
{
    int status = 0;
    pid_t pid = _Fork();

    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(60);
        crash_map(how);
        fn(arg);
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        crash_bad("cannot fork");
    else if (WIFSIGNALED(status))
        crash_bad("killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                  WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    else if (WEXITSTATUS(status))
        crash_bad("exit status %d", WEXITSTATUS(status));
    return status;
}

void crash_die(pid_t tid, unsigned holders)
{
    for (uint32_t i = 0; i < world.seg.num_slots; i++) {
        mu_a32 *word = mu_slot_liveness(&world.seg, i);
        uint32_t w = mu_load32_acquire(word); /* acquire: nobody else runs */
        bool ours = tid && (w & 0x3fffffffu) == (uint32_t)tid;

        for (int k = 0; k < HOLDERS; k++)
            if ((holders & 1u << k) && world.ctx[k]->slot == i && (w & 0x3fffffffu))
                ours = true;
        if (ours)
            mu_store32_release(word, (w & 0x80000000u) | 0x40000000u); /* release: as the kernel */
    }
}

void crash_become(pid_t tid, unsigned holders)
{
    for (int k = 0; k < HOLDERS; k++) {
        mu_a32 *word = mu_slot_liveness(&world.seg, world.ctx[k]->slot);

        if ((holders & 1u << k) && (mu_load32_acquire(word) & 0x3fffffffu)) /* acquire: nobody else runs */
            mu_store32_release(word, (uint32_t)tid);                        /* release: as the lock */
    }
}

unsigned crash_count_dead(void)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < world.seg.num_slots; i++) {
        uint64_t w = mu_load_acquire(&world.seg.slots[i].word); /* acquire: nobody else runs */

        n += MU_SLOT_STATE(w) == MU_SLOT_DEAD || mu_slot_is_dead(&world.seg, i, w);
    }
    return n;
}

static void report(void *arg, const char *sentence)
{
    crash_bad("audit %s: %s", (const char *)arg, sentence);
}

void crash_audit(const char *when)
{
    struct muster_audit sum;

    if (muster_segment_check(&world.seg, report, (void *)(uintptr_t)when, &sum))
        crash_bad("audit %s: %s", when, muster_last_error());
    if (sum.blocks_owned != crash_ledger_blocks())
        crash_bad("%s: %llu blocks are owned by somebody, and the ledgers have %u", when,
                  (unsigned long long)sum.blocks_owned, crash_ledger_blocks());
}

void crash_idle(const char *when)
{
    for (uint32_t i = 0; i < world.seg.num_slots; i++) {
        const struct mu_slot *s = &world.seg.slots[i];
        uint64_t w = mu_load_acquire(&s->word); /* acquire: nobody else runs */

        if (MU_SLOT_STATE(w) == MU_SLOT_DEAD || mu_slot_is_dead(&world.seg, i, w))
            crash_bad("%s: slot %u is still dead, not free", when, i);
        if (MU_SLOT_STATE(w) == MU_SLOT_LIVE && MU_HOLD_KIND(mu_load_relaxed(&s->op)) != MU_HOLD_NONE)
            crash_bad("%s: slot %u of a living holder is counting a reference", when, i);
        if (MU_SLOT_STATE(w) == MU_SLOT_LIVE && (mu_load_relaxed(&s->act) || mu_load_relaxed(&s->pin)))
            crash_bad("%s: slot %u of a living holder has an intent or a pin", when, i);
        if (MU_SLOT_STATE(w) == MU_SLOT_LIVE && mu_load_relaxed(&s->wait_since))
            crash_bad("%s: slot %u of a living holder says that it waits", when, i);
    }
}

static size_t add(size_t n, const char *format, ...) __attribute__((format(printf, 2, 3)));
static size_t add(size_t n, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (n < sizeof board->seen)
        n += (size_t)vsnprintf(board->seen + n, sizeof board->seen - n, format, args);
    va_end(args);
    return n < sizeof board->seen ? n : sizeof board->seen - 1;
}

static uint64_t hash(const void *bytes, size_t len)
{
    uint64_t h = 0xcbf29ce484222325ull, w = 0;
    const uint8_t *p = bytes;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&w, p, 8);
        h = (h ^ w) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 32;
    }
    w = 0;
    memcpy(&w, p, len);
    return (h ^ w) * 0x9e3779b97f4a7c15ull;
}

static size_t end; /* of the text being written */

static int see_barrier(void *arg, const struct muster_barrier_info *i)
{
    (void)arg;
    end = add(end, "barrier %s::%llu passed %d result %d arrived %u/%u missing", i->id, (unsigned long long)i->counter,
              i->passed, i->result, i->arrived, i->participants);
    for (uint32_t k = 0; k < i->missing_count && k < 16; k++)
        end = add(end, " %d", i->missing[k]);
    end = add(end, "\n");
    return 0;
}

static void see_events(struct muster *m)
{
    uint64_t position = 0, lost;

    for (;;) {
        struct muster_event e;
        char payload[64] = "";
        enum muster_status status = muster_event_read(m, &position, 0, &e, payload, sizeof payload - 1, &lost);

        if (status == MUSTER_OK)
            end = add(end, "event %llu type %u task %d: %s\n", (unsigned long long)e.sequence, e.type, e.task_id,
                      payload);
        else if (status == MUSTER_OUT_OF_RANGE)
            end = add(end, "events lost: %llu\n", (unsigned long long)lost);
        else if (status == MUSTER_DEADLINE_EXCEEDED)
            return;
        else
            return crash_bad("event %llu: %s", (unsigned long long)position, muster_last_error());
    }
}

static void see_tasks(struct muster *m)
{
    struct muster_task_info infos[TASKS];
    struct muster_error error;
    size_t count = 0;
    enum muster_status status = muster_task_list(m, infos, TASKS, &count, NULL);

    if (status)
        return crash_bad("task list: %s", muster_last_error());
    for (size_t i = 0; i < count; i++)
        end = add(end, "task %zu state %d cause %d error %d recoverable %d attempt %u ended %d message '%s'\n", i,
                  infos[i].state, infos[i].cause, infos[i].error, infos[i].recoverable, infos[i].attempt,
                  infos[i].ended, infos[i].message);
    status = muster_error_wait(m, 0, &error);
    if (!status)
        end = add(end, "first error: task %d '%s'\n", error.task_id, error.message);
    else if (status != MUSTER_DEADLINE_EXCEEDED)
        crash_bad("error wait: %s", muster_last_error());
}

static void see_members(struct muster *m)
{
    struct muster_membership now;
    struct muster_member members[TASKS];
    size_t count = 0;
    enum muster_status status = muster_membership_read(m, &now, members, TASKS, &count);

    if (status == MUSTER_FAILED_PRECONDITION)
        return;
    if (status)
        return crash_bad("the membership: %s", muster_last_error());
    end = add(end, "epoch %llu change %llu phase %d outcome %d '%s'\n", (unsigned long long)now.epoch,
              (unsigned long long)now.change, now.phase, now.outcome, now.text);
    for (size_t i = 0; i < count; i++)
        end = add(end, "member %d flags %u rank %d next %d\n", members[i].task_id, members[i].flags, members[i].rank,
                  members[i].next_rank);
}

void crash_observe(struct muster *m, bool with_outcomes)
{
    struct muster_kv_list *list;

    end = 0;
    if (with_outcomes)
        for (int i = 0; i < 2; i++)
            end = add(end, "outcome %d %llu %llu\n", board->outcome[i].status, (unsigned long long)board->outcome[i].a,
                      (unsigned long long)board->outcome[i].b);
    if (muster_kv_get_dir(m, "", 0, &list)) {
        crash_bad("cannot list the keys: %s", muster_last_error());
        return;
    }
    for (size_t i = 0; i < list->count; i++)
        end = add(end, "key %.*s: %zu bytes %016llx\n", (int)list->entries[i].key_len, list->entries[i].key,
                  list->entries[i].value_len,
                  (unsigned long long)hash(list->entries[i].value, list->entries[i].value_len));
    muster_kv_list_free(list);
    crash_see_objects(m, board->seen + end, sizeof board->seen - end);
    end += strlen(board->seen + end);
    crash_see_tensors(board->seen + end, sizeof board->seen - end);
    end += strlen(board->seen + end);
    crash_see_queues(board->seen + end, sizeof board->seen - end);
    end += strlen(board->seen + end);
    see_events(m);
    see_tasks(m);
    see_members(m);
    if (muster_barrier_list(m, see_barrier, NULL))
        crash_bad("cannot list the barriers: %s", muster_last_error());
}
