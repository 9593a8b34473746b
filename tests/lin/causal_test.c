/* tests/lin/causal_test.c: the judge of local reads itself: what it must let pass, and what it must notice. */
#include "causal.h"
#include "cm.h"

#include <string.h>

static struct known here, there;

static void nobody_knows_anything(void)
{
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
}

/* What a process there reads of what one here writes now, at that version. */
static void passes_on(uint32_t key, uint64_t version)
{
    struct knowledge author = causal_now(&here), read;
    uint8_t value[CAUSAL_MOST];
    size_t len = causal_pack(&author, 100, value);

    causal_learn_version(&here, key, version);
    assert_true(causal_unpack(value, len, &read));
    causal_learn(&there, &read);
    causal_learn_version(&there, key, version);
}

static bool may_read(struct known *k, uint32_t key, uint64_t version)
{
    struct knowledge before = causal_now(k);

    return causal_allows(&before, key, version);
}

TEST(who_knows_nothing_may_read_anything)
{
    nobody_knows_anything();
    for (uint32_t key = 0; key < CAUSAL_KEYS; key++) {
        assert_true(may_read(&here, key, 0));
        assert_true(may_read(&here, key, 7));
    }
}

TEST(own_writes_and_earlier_reads_are_not_forgotten)
{
    nobody_knows_anything();
    causal_learn_version(&here, 0, 7);
    assert_true(may_read(&here, 0, 7));
    assert_true(may_read(&here, 0, 9));
    assert_false(may_read(&here, 0, 6));
    assert_false(may_read(&here, 0, 0));
    assert_true(may_read(&there, 0, 6));
    causal_learn_version(&here, 0, 3); /* nothing new */
    assert_false(may_read(&here, 0, 6));
}

TEST(who_reads_a_write_knows_what_its_author_knew)
{
    nobody_knows_anything();
    causal_learn_version(&here, 1, 5);
    causal_learn_version(&here, 3, 4);
    passes_on(0, 11);
    assert_false(may_read(&there, 0, 10));
    assert_false(may_read(&there, 1, 4));
    assert_false(may_read(&there, 1, 0));
    assert_true(may_read(&there, 1, 5));
    assert_false(may_read(&there, 3, 3));
    assert_true(may_read(&there, 3, 0)); /* it may have been deleted since */
    assert_true(may_read(&there, 2, 1));
}

TEST(what_is_gone_does_not_come_back_as_it_was)
{
    struct knowledge before;

    nobody_knows_anything();
    causal_learn_version(&here, 2, 5);
    before = causal_now(&here);
    causal_learn_absence(&here, 2, &before);
    assert_false(may_read(&here, 2, 5));
    assert_true(may_read(&here, 2, 0));
    before = causal_now(&here);
    causal_learn_absence(&here, 2, &before); /* still */
    assert_true(may_read(&here, 2, 6));
    passes_on(0, 1);
    assert_false(may_read(&there, 2, 5));
}

TEST(a_torn_value_is_one)
{
    struct knowledge k = {.least = {1, 2, 3, 4}}, read;
    uint8_t value[CAUSAL_MOST];
    size_t len = causal_pack(&k, 2000, value);

    assert_true(causal_unpack(value, len, &read));
    assert_false(causal_unpack(value, sizeof k - 1, &read));
    for (size_t at = 0; at < len; at += 8) {
        value[at]++;
        assert_false(causal_unpack(value, len, &read));
        value[at]--;
    }
}
