/*
 * tests/bridge/records_test.c: task records as they travel: what goes in comes out, whatever neighbours have in common;
 * what a host is not told can be cut out between two hosts; what is cut off is noticed.
 */
#include "cm.h"

#include <string.h>

#include "bridge/core/records.h"
#include "seed.h"

enum { TASKS = 600, EACH = 7 };

static struct mu_said said[TASKS];

/* Most as their neighbours are; some are not. */
static void draw(struct test_random *r, uint32_t odd)
{
    static const char *const texts[] = {"", "", "it burns", "it burns more"};

    for (uint32_t i = 0; i < TASKS; i++) {
        bool other = test_below(r, odd) == 0;
        const char *text = other ? texts[test_below(r, 4)] : "";

        said[i] = (struct mu_said){.version = other ? test_random(r) | 1 : 1 + i,
                                   .incarnation = test_random(r),
                                   .age = (other ? test_random(r) >> 12 : 5000000 + i) * 1000,
                                   .task = i * (odd == 1 ? 3 : 1),
                                   .state = other ? (uint32_t)test_below(r, 3) : 1,
                                   .cause = other ? (uint32_t)test_below(r, 4) : 0,
                                   .code = other ? (uint32_t)test_below(r, 10) : 0,
                                   .flags = other ? (uint32_t)test_below(r, 4) : 0,
                                   .pid = other ? (uint32_t)test_random(r) : 4000 + i,
                                   .attempt = other ? (uint32_t)test_random(r) : 1,
                                   .text = text,
                                   .text_len = strlen(text)};
    }
}

static void pack(struct mu_pack *p, size_t ends[TASKS])
{
    struct mu_records_out out;

    mu_records_begin(&out, p);
    for (uint32_t i = 0; i < TASKS; i++) {
        mu_records_add(&out, &said[i], (said[i].task / EACH + 1) * EACH);
        ends[i] = p->len;
    }
    assert_false(p->failed);
}

static void assert_same(const struct mu_said *a, const struct mu_said *b)
{
    assert_true(a->version == b->version && a->incarnation == b->incarnation && a->age == b->age &&
                a->task == b->task && a->state == b->state && a->cause == b->cause && a->code == b->code &&
                a->flags == b->flags && a->pid == b->pid && a->attempt == b->attempt && a->text_len == b->text_len);
    if (a->text_len)
        assert_memory_equal(a->text, b->text, a->text_len);
}

TEST(what_goes_in_comes_out)
{
    struct test_random r = {test_seed()};
    size_t ends[TASKS];

    for (uint32_t odd = 1; odd < 40; odd++) {
        struct mu_pack p = {0};
        struct mu_unpack u;
        struct mu_records_in in;

        draw(&r, odd);
        pack(&p, ends);
        u = mu_unpack_of(p.bytes, p.len);
        in = mu_records_of(&u);
        for (uint32_t i = 0; i < TASKS; i++) {
            assert_true(mu_records_next(&in));
            assert_same(&in.now, &said[i]);
        }
        assert_false(mu_records_next(&in));
        assert_false(in.u.failed);
        mu_pack_done(&p);
    }
}

TEST(a_host_can_be_left_out)
{
    struct test_random r = {test_seed()};
    size_t ends[TASKS];
    struct mu_pack p = {0};

    draw(&r, 10);
    pack(&p, ends);
    for (uint32_t host = 0; host < TASKS / EACH; host++) {
        size_t before = host ? ends[host * EACH - 1] : 0, behind = ends[host * EACH + EACH - 1];
        struct mu_pack rest = {0};
        struct mu_unpack u;
        struct mu_records_in in;

        mu_pack_raw(&rest, p.bytes, before);
        mu_pack_raw(&rest, p.bytes + behind, p.len - behind);
        u = mu_unpack_of(rest.bytes, rest.len);
        in = mu_records_of(&u);
        for (uint32_t i = 0; i < TASKS; i++)
            if (i / EACH != host) {
                assert_true(mu_records_next(&in));
                assert_same(&in.now, &said[i]);
            }
        assert_false(mu_records_next(&in));
        assert_false(in.u.failed);
        mu_pack_done(&rest);
    }
    mu_pack_done(&p);
}

TEST(what_is_cut_off_is_noticed)
{
    struct test_random r = {test_seed()};
    size_t ends[TASKS];
    struct mu_pack p = {0};

    draw(&r, 10);
    pack(&p, ends);
    for (size_t len = 0; len < 2000; len++) {
        struct mu_unpack u = mu_unpack_of(p.bytes, len);
        struct mu_records_in in = mu_records_of(&u);
        uint32_t n = 0;
        bool whole = !len;

        while (mu_records_next(&in))
            assert_same(&in.now, &said[n++]);
        for (uint32_t i = 0; i < TASKS; i++) /* only where a run ends can it have been all */
            whole |= ends[i] == len;
        assert_true(in.u.failed || whole);
    }
    mu_pack_done(&p);
}

TEST(those_who_joined_take_few_bytes)
{
    struct test_random r = {test_seed()};
    size_t ends[TASKS];
    struct mu_pack p = {0};

    draw(&r, 1u << 31);
    pack(&p, ends);
    assert_true(p.len < TASKS * 16);
    mu_pack_done(&p);
}
