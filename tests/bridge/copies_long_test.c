/* tests/bridge/copies_long_test.c: values that are sent from where they were read, among others that are not. */
#include "cm.h"
#include "bridge/copies.h"
#include "hosts.h"

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

static void values_of_every_size_go_both_ways(void **state)
{
    static const size_t sizes[] = {0, 1, 511, 4096, 1u << 20, MU_COPY_MAX, MU_COPY_MAX + 1, (16u << 20) + 5, 64u << 20};
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}, .segment = {.heap_bytes = 512u << 20}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    uint8_t *value = malloc(64u << 20);

    (void)state;
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
static void long_values_come_among_short_ones(void **state)
{
    enum { KEYS = 12, LONGEST = 70000 };
    static char value[LONGEST], got[LONGEST];
    struct hosts *h = hosts_open(&(struct hosts_config){.tasks = {1, 1}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    uint64_t seed = 1;
    size_t sizes[KEYS], len;
    char key[32];

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_every_size_go_both_ways),
        cmocka_unit_test(long_values_come_among_short_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
