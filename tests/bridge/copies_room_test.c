/* tests/bridge/copies_room_test.c: a host that does not read has so many bytes of copies on their way and no more
 * (I13), and knows what is there when it reads again.
 */
#include "cm.h"
#include "bridge/kv/copies.h"
#include "hosts.h"

#include <muster/muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 6, ROUNDS = 3 }; /* 24 MiB a round */

static void set_all(struct muster *m, uint8_t *value, uint8_t round)
{
    for (int i = 0; i < KEYS; i++) {
        char key[16];

        snprintf(key, sizeof key, "k/%d", i);
        memset(value, round, MU_COPY_MAX);
        assert_ok(muster_kv_set(m, key, MUSTER_NTS, value, MU_COPY_MAX, NULL));
    }
}

static void assert_all(struct muster *m, uint8_t *value, uint8_t round)
{
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        void *got;
        size_t len;

        snprintf(key, sizeof key, "k/%d", i);
        memset(value, round, MU_COPY_MAX);
        assert_ok(muster_kv_get_alloc(m, key, MUSTER_NTS, MUSTER_FOREVER, &got, &len, NULL));
        assert_int_equal(len, MU_COPY_MAX);
        assert_int_equal(memcmp(got, value, len), 0);
        free(got);
    }
}

static uint64_t sent(struct hosts *h)
{
    struct mu_core *core = hosts_lock(h, 0);
    uint64_t bytes;

    assert_non_null(core);
    bytes = mu_copies_sent(core, 1);
    hosts_unlock(h, 0);
    return bytes;
}

/* The leader's agent has looked at every bucket in which the other host is interested. */
static bool has_looked(struct hosts *h)
{
    struct mu_core *core = hosts_lock(h, 0);
    bool all = true;

    assert_non_null(core);
    for (uint32_t i = 0; i < mu_copies_of(core)->in.count; i++) {
        const struct mu_watched *w = &mu_copies_of(core)->in.watched[i];

        /* acquire: pairs with the commit CAS */
        all &= mu_word_same(mu_load_acquire(&core->seg->buckets[w->bucket]), w->seen);
    }
    hosts_unlock(h, 0);
    return all;
}

TEST(what_is_on_its_way_to_who_does_not_read_is_bounded)
{
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .segment = {.heap_bytes = 512u << 20}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    uint8_t *value = malloc(MU_COPY_MAX);
    uint64_t before;

    assert_non_null(value);
    set_all(leader, value, 0);
    assert_all(follower, value, 0);
    hosts_pause(h, 1);
    before = sent(h);
    for (uint8_t round = 1; round <= ROUNDS; round++) {
        set_all(leader, value, round);
        hosts_await(h, has_looked(h), "the leader has looked");
    }
    assert_true(sent(h) - before > MU_COPIES_ROOM / 2);
    assert_true(sent(h) - before <= MU_COPIES_ROOM + MU_COPY_MAX); /* names and frames besides */
    hosts_resume(h, 1);
    assert_ok(muster_kv_sync(follower, MUSTER_FOREVER));
    assert_all(follower, value, ROUNDS);
    free(value);
    assert_ok(muster_leave(leader));
    assert_ok(muster_leave(follower));
    assert_int_equal(hosts_close(h), 0);
}
