/*
 * tests/kv/remote_test.c: what the leader is asked about keys, step by step, without a leader: the test gives the
 * answers, and looks at the next request.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/remote.h"

/* ---- answers ---- */

static struct mu_pack answer;

static void piece(uint8_t what, uint64_t version, uint64_t len, size_t bytes, char fill)
{
    mu_pack_reset(&answer);
    mu_pack_u8(&answer, what);
    mu_pack_u64(&answer, version);
    mu_pack_u64(&answer, len);
    for (size_t i = 0; i < bytes; i++)
        mu_pack_u8(&answer, (uint8_t)fill);
}

static void page(uint64_t fingerprint, uint64_t total, uint32_t count)
{
    mu_pack_reset(&answer);
    mu_pack_u64(&answer, fingerprint);
    mu_pack_u64(&answer, total);
    mu_pack_u32(&answer, count);
}

static void entry(const char *key, uint64_t version, uint64_t len, const char *value)
{
    mu_pack_u64(&answer, version);
    mu_pack_u64(&answer, len);
    mu_pack_text(&answer, key);
    mu_pack_raw(&answer, value, strlen(value));
}

static enum muster_status give(struct mu_steps *steps, enum muster_status status)
{
    struct mu_unpack body = mu_unpack_of(answer.bytes, answer.len);

    steps->op = MU_OP_NONE;
    if (status)
        mu_fail(status, "as the test says");
    return steps->answer(steps, status, &body);
}

#define assert_asks(steps, expected) assert_int_equal((steps)->op, (expected))
#define assert_ends(steps)           assert_int_equal((steps)->op, MU_OP_NONE)

/* ---- reads ---- */

static char room[64];
static bool unwanted;

static enum muster_status give_room(struct mu_kv_read *r)
{
    r->to = unwanted ? NULL : (uint8_t *)room;
    return r->len <= sizeof room ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "too long");
}

static struct mu_kv_read begin_read(uint8_t flags)
{
    struct mu_kv_read r = {.key = "key", .key_len = 3, .room = give_room};

    unwanted = false;
    memset(room, 0, sizeof room);
    mu_kv_read_begin(&r, flags);
    assert_asks(&r.steps, MU_OP_KV_GET);
    assert_string_equal(r.steps.about, "key key");
    return r;
}

static void assert_request(const struct mu_kv_read *r, uint8_t flags, uint64_t from)
{
    struct mu_unpack u = mu_unpack_of(r->steps.request.bytes, r->steps.request.len);
    size_t len;

    assert_asks(&r->steps, MU_OP_KV_GET);
    assert_int_equal(mu_unpack_u8(&u), flags);
    assert_int_equal(mu_unpack_u64(&u), from);
    assert_non_null(mu_unpack_blob(&u, 3, &len));
    assert_true(mu_unpack_end(&u));
}

TEST(a_value_in_pieces_is_of_one_version)
{
    struct mu_kv_read r = begin_read(MU_READ_WAITS);

    assert_request(&r, MU_READ_WAITS, 0);
    piece(MU_READ_VALUE, 5, 10, 4, 'a');
    assert_ok(give(&r.steps, MUSTER_OK));
    assert_request(&r, MU_READ_WAITS | MU_READ_WHOLE, 4);
    piece(MU_READ_VALUE, 6, 8, 3, 'b'); /* it has changed */
    assert_ok(give(&r.steps, MUSTER_OK));
    assert_request(&r, MU_READ_WAITS | MU_READ_WHOLE, 0);
    piece(MU_READ_VALUE, 6, 8, 5, 'b');
    assert_ok(give(&r.steps, MUSTER_OK));
    assert_request(&r, MU_READ_WAITS | MU_READ_WHOLE, 5);
    piece(MU_READ_VALUE, 6, 8, 3, 'c');
    assert_ok(give(&r.steps, MUSTER_OK));
    assert_ends(&r.steps);
    assert_int_equal(r.version, 6);
    assert_memory_equal(room, "bbbbbccc", 9);
    mu_steps_done(&r.steps);
}

TEST(what_is_not_wanted_is_not_read)
{
    struct mu_kv_read r = begin_read(0);

    unwanted = true;
    piece(MU_READ_VALUE, 5, 10, 4, 'a');
    assert_ok(give(&r.steps, MUSTER_OK));
    assert_ends(&r.steps);
    assert_int_equal(r.len, 10);
    mu_kv_read_begin(&r, 0);
    piece(MU_READ_VALUE, 5, 1000, 4, 'a'); /* no room: as it says */
    assert_status(MUSTER_RESOURCE_EXHAUSTED, give(&r.steps, MUSTER_OK));
    assert_ends(&r.steps);
    mu_kv_read_begin(&r, 0);
    piece(MU_READ_ABSENT, 0, 0, 0, 0);
    assert_ok(give(&r.steps, MUSTER_OK));
    assert_int_equal(r.what, MU_READ_ABSENT);
    assert_ends(&r.steps);
    mu_kv_read_begin(&r, 0);
    assert_status(MUSTER_UNAVAILABLE, give(&r.steps, MUSTER_UNAVAILABLE));
    assert_ends(&r.steps);
    mu_steps_done(&r.steps);
}

/* A second piece that cannot be: {version, len, bytes} behind 4 bytes of 64 at version 5. */
TEST(pieces_that_do_not_fit_are_refused)
{
    static const struct {
        uint64_t len;
        size_t bytes;
    } bad[] = {{63, 10}, {65, 10}, {64, 61}, {64, 0}};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mu_kv_read r = begin_read(0);

        piece(MU_READ_VALUE, 5, 64, 4, 'a');
        assert_ok(give(&r.steps, MUSTER_OK));
        piece(MU_READ_VALUE, 5, bad[i].len, bad[i].bytes, 'b');
        assert_status(MUSTER_DATA_LOSS, give(&r.steps, MUSTER_OK));
        assert_says("the leader's answer about key key is not well formed");
        assert_ends(&r.steps);
        mu_steps_done(&r.steps);
    }
}

/* ---- listings ---- */

static size_t most; /* bytes that a listing may hold; 0: any */

static enum muster_status hold(struct mu_kv_remote_list *list, size_t bytes)
{
    (void)list;
    return !most || bytes <= most ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "too much");
}

static struct mu_kv_remote_list begin_list(void)
{
    struct mu_kv_remote_list l = {.s = {.prefix = "d/", .prefix_len = 2}, .hold = hold};

    most = 0;
    mu_kv_list_begin(&l);
    assert_string_equal(l.steps.about, "the keys below \"d/\"");
    return l;
}

static void assert_page(const struct mu_kv_remote_list *l, const char *after, uint32_t size)
{
    struct mu_unpack u = mu_unpack_of(l->steps.request.bytes, l->steps.request.len);
    char prefix[8], behind[16];

    assert_asks(&l->steps, MU_OP_KV_DIR);
    mu_unpack_text(&u, prefix, sizeof prefix);
    mu_unpack_text(&u, behind, sizeof behind);
    assert_string_equal(prefix, "d/");
    assert_string_equal(behind, after);
    assert_int_equal(mu_unpack_u32(&u), size);
    assert_true(mu_unpack_end(&u));
}

TEST(pages_belong_together_or_the_listing_begins_anew)
{
    struct mu_kv_remote_list l = begin_list();

    assert_page(&l, "", MU_LISTED_CUT);
    page(7, 3, 2);
    entry("d/a", 1, 1, "A");
    entry("d/b", 2, 2, "BB");
    assert_ok(give(&l.steps, MUSTER_OK));
    assert_page(&l, "d/b", MU_LISTED_CUT);
    page(8, 2, 1); /* a key has gone */
    entry("d/c", 3, 0, "");
    assert_ok(give(&l.steps, MUSTER_OK));
    assert_page(&l, "", MU_LISTED_CUT);
    page(8, 2, 1);
    entry("d/b", 2, 2, "BB");
    assert_ok(give(&l.steps, MUSTER_OK));
    page(8, 2, 1);
    entry("d/c", 3, 0, "");
    assert_ok(give(&l.steps, MUSTER_OK));
    assert_ends(&l.steps);
    mu_snapshot_sort(&l.s);
    assert_int_equal(l.s.count, 2);
    assert_string_equal(l.s.entries[0].key, "d/b");
    assert_string_equal(l.s.entries[0].value, "BB");
    assert_string_equal(l.s.entries[1].key, "d/c");
    mu_kv_list_done(&l);
}

TEST(a_value_too_long_for_a_page_is_read_at_the_pages_version)
{
    enum { LONG = MU_LISTED_MAX + 1 };
    struct mu_kv_remote_list l = begin_list();

    page(7, 2, 2);
    entry("d/a", 4, LONG, "");
    entry("d/b", 5, 1, "B");
    assert_ok(give(&l.steps, MUSTER_OK));
    assert_asks(&l.steps, MU_OP_KV_GET);
    piece(MU_READ_VALUE, 9, LONG, 1, 'x'); /* a later one */
    assert_ok(give(&l.steps, MUSTER_OK));
    assert_page(&l, "", MU_LISTED_CUT);
    page(7, 2, 2);
    entry("d/a", 9, LONG, "");
    entry("d/b", 5, 1, "B");
    assert_ok(give(&l.steps, MUSTER_OK));
    piece(MU_READ_VALUE, 9, LONG, LONG - 1, 'x');
    assert_ok(give(&l.steps, MUSTER_OK));
    assert_asks(&l.steps, MU_OP_KV_GET);
    piece(MU_READ_VALUE, 9, LONG, 1, 'y');
    assert_ok(give(&l.steps, MUSTER_OK));
    assert_ends(&l.steps);
    mu_snapshot_sort(&l.s);
    assert_int_equal(l.s.entries[0].value_len, LONG);
    assert_memory_equal((const char *)l.s.entries[0].value + LONG - 2, "xy", 2);
    assert_string_equal(l.s.entries[1].value, "B");
    mu_kv_list_done(&l);
}

TEST(a_listing_without_end_is_given_up)
{
    struct mu_kv_remote_list l = begin_list();
    enum muster_status status = MUSTER_OK;
    int tries = 0;

    while (!status && ++tries < 1000)
        status = give(&l.steps, MUSTER_ABORTED); /* the leader's own attempts were in vain */
    assert_status(MUSTER_ABORTED, status);
    assert_int_equal(tries, 50);
    assert_says("the keys change too fast for a snapshot");
    assert_ends(&l.steps);
    mu_kv_list_done(&l);
}

TEST(pages_become_smaller_where_there_is_no_room)
{
    struct mu_kv_remote_list l = begin_list();
    uint32_t size = MU_LISTED_CUT;

    for (; size > MU_LISTED_LEAST; size /= 8) {
        assert_page(&l, "", size);
        assert_ok(give(&l.steps, MUSTER_RESOURCE_EXHAUSTED));
    }
    assert_page(&l, "", size);
    assert_status(MUSTER_RESOURCE_EXHAUSTED, give(&l.steps, MUSTER_RESOURCE_EXHAUSTED));
    mu_kv_list_done(&l);
    l = begin_list();
    most = 1; /* what the listing itself takes is another matter */
    page(7, 1, 1);
    entry("d/a", 1, 1, "A");
    assert_status(MUSTER_RESOURCE_EXHAUSTED, give(&l.steps, MUSTER_OK));
    assert_ends(&l.steps);
    mu_kv_list_done(&l);
}

/* Every beginning of a page, and one that promises more than there is, or nothing. */
TEST(pages_that_are_cut_short_are_refused)
{
    size_t whole;

    page(7, 1, 1);
    entry("d/a", 1, 3, "abc");
    whole = answer.len;
    for (size_t len = 0; len < whole; len++) {
        struct mu_kv_remote_list l = begin_list();

        page(7, 1, 1);
        entry("d/a", 1, 3, "abc");
        answer.len = len;
        assert_status(MUSTER_DATA_LOSS, give(&l.steps, MUSTER_OK));
        assert_ends(&l.steps);
        mu_kv_list_done(&l);
    }
    for (uint32_t count = 0; count < 3; count += 2) {
        struct mu_kv_remote_list l = begin_list();

        page(7, 1, count);
        assert_status(MUSTER_DATA_LOSS, give(&l.steps, MUSTER_OK));
        mu_kv_list_done(&l);
    }
}

/* ---- changes, counts ---- */

TEST(a_number_is_an_answer_and_nothing_else_is)
{
    struct mu_kv_remote_change c = {0};
    struct mu_kv_remote_count n = {0};

    mu_kv_change_begin(&c, MU_OP_KV_DELETE, NULL, 0, NULL, 0);
    assert_asks(&c.steps, MU_OP_KV_DELETE);
    assert_string_equal(c.steps.about, "all keys");
    mu_pack_reset(&answer);
    mu_pack_u64(&answer, 11);
    assert_status(MUSTER_ABORTED, give(&c.steps, MUSTER_ABORTED));
    assert_int_equal(c.result, 11); /* also of one that failed */
    answer.len--;
    assert_status(MUSTER_DATA_LOSS, give(&c.steps, MUSTER_OK));
    mu_kv_count_begin(&n, "d/", 2);
    assert_asks(&n.steps, MU_OP_KV_COUNT);
    assert_status(MUSTER_DATA_LOSS, give(&n.steps, MUSTER_OK));
    answer.len++;
    assert_ok(give(&n.steps, MUSTER_OK));
    assert_int_equal(n.count, 11);
    mu_steps_done(&c.steps);
    mu_steps_done(&n.steps);
}

static int forget_answer(void)
{
    mu_pack_done(&answer);
    return 0;
}

int main(void)
{
    return test_run(NULL, forget_answer);
}
