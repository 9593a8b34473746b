/*
 * tests/tcpstore/vectors_test.c: what unmodified clients were seen to send, byte by byte, and what they were answered.
 */
#include "wire.h"

#include <stdio.h>
#include <string.h>

struct vector {
    const char *request, *answer; /* in hexadecimal digits; blanks are for people */
};

static const struct vector of_b[] = {
    {"00 cef7853c", ""},
    {"0d 00770000", "00770000"},
    {"04 0500000000000000 696e69742f 0100000000000000", "0100000000000000"},
    {"01 0200000000000000 2f6b 0100000000000000 76", ""},
    {"06 0100000000000000 0200000000000000 2f6b", "00"},
    {"03 0200000000000000 2f6b", "0100000000000000 76"},
    {"04 0200000000000000 2f63 0500000000000000", "0500000000000000"},
    {"04 0200000000000000 2f63 f9ffffffffffffff", "feffffffffffffff"},
    {"02 0200000000000000 2f6d 0100000000000000 78 0100000000000000 79", "0100000000000000 78"},
    {"02 0200000000000000 2f6d 0000000000000000 0100000000000000 79", "0100000000000000 79"},
    {"02 0200000000000000 2f6d 0100000000000000 71 0100000000000000 7a", "0100000000000000 79"},
    {"02 0200000000000000 2f6d 0100000000000000 79 0100000000000000 7a", "0100000000000000 7a"},
    {"07", "0400000000000000"},
    {"08 0200000000000000 2f6d", "0100000000000000"},
    {"08 0200000000000000 2f6d", "0000000000000000"},
    {"05 0200000000000000 0200000000000000 2f6b 0500000000000000 2f6e6f7065", "01"},
    {"09 0200000000000000 2f6b 0100000000000000 57", ""},
    {"0a 0200000000000000 0200000000000000 2f6b 0200000000000000 2f63", "0200000000000000 7657 0200000000000000 2d32"},
    {"0b 0200000000000000 0200000000000000 2f61 0100000000000000 31 0200000000000000 2f62 0100000000000000 32", ""},
    {"11", "0500000000000000 0200000000000000 2f61 0200000000000000 2f62 0200000000000000 2f63 0200000000000000 2f6b "
           "0500000000000000 696e69742f"},
    {"12 0400000000000000 2f626172 0100000000000000", "00"},
    {"06 0100000000000000 0600000000000000 2f6e65766572", ""},
    {"0c", "01"},
};

/* The same bodies, as far as that dialect has them. */
static const struct vector of_a[] = {
    {"03 0500000000000000 696e69742f 0100000000000000", "0100000000000000"},
    {"00 0200000000000000 2f6b 0100000000000000 76", ""},
    {"05 0100000000000000 0200000000000000 2f6b", "00"},
    {"02 0200000000000000 2f6b", "0100000000000000 76"},
    {"03 0200000000000000 2f63 0500000000000000", "0500000000000000"},
    {"03 0200000000000000 2f63 f9ffffffffffffff", "feffffffffffffff"},
    {"01 0200000000000000 2f6d 0100000000000000 78 0100000000000000 79", "0100000000000000 78"},
    {"01 0200000000000000 2f6d 0000000000000000 0100000000000000 79", "0100000000000000 79"},
    {"01 0200000000000000 2f6d 0100000000000000 71 0100000000000000 7a", "0100000000000000 79"},
    {"01 0200000000000000 2f6d 0100000000000000 79 0100000000000000 7a", "0100000000000000 7a"},
    {"06", "0400000000000000"},
    {"08 0200000000000000 2f6d", "0100000000000000"},
    {"08 0200000000000000 2f6d", "0000000000000000"},
    {"04 0200000000000000 0200000000000000 2f6b 0500000000000000 2f6e6f7065", "01"},
    {"05 0100000000000000 0600000000000000 2f6e65766572", ""},
    {"04 0100000000000000 0200000000000000 2f6b", "00"},
};

static size_t from_hex(const char *hex, uint8_t *to)
{
    size_t n = 0;
    unsigned byte;
    int used;

    while (sscanf(hex, " %2x%n", &byte, &used) == 1) {
        to[n++] = (uint8_t)byte;
        hex += used;
    }
    return n;
}

static void answer_is(struct client *c, const struct vector *v)
{
    uint8_t expected[256], heard[256];
    size_t len = from_hex(v->answer, expected);

    hear_bytes(c, heard, len);
    if (memcmp(heard, expected, len) != 0)
        fail_msg("%s was not answered as it should be", v->request);
}

static void say_piece(struct client *c, const uint8_t *bytes, size_t len)
{
    uint64_t until = wire_stats().bytes_in + len;

    say_bytes(c, bytes, len);
    counter_await(wire_stats().bytes_in >= until, "the server has read that");
}

static void each_in_pieces(const struct vector *vectors, size_t count, size_t first)
{
    struct client *c = client_new();

    assert_answer(do_delete(0, "tcpstore"), MUSTER_OK); /* what was said before */
    assert_answer(do_delete(0, "tcpstore-barrier"), MUSTER_OK);
    for (size_t i = 0; i < count; i++) {
        uint8_t bytes[256];
        size_t len = from_hex(vectors[i].request, bytes), cut = first < len ? first : len;

        say_piece(c, bytes, cut);
        if (cut < len)
            say_piece(c, bytes + cut, len - cut);
        answer_is(c, &vectors[i]);
    }
    hear_nothing(c);
    client_close(c);
}

WIRE_TEST(each_at_once)
{
    wire_open();
    each_in_pieces(of_b, sizeof of_b / sizeof of_b[0], 256);
    each_in_pieces(of_a, sizeof of_a / sizeof of_a[0], 256);
    wire_close();
}

/* The longest has 51 bytes. */
WIRE_TEST(each_cut_in_two_at_every_place)
{
    wire_open();
    for (size_t cut = 1; cut < 51; cut++) {
        each_in_pieces(of_b, sizeof of_b / sizeof of_b[0], cut);
        each_in_pieces(of_a, sizeof of_a / sizeof of_a[0], cut);
    }
    wire_close();
}

WIRE_TEST(each_byte_by_byte)
{
    const struct vector *const both[] = {of_b, of_a};
    const size_t counts[] = {sizeof of_b / sizeof of_b[0], sizeof of_a / sizeof of_a[0]};

    for (int d = 0; d < 2; d++) {
        struct client *c;

        wire_open();
        c = client_new();
        for (size_t i = 0; i < counts[d]; i++) {
            uint8_t bytes[256];
            size_t len = from_hex(both[d][i].request, bytes);

            for (size_t k = 0; k < len; k++)
                say_piece(c, bytes + k, 1);
            answer_is(c, &both[d][i]);
        }
        wire_close();
    }
}

WIRE_TEST(all_in_one_piece)
{
    uint8_t bytes[4096];
    size_t len = 0;
    struct client *c;

    wire_open();
    c = client_new();
    for (size_t i = 0; i < sizeof of_b / sizeof of_b[0]; i++)
        len += from_hex(of_b[i].request, bytes + len);
    say_bytes(c, bytes, len);
    for (size_t i = 0; i < sizeof of_b / sizeof of_b[0]; i++)
        answer_is(c, &of_b[i]);
    hear_nothing(c);
    wire_close();
}
