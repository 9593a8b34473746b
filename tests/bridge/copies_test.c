/* tests/bridge/copies_test.c: what a follower reads: as on one node, from copies that never hide what came before. */
#include "cm.h"
#include "bridge/kv/copies.h"
#include "child.h"
#include "hosts.h"
#include "segment/remote.h"

#include <muster/muster.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pair {
    struct hosts *h;
    struct muster *leader, *follower;
};

static struct pair open_pair(const struct hosts_config *config)
{
    struct hosts_config two = config ? *config : (struct hosts_config){0};
    struct pair p;

    two.tasks[0] = two.tasks[1] = 1;
    p.h = hosts_open(&two);
    p.leader = hosts_observer(p.h, 0);
    p.follower = hosts_observer(p.h, 1);
    return p;
}

static void close_pair(struct pair *p)
{
    assert_ok(muster_leave(p->leader));
    assert_ok(muster_leave(p->follower));
    assert_int_equal(hosts_close(p->h), 0);
}

/* What was committed at the leader's before is here when this returns. */
static void fresh(struct muster *m)
{
    struct mu_remote_call call = {.op = MU_OP_SYNC, .deadline = MUSTER_FOREVER, .what = "the leader"};
    struct mu_answer answer;
    struct mu_ctx *ctx;

    assert_ok(mu_enter(m, &ctx));
    assert_ok(mu_remote_call(m, ctx, &call, &answer));
    mu_answer_done(&answer);
    mu_exit(ctx);
}

static void set(struct muster *m, const char *key, const char *value)
{
    assert_ok(muster_kv_set(m, key, MUSTER_NTS, value, MUSTER_NTS, NULL));
}

static const char *get(struct muster *m, const char *key)
{
    static char text[256];
    size_t len;
    enum muster_status status = muster_kv_try_get(m, key, MUSTER_NTS, text, sizeof text - 1, &len, NULL);

    if (status == MUSTER_NOT_FOUND)
        return NULL;
    assert_ok(status);
    text[len] = 0;
    return text;
}

/* Keys in a host's own table, copies or not. */
static uint32_t held(const struct pair *p, uint32_t host)
{
    struct muster_segment *seg = hosts_segment(p->h, host);
    struct mu_table t = mu_table_kv(seg);
    uint32_t n = 0;

    for (uint32_t b = 0; b <= t.mask; b++) {
        struct mu_root root;
        uint64_t *body = malloc(MU_CHUNK);

        assert_non_null(body);
        if (mu_object_read(seg, &t.buckets[b], body, &root) == MU_READ_OK)
            n += (uint32_t)mu_root_data(&root)[2];
        free(body);
    }
    return n;
}

static uint64_t calls(const struct pair *p)
{
    return hosts_frames(p->h, 1, MU_FRAME_CALL);
}

TEST(a_miss_asks_and_a_hit_does_not)
{
    struct pair p = open_pair(NULL);
    uint64_t version, local, before;
    char c[8];
    size_t len;

    fresh(p.follower); /* connected */
    before = calls(&p);
    assert_null(get(p.follower, "a"));
    assert_int_equal(calls(&p), before + 1);
    assert_null(get(p.follower, "a")); /* absence is not kept */
    assert_int_equal(calls(&p), before + 2);
    assert_ok(muster_kv_set(p.leader, "a", MUSTER_NTS, "one", 3, &version));
    assert_string_equal(get(p.follower, "a"), "one");
    assert_int_equal(calls(&p), before + 3);
    for (int i = 0; i < 100; i++)
        assert_string_equal(get(p.follower, "a"), "one");
    assert_int_equal(calls(&p), before + 3);
    assert_ok(muster_kv_try_get(p.follower, "/a/", MUSTER_NTS, c, sizeof c, &len, &local));
    assert_int_equal(local, version);
    assert_status(MUSTER_OUT_OF_RANGE, muster_kv_try_get(p.follower, "a", MUSTER_NTS, c, 2, &len, NULL));
    assert_int_equal(len, 3);
    assert_int_equal(calls(&p), before + 3);
    close_pair(&p);
}

TEST(changes_come_by_themselves)
{
    struct pair p = open_pair(NULL);
    uint64_t before;

    set(p.leader, "a", "one");
    set(p.leader, "b", "one");
    assert_string_equal(get(p.follower, "a"), "one");
    before = calls(&p);
    set(p.leader, "a", "two");
    fresh(p.follower);
    assert_string_equal(get(p.follower, "a"), "two");
    assert_int_equal(calls(&p), before + 1); /* the fresh one */
    assert_int_equal(held(&p, 1), 1);        /* nobody wanted b */
    assert_ok(muster_kv_delete(p.leader, "a", MUSTER_NTS, NULL));
    fresh(p.follower);
    assert_int_equal(held(&p, 1), 0);
    assert_null(get(p.follower, "a"));
    set(p.leader, "a", "three");
    assert_string_equal(get(p.follower, "a"), "three");
    close_pair(&p);
}

TEST(a_connection_begins_without_copies)
{
    struct pair p = open_pair(NULL);

    for (int i = 0; i < 300; i++) {
        char key[16];

        snprintf(key, sizeof key, "k/%d", i);
        set(p.leader, key, "x");
        assert_string_equal(get(p.follower, key), "x");
    }
    assert_int_equal(held(&p, 1), 300);
    hosts_cut(p.h, 1);
    set(p.leader, "k/7", "y");
    assert_string_equal(get(p.follower, "k/7"), "x"); /* old, and all of it: nothing newer has been heard */
    hosts_join(p.h, 1);
    fresh(p.follower);
    assert_int_equal(held(&p, 1), 0);
    assert_string_equal(get(p.follower, "k/7"), "y");
    close_pair(&p);
}

struct waiting {
    struct muster *m;
    enum muster_status status;
    uint64_t after, version;
    muster_deadline deadline;
    char text[64], error[256];
    size_t len;
};

static void *wait_there(void *arg)
{
    struct waiting *w = arg;

    w->status = muster_kv_watch(w->m, "w", MUSTER_NTS, w->after, w->deadline, w->text, sizeof w->text - 1, &w->len,
                                &w->version);
    snprintf(w->error, sizeof w->error, "%s", muster_last_error());
    w->text[w->status ? 0 : w->len] = 0;
    return NULL;
}

static bool is_asleep(const struct waiting *w)
{
    struct muster_segment *seg = w->m->seg;

    for (uint32_t i = 0; i < seg->num_slots; i++) {
        char text[96];

        mu_copy_out((uint64_t *)text, seg->slots[i].wait_text, 12);
        if (mu_load_acquire(&seg->slots[i].wait_since) && !strncmp(text, "key w", 5) &&
            !mu_load_acquire(&seg->asks[i / 64]))
            return true;
    }
    return false;
}

static pthread_t begin_waiting(const struct pair *p, struct waiting *w)
{
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, wait_there, w), 0);
    hosts_await(p->h, is_asleep(w), "the waiter is asleep");
    return t;
}

TEST(waits_end_as_on_one_node)
{
    struct pair p = open_pair(NULL);
    struct waiting w = {.m = p.follower, .deadline = MUSTER_FOREVER};
    pthread_t t;

    t = begin_waiting(&p, &w); /* for a key that comes */
    set(p.leader, "w", "one");
    pthread_join(t, NULL);
    assert_int_equal(w.status, MUSTER_OK);
    assert_string_equal(w.text, "one");

    w.after = w.version; /* for a change of it */
    t = begin_waiting(&p, &w);
    set(p.leader, "w", "two");
    pthread_join(t, NULL);
    assert_int_equal(w.status, MUSTER_OK);
    assert_string_equal(w.text, "two");

    w.after = w.version; /* that is a deletion */
    t = begin_waiting(&p, &w);
    assert_ok(muster_kv_delete(p.leader, "w", MUSTER_NTS, NULL));
    pthread_join(t, NULL);
    assert_int_equal(w.status, MUSTER_NOT_FOUND);
    assert_non_null(strstr(w.error, "key w was deleted"));

    w.after = 0; /* through a broken connection */
    t = begin_waiting(&p, &w);
    hosts_cut(p.h, 1);
    set(p.leader, "w", "three");
    hosts_join(p.h, 1);
    pthread_join(t, NULL);
    assert_int_equal(w.status, MUSTER_OK);
    assert_string_equal(w.text, "three");

    w.after = w.version; /* until its time is over */
    w.deadline = muster_after_ns(30000000);
    wait_there(&w);
    assert_int_equal(w.status, MUSTER_DEADLINE_EXCEEDED);
    w.after = 0; /* and at once: what is there is found all the same */
    w.deadline = 0;
    wait_there(&w);
    assert_int_equal(w.status, MUSTER_OK);
    assert_string_equal(w.text, "three");
    assert_ok(muster_kv_delete(p.leader, "w", MUSTER_NTS, NULL));
    fresh(p.follower);
    wait_there(&w);
    assert_int_equal(w.status, MUSTER_DEADLINE_EXCEEDED);
    close_pair(&p);
}

/* A value too large for a copy is watched all the same. */
TEST(large_values_are_watched)
{
    struct pair p = open_pair(&(struct hosts_config){.segment = {.heap_bytes = 128u << 20}});
    size_t len = MU_COPY_MAX + 1;
    char *value = calloc(1, len);
    struct waiting w = {.m = p.follower, .deadline = MUSTER_FOREVER};
    pthread_t t;

    assert_non_null(value);
    for (int i = 0; i < 3; i++) {
        t = begin_waiting(&p, &w);
        value[0] = (char)i;
        assert_ok(muster_kv_set(p.leader, "w", MUSTER_NTS, value, len, NULL));
        pthread_join(t, NULL);
        assert_int_equal(w.status, MUSTER_OUT_OF_RANGE);
        assert_int_equal(w.len, len);
        w.after = w.version;
    }
    t = begin_waiting(&p, &w);
    assert_ok(muster_kv_delete(p.leader, "w", MUSTER_NTS, NULL));
    pthread_join(t, NULL);
    assert_int_equal(w.status, MUSTER_NOT_FOUND);
    free(value);
    close_pair(&p);
}

TEST(what_is_held_is_bounded)
{
    struct pair p = open_pair(NULL);
    struct waiting w = {.m = p.follower, .deadline = MUSTER_FOREVER};
    struct mu_core *core = hosts_lock(p.h, 1);
    pthread_t t;

    assert_non_null(core);
    mu_copies_bound(core, 100, 1u << 20);
    hosts_unlock(p.h, 1);
    t = begin_waiting(&p, &w);
    for (int i = 0; i < 1000; i++) {
        char key[16], value[16];

        snprintf(key, sizeof key, "k/%d", i);
        snprintf(value, sizeof value, "%d", i);
        set(p.leader, key, value);
        assert_string_equal(get(p.follower, key), value);
    }
    for (int i = 0; i < 1000; i += 7) { /* whether it was dropped or not, it is read, and followed */
        char key[16], value[16];

        snprintf(key, sizeof key, "k/%d", i);
        snprintf(value, sizeof value, "%d", i);
        assert_string_equal(get(p.follower, key), value);
        set(p.leader, key, "new");
        fresh(p.follower);
        assert_string_equal(get(p.follower, key), "new");
    }
    assert_in_range(held(&p, 1), 80, 100);
    core = hosts_lock(p.h, 0);
    assert_non_null(core);
    assert_in_range(mu_copies_of(core)->in.shares[1].keys, 80, 110); /* and w */
    hosts_unlock(p.h, 0);
    set(p.leader, "w", "here"); /* in spite of all the rounds */
    pthread_join(t, NULL);
    assert_int_equal(w.status, MUSTER_OK);
    close_pair(&p);
}

/* The follower says that it dropped a version which the leader has replaced by another, already on its way there. */
TEST(what_is_on_its_way_is_not_forgotten)
{
    struct pair p = open_pair(NULL);
    struct mu_pack forget = {0};
    struct mu_core *core;
    uint64_t first;

    assert_ok(muster_kv_set(p.leader, "k", MUSTER_NTS, "one", 3, &first));
    assert_string_equal(get(p.follower, "k"), "one");
    set(p.leader, "k", "two");
    fresh(p.follower);
    assert_string_equal(get(p.follower, "k"), "two");
    core = hosts_lock(p.h, 0);
    mu_pack_u64(&forget, mu_copies_sent(core, 1));
    hosts_unlock(p.h, 0);
    mu_pack_u64(&forget, first);
    mu_pack_blob(&forget, "k", 1);
    hosts_inject(p.h, 1, 0, MU_FRAME_FORGET, forget.bytes, forget.len);
    mu_pack_done(&forget);
    fresh(p.follower);
    set(p.leader, "k", "three");
    fresh(p.follower);
    assert_string_equal(get(p.follower, "k"), "three");
    close_pair(&p);
}

/* The same of a version that was gone meanwhile, as when another key of its bucket changes, and is sent once more. */
TEST(nor_when_it_is_on_its_way_again)
{
    struct pair p = open_pair(NULL);
    struct mu_pack forget = {0};
    struct mu_core *core;
    struct mu_copies *c;
    uint64_t version;
    size_t wants = 0;

    assert_ok(muster_kv_set(p.leader, "k", MUSTER_NTS, "one", 3, &version));
    assert_string_equal(get(p.follower, "k"), "one");
    core = hosts_lock(p.h, 0);
    c = mu_copies_of(core);
    mu_pack_u64(&forget, mu_copies_sent(core, 1));
    for (uint32_t i = 0; i < c->in.count; i++) {
        for (struct mu_wanted *k = c->in.watched[i].keys; k; k = k->next, wants++)
            k->wants[0].sent = 0;
        mu_subscription_look_again(&c->in, c->in.watched[i].bucket);
    }
    assert_int_equal(wants, 1);
    mu_core_want(core, 1);
    hosts_unlock(p.h, 0);
    fresh(p.follower);
    mu_pack_u64(&forget, version);
    mu_pack_blob(&forget, "k", 1);
    hosts_inject(p.h, 1, 0, MU_FRAME_FORGET, forget.bytes, forget.len);
    mu_pack_done(&forget);
    fresh(p.follower);
    set(p.leader, "k", "two");
    fresh(p.follower);
    assert_string_equal(get(p.follower, "k"), "two");
    close_pair(&p);
}

TEST(bad_batches_break_the_connection)
{
    static const struct {
        uint8_t type;
        size_t len;
        uint8_t bytes[40];
    } bad[] = {
        {MU_FRAME_COPIES, 5, {2}},                                            /* a flag that is none */
        {MU_FRAME_COPIES, 5, {0, 1}},                                         /* an item that is not there */
        {MU_FRAME_COPIES, 23, {0, 1, 0, 0, 0, 7}},                            /* of no kind */
        {MU_FRAME_COPIES, 22, {0, 1, 0, 0, 0, 1, 1}},                         /* no key */
        {MU_FRAME_COPIES, 23, {0, 1, 0, 0, 0, 1, [14] = 1, 0, 0, 0, 'k'}},    /* a value without a version */
        {MU_FRAME_COPIES, 23, {0, 1, 0, 0, 0, 0, 9, [14] = 1, 0, 0, 0, 'k'}}, /* GONE with one */
        {MU_FRAME_COPIES, 24, {0, 1, 0, 0, 0, 1, 9, [14] = 1, 0, 0, 0, 'k', 255, 255, 255, 255}},
        {MU_FRAME_FORGET, 8, {1}},                                  /* more than was sent */
        {MU_FRAME_FORGET, 21, {[8] = 1, [16] = 200, 0, 0, 0, 'k'}}, /* a key that ends beyond it */
        {MU_FRAME_FORGET, 21, {[16] = 1, 0, 0, 0, 'k'}},            /* no version */
    };
    struct pair p = open_pair(&(struct hosts_config){.stepped = true});
    struct mu_core *core;
    char why[700];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bool down = bad[i].type == MU_FRAME_COPIES;

        hosts_mend(p.h);
        hosts_settle(p.h, NULL);
        hosts_inject(p.h, !down, down, bad[i].type, bad[i].bytes, bad[i].len);
        hosts_settle(p.h, NULL);
        core = hosts_lock(p.h, 1);
        assert_int_equal(core->peers[0].state, MU_PEER_DOWN);
        hosts_unlock(p.h, 1);
        hosts_dropped(p.h, why);
        if (!strstr(why, down ? "sent a COPIES frame" : "sent a FORGET frame"))
            fail_msg("bad frame %zu: \"%s\"", i, why);
    }
    close_pair(&p);
}

static void same_listing(const struct pair *p, const char *directory)
{
    struct muster_kv_list *a, *b;
    size_t here, there;

    assert_ok(muster_kv_get_dir(p->leader, directory, MUSTER_NTS, &a));
    assert_ok(muster_kv_get_dir(p->follower, directory, MUSTER_NTS, &b));
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->entries[i].key, b->entries[i].key);
        assert_int_equal(a->entries[i].version, b->entries[i].version);
        assert_int_equal(a->entries[i].value_len, b->entries[i].value_len);
        assert_int_equal(memcmp(a->entries[i].value, b->entries[i].value, a->entries[i].value_len), 0);
        assert_int_equal(((const char *)b->entries[i].value)[b->entries[i].value_len], 0);
    }
    assert_ok(muster_kv_count(p->leader, directory, MUSTER_NTS, &there));
    assert_ok(muster_kv_count(p->follower, directory, MUSTER_NTS, &here));
    assert_int_equal(here, there);
    assert_int_equal(here, a->count);
    muster_kv_list_free(a);
    muster_kv_list_free(b);
}

TEST(listings_are_the_leaders)
{
    struct pair p = open_pair(&(struct hosts_config){.segment = {.heap_bytes = 256u << 20}});
    char *value = malloc(20u << 20);
    struct muster_kv_list *none;

    assert_non_null(value);
    memset(value, 'v', 20u << 20);
    same_listing(&p, "");
    for (int i = 0; i < 500; i++) {
        char key[64];

        snprintf(key, sizeof key, "%s/%d/%0*d", i % 3 ? "a" : "b", i % 7, i % 20 + 1, i);
        assert_ok(muster_kv_set(p.leader, key, MUSTER_NTS, value, (size_t)i * i % 5000, NULL));
    }
    set(p.follower, "a/0/mine", "from here");
    same_listing(&p, "");
    same_listing(&p, "a");
    same_listing(&p, "b/3");
    same_listing(&p, "c");
    for (int i = 0; i < 24; i++) { /* several pages, and values that none of them holds */
        char key[64];

        snprintf(key, sizeof key, "large/%d", i);
        assert_ok(muster_kv_set(p.leader, key, MUSTER_NTS, value, i < 20 ? 1u << 20 : (size_t)(i - 19) << 22, NULL));
    }
    same_listing(&p, "large");
    same_listing(&p, "/");
    assert_status(MUSTER_INVALID_ARGUMENT, muster_kv_get_dir(p.follower, "a/../b", MUSTER_NTS, &none));
    free(value);
    close_pair(&p);
}

/* `muster kv VERB OPERAND`, from the follower's host: what it prints, without the newline. */
struct command {
    const char *verb, *operand, *wait, *job;
    int to[2];
};

static int run_it(void *arg)
{
    struct command *c = arg;

    dup2(c->to[1], 1);
    dup2(c->to[1], 2);
    close(c->to[0]);
    close(c->to[1]);
    execl(getenv("MUSTER"), "muster", "kv", c->verb, "--job", c->job, c->operand, c->wait, NULL);
    return 127;
}

static const char *command(const struct pair *p, const char *verb, const char *operand, const char *wait)
{
    static char text[256];
    struct command c = {.verb = verb, .operand = operand, .wait = wait, .job = hosts_name(p->h, 1)};
    ssize_t n, len = 0;
    pid_t pid;

    assert_int_equal(pipe(c.to), 0);
    pid = test_fork(run_it, &c);
    close(c.to[1]);
    while ((n = read(c.to[0], text + len, sizeof text - 1 - (size_t)len)) > 0)
        len += n;
    close(c.to[0]);
    test_reap(pid);
    text[len] = 0;
    text[strcspn(text, "\n")] = 0;
    return text;
}

TEST(the_command_line_asks_the_leader)
{
    struct pair p = open_pair(NULL);

    if (!getenv("MUSTER")) {
        printf("skipped: $MUSTER does not name the command\n");
        close_pair(&p);
        skip();
    }
    assert_non_null(strstr(command(&p, "get", "d/a", NULL), "not found"));
    set(p.leader, "d/a", "one");
    set(p.leader, "d/b", "two");
    assert_string_equal(command(&p, "get", "d/a", NULL), "one");
    assert_string_equal(command(&p, "get", "d/b", "--wait=60s"), "two");
    assert_string_equal(command(&p, "count", "d", NULL), "2");
    assert_non_null(strstr(command(&p, "list", "d", NULL), "d/a"));
    close_pair(&p);
}
