/*
 * tests/kv/size_test.c: the size of the store is right for keys and values of every kind: in the page, in a block of
 * their own, in parts; and deleted ones are gone from it.
 */
#include "cm.h"
#include "job.h"

#include <stdio.h>
#include <stdlib.h>

#include "kv/size.h"

static void expect(struct muster *m, uint64_t keys, uint64_t bytes)
{
    uint64_t got_keys, got_bytes;

    assert_ok(mu_kv_size(m, &got_keys, &got_bytes));
    assert_int_equal(got_keys, keys);
    assert_int_equal(got_bytes, bytes);
}

TEST(keys_and_bytes_are_counted)
{
    static const size_t lengths[] = {0, 1, 64, 513, 5000, 70000, 3000000};
    struct test_job job;
    struct muster *writer, *reader;
    char *value = calloc(1, 3000000), key[32];
    uint64_t bytes = 0;

    assert_non_null(value);
    assert_ok(test_job_create(&job, &(struct muster_segment_config){.num_tasks = 1, .heap_bytes = 64u << 20}));
    writer = test_join(job.name, 0, 0);
    reader = test_join(job.name, -1, MUSTER_JOIN_READ_ONLY);
    expect(reader, 0, 0);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        snprintf(key, sizeof key, "key/%zu", i);
        assert_ok(muster_kv_set(writer, key, MUSTER_NTS, value, lengths[i], NULL));
        bytes += lengths[i];
        expect(reader, i + 1, bytes);
    }
    assert_ok(muster_kv_set(writer, "key/6", MUSTER_NTS, value, 10, NULL));
    expect(reader, 7, bytes - 3000000 + 10);
    assert_ok(muster_kv_delete(writer, "key", MUSTER_NTS, NULL));
    expect(reader, 0, 0);
    assert_ok(muster_leave(writer));
    assert_ok(muster_leave(reader));
    assert_int_equal(test_job_end(&job), 0);
    free(value);
}
