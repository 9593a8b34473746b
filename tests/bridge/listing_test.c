/* tests/bridge/listing_test.c: listings on a host whose heap is smaller than a page of one. */
#include "cm.h"
#include "hosts.h"

#include <muster/muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 2500, SMALL = 4 << 10, LONG = 100 << 10, LEADERS = 64 << 20 };

/* KEYS short values, more than the page of 8 MiB has, and a few that are longer than the pages that there is room for.
 */
static void fill(struct muster *leader, uint8_t *value)
{
    char key[32];

    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "d/%05d", i);
        memset(value, i, SMALL);
        assert_ok(muster_kv_set(leader, key, MUSTER_NTS, value, SMALL, NULL));
    }
    memset(value, 'l', LONG);
    for (int i = 0; i < 5; i++) {
        snprintf(key, sizeof key, "d/%05d/long", i * 100);
        assert_ok(muster_kv_set(leader, key, MUSTER_NTS, value, LONG, NULL));
    }
}

static void assert_same(const struct muster_kv_list *a, const struct muster_kv_list *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_string_equal(a->entries[i].key, b->entries[i].key);
        assert_int_equal(a->entries[i].version, b->entries[i].version);
        assert_int_equal(a->entries[i].value_len, b->entries[i].value_len);
        assert_int_equal(memcmp(a->entries[i].value, b->entries[i].value, a->entries[i].value_len), 0);
    }
}

static void list_with(uint64_t heap)
{
    struct hosts *h = hosts_open(&(struct hosts_config){
        .tasks = {1, 1}, .heap_elsewhere = heap, .segment = {.heap_bytes = LEADERS, .num_buckets = 1024}});
    struct muster *leader = hosts_observer(h, 0), *follower = hosts_observer(h, 1);
    struct muster_kv_list *here, *there;
    uint8_t *value = malloc(LONG);

    assert_non_null(value);
    fill(leader, value);
    for (int i = 0; i < 2; i++) { /* what a page took is given back */
        assert_ok(muster_kv_get_dir(leader, "d", MUSTER_NTS, &there));
        assert_ok(muster_kv_get_dir(follower, "d", MUSTER_NTS, &here));
        assert_int_equal(here->count, KEYS + 5);
        assert_same(here, there);
        muster_kv_list_free(here);
        muster_kv_list_free(there);
    }
    free(value);
    assert_ok(muster_leave(leader));
    assert_ok(muster_leave(follower));
    assert_int_equal(hosts_close(h), 0);
}

TEST(a_page_is_as_small_as_there_is_room)
{
    list_with(6 << 20);
    list_with(1 << 20);
}
