/*
 * tests/fuzz/frame.c: frames from arbitrary bytes: bridge/core/frame.c, and the JOIN of bridge/link/join.c.
 *
 * The reader gets the same stream in pieces of 1, 2, 3, 5, 17 and 1000 bytes, each from memory of exactly that size,
 * and must find the same messages and the same fault. What it holds for a message stays within what that may have.
 */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/link/private.h"

enum { MOST = 3 * MU_FRAME_PAYLOAD };

struct result {
    unsigned messages;
    uint64_t sum;
    enum mu_frame_fault fault;
};

static void must(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "the reader of frames: %s\n", what);
    abort();
}

/* What is taken for a JOIN is packed again to the same bytes. */
static void check_join(const struct mu_message *m)
{
    struct mu_pack p = {0};
    struct mu_join join;

    if (!mu_join_unpack(m->bytes, m->len, &join))
        return;
    mu_join_pack(&join, &p);
    must(p.len == m->len && memcmp(p.bytes, m->bytes, p.len) == 0, "a JOIN that reads differently");
    must(memchr(join.job, 0, sizeof join.job) && memchr(join.host, 0, sizeof join.host), "a text without an end");
    mu_pack_done(&p);
}

static void take(struct mu_frame_reader *r, const uint8_t *at, size_t left, bool direct, struct result *result)
{
    struct mu_message m;
    size_t size;
    uint8_t *room = direct ? mu_frame_room(r, &size) : NULL;
    int whole;

    if (room) {
        size = size < left ? size : left;
        memcpy(room, at, size);
        mu_frame_fill(r, size);
        at += size;
        left -= size;
    }
    while ((whole = mu_frame_read(r, &at, &left, &m)) == 1) {
        must(m.len <= MOST, "a message that is too long");
        for (size_t i = 0; i < m.len; i++)
            result->sum = result->sum * 31 + m.bytes[i];
        result->sum = result->sum * 31 + m.type;
        result->messages++;
        if (m.type == MU_FRAME_JOIN)
            check_join(&m);
    }
    must(whole < 0 || left == 0, "it leaves bytes");
    must((whole < 0) == (r->fault != MU_FRAME_SOUND), "a fault without a word");
    must(r->body_capacity <= MOST, "it holds more than it may");
}

/* direct: the rest of a payload is put where it belongs, as a link reads it. */
static struct result read_in_pieces(const uint8_t *data, size_t size, size_t piece, bool direct)
{
    struct result result = {0};
    struct mu_frame_reader r;

    mu_frame_reader_init(&r, MOST);
    for (size_t from = 0; from < size && !r.fault; from += piece) {
        size_t n = size - from < piece ? size - from : piece;
        uint8_t *exact = malloc(n);

        memcpy(exact, data + from, n);
        take(&r, exact, n, direct, &result);
        free(exact);
    }
    result.fault = r.fault;
    if (r.fault) {
        char why[200];

        mu_frame_say(&r, why, sizeof why);
        must(why[0] && strlen(why) < sizeof why - 1, "a sentence that is none");
    }
    mu_frame_reader_done(&r);
    return result;
}

void frame_try(const uint8_t *data, size_t size, struct frame_sum *sum)
{
    static const size_t pieces[] = {1, 2, 3, 5, 17, 1000};
    struct result whole = read_in_pieces(data, size, size ? size : 1, false);

    for (size_t i = 0; i < 2 * sizeof pieces / sizeof pieces[0]; i++) {
        struct result other = read_in_pieces(data, size, pieces[i / 2], i % 2);

        must(other.messages == whole.messages && other.sum == whole.sum && other.fault == whole.fault,
             "it depends on how the bytes arrive");
    }
    sum->messages += whole.messages;
    sum->faults += whole.fault != MU_FRAME_SOUND;
}

/* ---- real traffic ---- */

static size_t add(uint8_t *to, uint8_t type, uint32_t sequence, const void *payload, size_t len)
{
    mu_frame_put(to, &(struct mu_frame_header){.magic = MU_FRAME_MAGIC,
                                               .version = MU_BRIDGE_VERSION,
                                               .type = type,
                                               .length = (uint32_t)len,
                                               .sequence = sequence});
    if (len)
        memcpy(to + MU_FRAME_HEADER, payload, len);
    return MU_FRAME_HEADER + len;
}

size_t frame_session(uint8_t *to, size_t size)
{
    struct mu_join join = {1, 2, 8, {0x1122334455667788, 42}, 4711, "training", "node-b"};
    static const uint8_t stamp[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct mu_pack p = {0};
    size_t len = 0;

    must(size >= 400, "no room for a session");
    mu_join_pack(&join, &p);
    len += add(to + len, MU_FRAME_JOIN, 0, p.bytes, p.len);
    len += add(to + len, MU_FRAME_PING, 1, stamp, 8);
    len += add(to + len, 16, 2, "a call's bytes, which the reader does not know", 46);
    len += add(to + len, MU_FRAME_PONG, 3, stamp, 8);
    len += add(to + len, MU_FRAME_DROP, 4, "it sent frame 1 where 2 was expected", 36);
    len += add(to + len, MU_FRAME_LEAVE, 5, NULL, 0);
    mu_pack_done(&p);
    return len;
}
