/*
 * tests/kv/key_test.c: normalisation of paths, against a slow and plain one, for every short string of the bytes that
 * matter.
 */
#include "cm.h"

#include <string.h>

#include "job.h"
#include "kv/key.h"

static struct test_job job;

static int setup(void)
{
    return test_job_create(&job, NULL) ? -1 : 0;
}

static int teardown(void)
{
    return test_job_end(&job) ? -1 : 0;
}

/* Part by part; -1: refused. */
static int plain(const char *key, size_t len, char *to)
{
    int n = 0;

    for (size_t i = 0; i <= len;) {
        size_t start = i;

        while (i < len && key[i] != '/')
            i++;
        if (memchr(key + start, 0, i - start))
            return -1;
        if ((i - start == 1 && key[start] == '.') || (i - start == 2 && !memcmp(key + start, "..", 2)))
            return -1;
        if (i > start) {
            if (n)
                to[n++] = '/';
            memcpy(to + n, key + start, i - start);
            n += (int)(i - start);
        }
        i++;
    }
    return n ? n : -1;
}

static void check(const char *key, size_t len)
{
    struct mu_key k, made;
    char expected[64];
    int n = plain(key, len, expected);
    enum muster_status status = mu_kv_key(job.segment, key, len, &k);

    if ((n < 0) != (status != MUSTER_OK))
        fail_msg("\"%.*s\": %s, but %d", (int)len, key, muster_status_name(status), n);
    if (n < 0) {
        assert_int_equal(status, MUSTER_INVALID_ARGUMENT);
        return;
    }
    assert_int_equal(k.len, n);
    assert_memory_equal(k.words, expected, n);
    mu_key_make(&made, job.segment, expected, (size_t)n);
    assert_true(k.hash == made.hash);
    for (size_t pad = (size_t)n; pad % 8; pad++)
        assert_int_equal(((const char *)k.words)[pad], 0);
}

TEST_WITH(every_short_path_is_normalised_like_the_plain_way, setup, teardown)
{
    static const char bytes[] = {'/', '.', 'a', 0, 1, '-', '\xae', '\xaf'};

    for (int prefix = 0; prefix < 14; prefix++) /* so that every place in two words of eight is tried */
        for (unsigned n = 0; n < 8u * 8 * 8 * 8 * 8; n++) {
            char key[32];

            memset(key, 'x', sizeof key);
            for (int i = 0; i < 5; i++)
                key[prefix + i] = bytes[(n >> (3 * i)) & 7];
            check(key, (size_t)prefix + 5);
            if (n % 16 == 0)
                check(key, (size_t)prefix + 8);
        }
}

TEST_WITH(the_same_key_has_the_same_hash_however_it_is_aligned, setup, teardown)
{
    char room[64];
    struct mu_key a, b;

    assert_ok(mu_kv_key(job.segment, "some/longer/key", MUSTER_NTS, &a));
    for (size_t shift = 0; shift < 16; shift++) {
        memset(room, 'z', sizeof room);
        memcpy(room + shift, "some/longer/key", 15);
        assert_ok(mu_kv_key(job.segment, room + shift, 15, &b));
        assert_true(a.hash == b.hash);
    }
}
