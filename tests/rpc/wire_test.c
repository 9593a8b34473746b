/*
 * tests/rpc/wire_test.c: gRPC's timeouts, its percent-encoding and its base64, bad input first.
 */
#include "cm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/wire.h"

TEST(timeouts_that_are_none_are_refused)
{
    static const char *const bad[] = {"",    "S",   "5",    "5s",   "5h",         "-1S", "+1S", " 1S",
                                      "1S ", "1 S", "1.5S", "0x1S", "123456789S", "SS",  "1mS", "1\0S"};
    uint64_t ns = 7;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(mu_wire_timeout(bad[i], strlen(bad[i]), &ns));
    assert_false(mu_wire_timeout("1\0S", 3, &ns));
    assert_int_equal(ns, 7);
}

TEST(timeouts_of_all_units_are_read)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"1H", 3600000000000u},
                {"2M", 120000000000u},
                {"305S", 305000000000u},
                {"501m", 501000000u},
                {"7u", 7000u},
                {"99999999n", 99999999u},
                {"0S", 0},
                {"00000001S", 1000000000u},
                {"99999999S", 99999999000000000u},
                {"99999999H", UINT64_MAX / 4}};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t ns = 1;

        assert_true(mu_wire_timeout(good[i].text, strlen(good[i].text), &ns));
        assert_int_equal(ns, good[i].ns);
    }
}

TEST(statuses_are_read)
{
    static const struct {
        const char *text;
        unsigned status;
    } each[] = {{"0", 0},      {"16", 16},  {"200", 200}, {"007", 7}, {"", 999},
                {"1000", 999}, {"-1", 999}, {"1 ", 999},  {"x", 999}};

    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        assert_int_equal(mu_wire_status((const uint8_t *)each[i].text, strlen(each[i].text)), each[i].status);
}

TEST(a_name_is_the_whole_word)
{
    assert_true(mu_wire_is((const uint8_t *)"grpc-status", 11, "grpc-status"));
    assert_false(mu_wire_is((const uint8_t *)"grpc-status", 10, "grpc-status"));
    assert_false(mu_wire_is((const uint8_t *)"grpc-statuses", 13, "grpc-status"));
    assert_false(mu_wire_is((const uint8_t *)"grpc-statuz", 11, "grpc-status"));
}

/* In memory of exactly that size. */
static char *encoded(const char *text, size_t size)
{
    char *exact = malloc(size), *copy;
    size_t len = mu_wire_text(text, exact, size);

    assert_true(len <= size);
    copy = calloc(1, len + 1);
    memcpy(copy, exact, len);
    free(exact);
    return copy;
}

static void expect(const char *text, const char *wanted)
{
    char *got = encoded(text, 10000);

    assert_string_equal(got, wanted);
    free(got);
}

TEST(texts_are_percent_encoded)
{
    expect("", "");
    expect("task 2 (pid 4711) died", "task 2 (pid 4711) died");
    expect("100%\n", "100%25%0A");
    expect("a\tb\x7f~ ", "a%09b%7F~ ");
    expect("h\xc3\xa4", "h%C3%A4");
    expect("\xff\xfe", "?"); /* no text: not echoed */
    expect("key h\xc3", "key h?");
    expect("a\xed\xa0\x80 b\xc0\xaf\n", "a? b?%0A");
}

TEST(long_texts_are_cut_and_say_so)
{
    char text[5000], *got;

    memset(text, 'x', sizeof text);
    text[3072] = 0;
    got = encoded(text, 8000);
    assert_int_equal(strlen(got), 3072);
    free(got);
    text[3072] = 'x';
    text[3073] = 0;
    got = encoded(text, 8000);
    assert_int_equal(strlen(got), 3072 + strlen(" ... [truncated]"));
    assert_string_equal(got + 3072, " ... [truncated]");
    free(got);
}

/* Whatever room there is: it is not overrun, no character is halved, and the end is said. */
TEST(texts_are_cut_between_characters)
{
    char text[4001] = "";

    for (size_t i = 0; i < 2000; i++)
        memcpy(text + 2 * i, "\xc3\xa4", 3);
    for (size_t size = 64; size < 9000; size += size < 300 ? 1 : 37) {
        char *got = encoded(text, size);
        size_t len = strlen(got), end = strlen(" ... [truncated]");

        assert_string_equal(got + len - end, " ... [truncated]");
        assert_int_equal((len - end) % 6, 0);
        assert_true(len > 3072 * 3 || len + 6 + end > size);
        free(got);
    }
    memset(text, 'x', 63); /* what fits is not cut, though the sentence would not have */
    text[63] = 0;
    expect(text, text);
    assert_int_equal(mu_wire_text(text, text + 100, 64), 63);
}

TEST(base64_has_no_padding)
{
    static const char *const pairs[][2] = {
        {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
        {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xff\xfe\xfb", "//77"}};
    char to[16];

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t len = strlen(pairs[i][0]);

        assert_int_equal(mu_wire_base64(pairs[i][0], len, to), MU_WIRE_BASE64(len));
        assert_int_equal(MU_WIRE_BASE64(len), strlen(pairs[i][1]));
        assert_memory_equal(to, pairs[i][1], strlen(pairs[i][1]));
    }
}
