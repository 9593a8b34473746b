/* tests/bridge/once_test.c: what a task of another host changes is changed once: whatever connections break, whichever
 * agents die between any two of their steps, and whether the caller lives or not. */
#include "cm.h"
#include "child.h"
#include "hosts.h"

#include <muster/muster.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Hosts that are slow because this machine is are not given up. */
#define PATIENCE_NS 600000000000u
enum { WORKERS = 4, ROUNDS = 60, VICTIMS = 60 };

/* What the workers say of themselves, in memory that they share with the test. */
struct log {
    _Atomic uint64_t begun[WORKERS], done[WORKERS];
};
static struct log *said;

static struct log *new_log(void)
{
    struct log *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(l != MAP_FAILED);
    return l;
}

static void read_all(struct muster *m, const char *key, char **ret_text)
{
    void *text = NULL;
    size_t len;
    enum muster_status status = muster_kv_get_alloc(m, key, MUSTER_NTS, 0, &text, &len, NULL);

    *ret_text = status ? calloc(1, 1) : text;
    assert_non_null(*ret_text);
}

static int64_t number_at(struct muster *m, const char *key)
{
    char *text;
    int64_t n;

    read_all(m, key, &text);
    n = strtoll(text, NULL, 10);
    free(text);
    return n;
}

/* One round of everything that changes something; each answer is checked. `tag` is unlike any other round's. */
static void change_all(struct muster *m, const char *tag)
{
    char key[64], value[64], found[96];
    uint64_t version, next;
    size_t count;
    int64_t sum;

    snprintf(value, sizeof value, "%s;", tag);
    CHECK(muster_kv_increment(m, "counter", MUSTER_NTS, 1, &sum) == MUSTER_OK && sum > 0);
    CHECK(muster_kv_append(m, "log", MUSTER_NTS, value, strlen(value), &count) == MUSTER_OK && count >= strlen(value));
    snprintf(key, sizeof key, "own/%s", tag);
    CHECK(muster_kv_insert(m, key, MUSTER_NTS, "1", 1) == MUSTER_OK);
    CHECK(muster_kv_insert(m, key, MUSTER_NTS, "2", 1) == MUSTER_ALREADY_EXISTS);
    CHECK(muster_kv_set(m, key, MUSTER_NTS, "3", 1, &version) == MUSTER_OK && version);
    CHECK(muster_kv_compare_and_set(m, key, MUSTER_NTS, version, "4", 1, &next) == MUSTER_OK && next > version);
    CHECK(muster_kv_compare_and_set(m, key, MUSTER_NTS, version, "5", 1, &version) == MUSTER_ABORTED);
    CHECK(version == next);
    for (int i = 0; i < 5; i++) {
        snprintf(found, sizeof found, "%s/part %d", key, i);
        CHECK(muster_kv_insert(m, found, MUSTER_NTS, "", 0) == MUSTER_OK);
    }
    CHECK(muster_kv_delete(m, key, MUSTER_NTS, &count) == MUSTER_OK && count == 6);
    CHECK(muster_kv_delete(m, key, MUSTER_NTS, &count) == MUSTER_OK && count == 0);
}

static int work(struct muster *m, void *arg)
{
    int self = *(int *)arg;
    char tag[32];

    for (int n = 0; n < ROUNDS; n++) {
        snprintf(tag, sizeof tag, "%d.%d", self, n);
        change_all(m, tag);
        atomic_store(&said->done[self], n + 1u);
    }
    return 0;
}

/* Every tag once in the log. */
static void assert_logged_once(struct muster *m, int workers, int rounds)
{
    char tag[32], *text;

    read_all(m, "log", &text);
    for (int w = 0; w < workers; w++)
        for (int n = 0; n < rounds; n++) {
            const char *at;
            int seen = 0;

            snprintf(tag, sizeof tag, "%d.%d;", w, n);
            for (at = text; (at = strstr(at, tag)); at++)
                seen += at == text || at[-1] == ';';
            if (seen != 1)
                fail_msg("%s is there %d times, not once", tag, seen);
        }
    free(text);
}

static bool all_done(void)
{
    for (int w = 0; w < WORKERS; w++)
        if (atomic_load(&said->done[w]) < ROUNDS)
            return false;
    return true;
}

/* One fault; the next mends it. */
static void break_something(struct hosts *h, struct test_random *r)
{
    uint32_t follower = 1 + (uint32_t)test_below(r, hosts_count(h) - 1), any = (uint32_t)test_below(r, hosts_count(h));

    switch (test_below(r, 6)) {
    case 0: hosts_cut(h, follower); break;
    case 1: hosts_cut_after(h, follower, (uint32_t)test_below(r, 12)); break;
    case 2: hosts_kill(h, any); break;
    case 3: hosts_kill_after(h, any, (uint32_t)test_below(r, 30)); break;
    case 4:
        hosts_kill_after(h, 0, (uint32_t)test_below(r, 30));
        hosts_kill_after(h, follower, (uint32_t)test_below(r, 30));
        break;
    default:
        hosts_cut_after(h, follower, (uint32_t)test_below(r, 6));
        hosts_kill_after(h, 0, (uint32_t)test_below(r, 10));
    }
}

static bool some_progress(uint64_t *before)
{
    uint64_t sum = 0;

    for (int w = 0; w < WORKERS; w++)
        sum += atomic_load(&said->done[w]);
    if (sum == *before && !all_done())
        return false;
    *before = sum;
    return true;
}

TEST(random_faults_change_no_sum)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 2, 2}, .timeout_ns = PATIENCE_NS});
    struct muster *leader = hosts_observer(h, 0);
    struct test_random r = {test_seed()};
    int ids[WORKERS], faults = 0;
    uint64_t progress = 0;
    char why[700];
    pid_t pids[WORKERS];
    size_t count;

    said = new_log();
    for (int w = 0; w < WORKERS; w++) {
        ids[w] = w;
        pids[w] = hosts_task(h, (uint32_t)w + 1, work, &ids[w]);
    }
    while (!all_done()) {
        break_something(h, &r);
        faults++;
        for (uint64_t n = test_below(&r, 3); n; n--) /* for a while, or at once */
            number_at(leader, "counter");
        hosts_mend(h);
        hosts_await(h, some_progress(&progress),
                    "somebody gets on after %d faults (the last connection that an agent "
                    "broke: %s)",
                    faults, hosts_dropped(h, why));
    }
    for (int w = 0; w < WORKERS; w++)
        assert_int_equal(hosts_reap(h, pids[w]), 0);
    print_message("%d faults\n", faults);
    assert_int_equal(number_at(leader, "counter"), WORKERS * ROUNDS);
    assert_logged_once(leader, WORKERS, ROUNDS);
    assert_ok(muster_kv_count(leader, "own", MUSTER_NTS, &count));
    assert_int_equal(count, 0);
    munmap(said, sizeof *said);
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

/* ---- every step ---- */

/* A round for each byte; "q" is the end. */
static int work_on_demand(struct muster *m, void *arg)
{
    int fd = *(int *)arg;
    char tag[32], c;

    for (int n = 0; read(fd, &c, 1) == 1 && c != 'q'; n++) {
        snprintf(tag, sizeof tag, "0.%d", n);
        change_all(m, tag);
        atomic_store(&said->done[0], n + 1u);
    }
    return 0;
}

struct round {
    struct hosts *h;
    uint64_t number;
    bool hit; /* the fault came */
};

/* Whoever died, or was cut off, comes back at the next look: so the others see that it was away. */
static bool round_is_over(struct round *r)
{
    if (atomic_load(&said->done[0]) >= r->number)
        return true;
    for (uint32_t i = 0; i < hosts_count(r->h); i++)
        if (!hosts_lives(r->h, i) || (i && !hosts_connected(r->h, i))) {
            r->hit = true;
            hosts_settle(r->h, NULL);
            hosts_mend(r->h);
        }
    return false;
}

/* A fault at one place more in each round, until it lies behind the round's end. */
static uint64_t fault_everywhere(struct hosts *h, int fd, uint64_t from, void (*fault)(struct hosts *h, uint32_t place))
{
    struct round r = {.h = h, .number = from, .hit = true};

    for (uint32_t place = 0; r.hit; place++) {
        r.number++;
        r.hit = false;
        fault(h, place);
        assert_int_equal(write(fd, "r", 1), 1);
        hosts_await(h, round_is_over(&r), "round %d ends; the fault was at place %u", (int)r.number, place);
        hosts_mend(h);
        hosts_settle(h, NULL);
    }
    return r.number;
}

static void kill_leader(struct hosts *h, uint32_t place)
{
    hosts_kill_after(h, 0, place);
}

static void kill_follower(struct hosts *h, uint32_t place)
{
    hosts_kill_after(h, 1, place);
}

static void cut(struct hosts *h, uint32_t place)
{
    hosts_cut_after(h, 1, place);
}

TEST(a_fault_at_any_step_changes_no_sum)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .stepped = true, .timeout_ns = PATIENCE_NS});
    struct muster *leader = hosts_observer(h, 0);
    uint64_t rounds = 0, before;
    int fds[2];
    pid_t pid;

    said = new_log();
    assert_int_equal(pipe(fds), 0);
    hosts_settle(h, NULL);
    pid = hosts_task(h, 1, work_on_demand, &fds[0]);
    before = rounds;
    rounds = fault_everywhere(h, fds[1], rounds, cut);
    print_message("cut after each of %d frames\n", (int)(rounds - before));
    before = rounds;
    rounds = fault_everywhere(h, fds[1], rounds, kill_leader);
    print_message("the leader's agent killed before each of %d steps\n", (int)(rounds - before));
    assert_true(rounds - before > 30);
    before = rounds;
    rounds = fault_everywhere(h, fds[1], rounds, kill_follower);
    print_message("the follower's agent killed before each of %d steps\n", (int)(rounds - before));
    assert_true(rounds - before > 30);
    assert_int_equal(write(fds[1], "q", 1), 1);
    assert_int_equal(hosts_reap(h, pid), 0);
    assert_int_equal(number_at(leader, "counter"), rounds);
    assert_logged_once(leader, 1, (int)rounds);
    close(fds[0]);
    close(fds[1]);
    munmap(said, sizeof *said);
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

/* ---- callers that die ---- */

static int count_up(struct muster *m, void *arg)
{
    (void)arg;
    for (uint64_t n = 0;; n++) {
        atomic_store(&said->begun[0], n + 1);
        CHECK(muster_kv_increment(m, "counter", MUSTER_NTS, 1, NULL) == MUSTER_OK);
        atomic_store(&said->done[0], n + 1);
    }
    return 0;
}

TEST(callers_that_die_have_called_once_or_not_at_all)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .timeout_ns = PATIENCE_NS});
    struct muster *leader = hosts_observer(h, 0);
    struct test_random r = {test_seed()};
    int64_t least = 0, most = 0, cut_off;

    said = new_log();
    for (int i = 0; i < VICTIMS; i++) {
        uint64_t calls = test_below(&r, 8);
        pid_t pid;

        atomic_store(&said->begun[0], 0);
        atomic_store(&said->done[0], 0);
        pid = hosts_visitor(h, 1, count_up, NULL); /* in the slot of the one before it */
        hosts_await(h, atomic_load(&said->begun[0]) > calls, "a call has begun");
        if (!test_below(&r, 3))
            break_something(h, &r);
        kill(pid, SIGKILL);
        assert_int_equal(test_reap(pid), 1000 + SIGKILL);
        hosts_mend(h);
        least += (int64_t)atomic_load(&said->done[0]);
        most += (int64_t)atomic_load(&said->begun[0]);
    }
    cut_off = most - least;
    print_message("%d of %d calls were cut off\n", (int)cut_off, (int)most);
    assert_true(cut_off > 0);
    assert_true(number_at(leader, "counter") >= least);
    assert_true(number_at(leader, "counter") <= most);
    munmap(said, sizeof *said);
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}

struct census {
    struct muster *m;
    struct mu_ctx *ctx;
    int open;
    bool wanted;
};

static void count_open(void *arg, uint32_t slot)
{
    struct census *c = arg;
    struct mu_request r;

    if (mu_remote_read(c->ctx, slot, &r))
        fail_msg("a call cannot be read: %s", muster_last_error());
    c->open += r.op != MU_OP_NONE;
    mu_request_done(&r);
}

/* Whether some call is open on the host, as wanted. */
static bool some_open(struct census *c)
{
    c->open = 0;
    if (mu_enter(c->m, &c->ctx))
        fail_msg("%s", muster_last_error());
    mu_remote_collect_all(c->m->seg, count_open, c);
    mu_exit(c->ctx);
    return (c->open > 0) == c->wanted;
}

static int set_large(struct muster *m, void *arg)
{
    size_t len = 8u << 20;
    void *value = calloc(1, len);

    (void)arg;
    CHECK(value);
    CHECK(muster_kv_set(m, "large", MUSTER_NTS, value, len, NULL) == MUSTER_OK);
    free(value);
    return 0;
}

/* More of them than the segment could hold if the room stayed taken. */
TEST(a_dead_caller_s_call_is_taken_back_with_its_room)
{
    struct muster_segment_config c = {.heap_bytes = 32u << 20};
    struct hosts *h =
        hosts_open(&(struct hosts_config){.tasks = {1, 1}, .apart = true, .timeout_ns = PATIENCE_NS, .segment = c});
    struct census census = {.m = hosts_observer(h, 1)};
    struct muster *leader = hosts_observer(h, 0);

    for (int i = 0; i < 6; i++) {
        pid_t pid = hosts_visitor(h, 1, set_large, NULL);

        census.wanted = true;
        hosts_await(h, some_open(&census), "calls are open, or none is");
        kill(pid, SIGKILL);
        assert_int_equal(test_reap(pid), 1000 + SIGKILL);
        census.wanted = false;
        hosts_await(h, some_open(&census), "calls are open, or none is");
    }
    hosts_join(h, 1);
    assert_int_equal(hosts_reap(h, hosts_visitor(h, 1, set_large, NULL)), 0);
    assert_ok(muster_leave(census.m));
    assert_ok(muster_leave(leader));
    assert_int_equal(hosts_close(h), 0);
}
