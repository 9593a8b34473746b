/*
 * tests/base/pack_test.c: what is packed is read back; what is short, long, or lies about its length is refused, and
 * nothing is read outside of it.
 */
#include "cm.h"

#include <stdlib.h>
#include <string.h>

#include "base/pack.h"

TEST(test_there_and_back)
{
    struct mu_pack p = {0};
    struct mu_unpack u;
    char text[8];
    size_t len;
    const void *blob;

    mu_pack_u8(&p, 0xab);
    mu_pack_u16(&p, 0x1234);
    mu_pack_u32(&p, 0xdeadbeef);
    mu_pack_u64(&p, UINT64_MAX - 1);
    mu_pack_text(&p, "host");
    mu_pack_blob(&p, NULL, 0);
    mu_pack_blob(&p, "\0b", 2);
    mu_pack_put_u32(&p, 3, 0xfeedface);
    assert_false(p.failed);
    assert_int_equal(p.bytes[1], 0x34); /* little-endian, on the wire */
    u = mu_unpack_of(p.bytes, p.len);
    assert_int_equal(mu_unpack_u8(&u), 0xab);
    assert_int_equal(mu_unpack_u16(&u), 0x1234);
    assert_int_equal(mu_unpack_u32(&u), 0xfeedface);
    assert_true(mu_unpack_u64(&u) == UINT64_MAX - 1);
    mu_unpack_text(&u, text, sizeof text);
    assert_string_equal(text, "host");
    mu_unpack_blob(&u, 0, &len);
    assert_int_equal(len, 0);
    blob = mu_unpack_blob(&u, 2, &len);
    assert_int_equal(len, 2);
    assert_memory_equal(blob, "\0b", 2);
    assert_true(mu_unpack_end(&u));
    mu_unpack_u8(&u);
    assert_false(mu_unpack_end(&u));
    mu_pack_done(&p);
}

TEST(test_every_shortening_is_refused)
{
    struct mu_pack p = {0};

    mu_pack_u32(&p, 7);
    mu_pack_text(&p, "name");
    mu_pack_u64(&p, 9);
    for (size_t n = 0; n < p.len; n++) {
        uint8_t *exact = malloc(n ? n : 1); /* so that a read past the end is seen */
        struct mu_unpack u;
        char text[16];

        memcpy(exact, p.bytes, n);
        u = mu_unpack_of(exact, n);
        mu_unpack_u32(&u);
        mu_unpack_text(&u, text, sizeof text);
        mu_unpack_u64(&u);
        assert_true(u.failed);
        assert_int_equal(mu_unpack_u64(&u), 0);
        free(exact);
    }
    mu_pack_done(&p);
}

TEST(test_lies_are_refused)
{
    static const uint8_t huge[] = {0xff, 0xff, 0xff, 0xff, 'a'};
    static const uint8_t nul[] = {2, 0, 0, 0, 'a', 0};
    struct mu_unpack u = mu_unpack_of(huge, sizeof huge);
    char text[4];
    size_t len;

    assert_null(mu_unpack_blob(&u, SIZE_MAX, &len));
    assert_int_equal(len, 0);
    assert_true(u.failed);
    u = mu_unpack_of(nul, sizeof nul);
    mu_unpack_text(&u, text, sizeof text);
    assert_true(u.failed);
    assert_string_equal(text, "");
    u = mu_unpack_of("\4\0\0\0abcd", 8);
    mu_unpack_text(&u, text, sizeof text); /* four bytes and a NUL do not fit */
    assert_true(u.failed);
}

TEST(test_short_numbers_take_few_bytes)
{
    const uint64_t numbers[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, INT64_MAX, 1ull << 63, UINT64_MAX};
    const size_t lens[] = {1, 1, 1, 2, 2, 3, 5, 9, 10, 10};
    const uint8_t too_long[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
    struct mu_unpack u = mu_unpack_of(too_long, sizeof too_long);
    struct mu_pack p = {0};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        mu_pack_reset(&p);
        mu_pack_var(&p, numbers[i]);
        assert_int_equal(p.len, lens[i]);
        for (size_t cut = 0; cut <= p.len; cut++) {
            struct mu_unpack v = mu_unpack_of(p.bytes, cut);

            assert_true(mu_unpack_var(&v) == (cut < p.len ? 0 : numbers[i]));
            assert_true(v.failed == (cut < p.len));
        }
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            struct mu_unpack v;

            mu_pack_reset(&p);
            mu_pack_step(&p, numbers[i], numbers[k]);
            v = mu_unpack_of(p.bytes, p.len);
            assert_true(mu_unpack_step(&v, numbers[i]) == numbers[k] && mu_unpack_end(&v));
        }
    }
    mu_pack_reset(&p);
    mu_pack_step(&p, 1000, 937);
    assert_int_equal(p.len, 1);
    assert_true(mu_unpack_var(&u) == 0 && u.failed);
    mu_pack_done(&p);
}
