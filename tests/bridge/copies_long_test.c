/* tests/bridge/copies_long_test.c: values that are sent from where they were read, among others that are not. */
#include "cm.h"
#include "bridge/kv/copies.h"
#include "hosts.h"
#include "kv/remote.h"
#include "task/task.h"

#include <muster/muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_value(struct muster *m, const char *key, const void *value, size_t size)
{
    void *got;
    size_t len;

    assert_ok(muster_kv_get_alloc(m, key, MUSTER_NTS, MUSTER_FOREVER, &got, &len, NULL));
    assert_int_equal(len, size);
    assert_int_equal(memcmp(got, value, len), 0);
    free(got);
}

TEST(values_of_every_size_go_both_ways)
{
    static const size_t sizes[] = {0, 1, 511, 4096, 1u << 20, MU_COPY_MAX, MU_COPY_MAX + 1, (16u << 20) + 5, 64u << 20};
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .segment = {.heap_bytes = 512u << 20}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    uint8_t *value = malloc(64u << 20);

    assert_non_null(value);
    for (size_t i = 0; i < 64u << 20; i++)
        value[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ok(muster_kv_set(leader, "v", MUSTER_NTS, value, sizes[i], NULL));
        assert_ok(muster_kv_sync(follower, MUSTER_FOREVER));
        assert_value(follower, "v", value, sizes[i]);
        assert_ok(muster_kv_set(follower, "w", MUSTER_NTS, value, sizes[i], NULL));
        assert_value(leader, "w", value, sizes[i]);
    }
    free(value);
    assert_ok(muster_leave(leader));
    assert_ok(muster_leave(follower));
    assert_int_equal(hosts_close(h), 0);
}

/* Of several changes that come at once, long ones end frames, short ones are between them, and some keys go. */
TEST(long_values_come_among_short_ones)
{
    enum { KEYS = 12, LONGEST = 70000 };
    static char value[LONGEST], got[LONGEST];
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    uint64_t seed = 1;
    size_t sizes[KEYS], len;
    char key[32];

    for (int round = 0; round < 60; round++) {
        for (int k = 0; k < KEYS; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            snprintf(key, sizeof key, "k%d", k);
            sizes[k] = seed >> 60 < 2 ? SIZE_MAX : seed >> 63 ? 1 + (seed >> 33) % 40 : 4000 + (seed >> 33) % 66000;
            memset(value, 'a' + (round + k) % 26, LONGEST);
            if (sizes[k] == SIZE_MAX)
                muster_kv_delete(leader, key, MUSTER_NTS, NULL);
            else if ((round + k) % 5)
                assert_ok(muster_kv_set(leader, key, MUSTER_NTS, value, sizes[k], NULL));
            else
                assert_ok(muster_kv_set(follower, key, MUSTER_NTS, value, sizes[k], NULL));
        }
        assert_ok(muster_kv_sync(follower, MUSTER_FOREVER));
        for (int k = 0; k < KEYS; k++) {
            enum muster_status status;

            snprintf(key, sizeof key, "k%d", k);
            status = muster_kv_try_get(follower, key, MUSTER_NTS, got, sizeof got, &len, NULL);
            memset(value, 'a' + (round + k) % 26, LONGEST);
            assert_int_equal(status, sizes[k] == SIZE_MAX ? MUSTER_NOT_FOUND : MUSTER_OK);
            if (!status)
                assert_int_equal(len, sizes[k]);
            if (!status)
                assert_memory_equal(got, value, len);
        }
    }
    assert_ok(muster_leave(leader));
    assert_ok(muster_leave(follower));
    assert_int_equal(hosts_close(h), 0);
}

/* The last bytes of a value, of which the leader says no more than was asked for: nor keeps it for them. */
TEST(the_end_of_a_value_holds_no_more_than_that)
{
    enum { LONG = 1 << 20, END = 5000 };
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    struct mu_pack p = {0};
    struct mu_remote_call call = {.op = MU_OP_KV_GET, .request = &p, .deadline = MUSTER_FOREVER, .what = "the end"};
    struct mu_answer answer;
    struct mu_ctx *ctx;
    char *value = calloc(1, LONG);

    assert_non_null(value);
    assert_ok(muster_kv_set(leader, "v", MUSTER_NTS, value, LONG, NULL));
    assert_value(follower, "v", value, LONG);
    mu_pack_u8(&p, MU_READ_WHOLE);
    mu_pack_u64(&p, LONG - END);
    mu_pack_blob(&p, "v", 1);
    assert_ok(mu_enter(follower, &ctx));
    assert_ok(mu_remote_call(follower, ctx, &call, &answer));
    mu_exit(ctx);
    assert_int_equal(answer.body.left, 1 + 8 + 8 + END);
    assert_true(hosts_besides(h, 0) < END);
    mu_answer_done(&answer);
    mu_pack_done(&p);
    free(value);
    assert_ok(muster_leave(leader));
    assert_ok(muster_leave(follower));
    assert_int_equal(hosts_close(h), 0);
}

static struct mu_wanted *wanted(size_t value_len)
{
    struct mu_wanted *k = calloc(1, sizeof *k + 4);

    memcpy(k->key, "key", 3);
    k->key_len = 3;
    k->version = 1;
    k->len = value_len;
    k->blob = mu_blob_new(value_len);
    return k;
}

/* Where there was no memory to note a long value, those behind it are not taken for its bytes. */
TEST(a_batch_that_lacks_memory_is_not_sent)
{
    struct mu_peer peers[2] = {{0}, {.state = MU_PEER_UP, .may_go = SIZE_MAX}};
    struct mu_outgoing out[2] = {0};
    struct mu_copies c = {.out = out};
    struct mu_core core = {.leader = true, .num_hosts = 2, .peers = peers, .state = {[MU_M_COPIES] = &c}};
    struct mu_wanted *k = wanted(9000);
    struct mu_want want = {.host = 1};

    mu_batch_value(&c, &out[1], k, &want);
    out[1].slices.failed = true;
    for (int i = 0; i < 3; i++) {
        want.sent = 0;
        mu_batch_value(&c, &out[1], k, &want);
    }
    mu_batch_send(&core, 1);
    assert_true(peers[1].ahead.failed);
    assert_true(peers[1].wanted); /* so the core sees it in this turn or the next */
    assert_int_equal(peers[1].ahead.len, 0);
    assert_int_equal(k->blob->holders, 1);
    mu_batch_done(&out[1]);
    mu_blob_drop(k->blob);
    free(k);
}
