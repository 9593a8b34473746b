/*
 * bridge/core/frame.c: the header of frames, and messages out of a stream that anybody may have sent.
 *
 * A reader is fed whatever a socket gave. It collects 16 bytes of header, judges them all, and only then has room for
 * the payload: exactly as much as one frame announces, so that at most 64 KiB are held for bytes that have not come.
 * A payload that lies whole in what was fed is not copied, nor is what was read to where it belongs at once
 * (mu_frame_room). The first fault sticks: the stream has no meaning
 * behind it.
 */
#include "bridge/core/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void number_put(uint8_t *to, uint32_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t number_get(const uint8_t *from, unsigned bytes)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v |= (uint32_t)from[i] << (8 * i);
    return v;
}

void mu_frame_put(uint8_t to[MU_FRAME_HEADER], const struct mu_frame_header *h)
{
    number_put(to, h->magic, 2);
    to[2] = h->version;
    to[3] = h->type;
    number_put(to + 4, h->length, 4);
    number_put(to + 8, h->sequence, 4);
    to[12] = h->flags;
    number_put(to + 13, h->zero, 3);
}

void mu_frame_get(const uint8_t from[MU_FRAME_HEADER], struct mu_frame_header *ret_header)
{
    *ret_header = (struct mu_frame_header){.magic = (uint16_t)number_get(from, 2),
                                           .version = from[2],
                                           .type = from[3],
                                           .length = number_get(from + 4, 4),
                                           .sequence = number_get(from + 8, 4),
                                           .flags = from[12],
                                           .zero = number_get(from + 13, 3)};
}

void mu_frame_reader_init(struct mu_frame_reader *r, size_t most)
{
    *r = (struct mu_frame_reader){.most = most};
}

void mu_frame_reader_done(struct mu_frame_reader *r)
{
    free(r->body);
    *r = (struct mu_frame_reader){0};
}

/* The order matters to the reader of the sentence: bytes that are no frame at all have no version. */
static enum mu_frame_fault header_judge(const struct mu_frame_reader *r, const struct mu_frame_header *h)
{
    if (h->magic != MU_FRAME_MAGIC)
        return MU_FRAME_BAD_MAGIC;
    if (h->version != MU_BRIDGE_VERSION)
        return MU_FRAME_BAD_VERSION;
    if ((h->flags & ~MU_FRAME_MORE) || h->zero)
        return MU_FRAME_BAD_FLAGS;
    if (h->length > MU_FRAME_PAYLOAD || ((h->flags & MU_FRAME_MORE) && h->length != MU_FRAME_PAYLOAD))
        return MU_FRAME_BAD_LENGTH;
    if (h->sequence != r->sequence)
        return MU_FRAME_BAD_SEQUENCE;
    if (r->is_parted && h->type != r->header.type)
        return MU_FRAME_BAD_PART;
    if (h->length > r->most || r->body_len > r->most - h->length)
        return MU_FRAME_TOO_LONG;
    return MU_FRAME_SOUND;
}

/* Bytes of the header; true once all 16 are there. */
static bool header_take(struct mu_frame_reader *r, const uint8_t **at, size_t *left)
{
    size_t n = MU_FRAME_HEADER - r->head_len < *left ? MU_FRAME_HEADER - r->head_len : *left;

    if (n) /* nothing may be at NULL */
        memcpy(r->head + r->head_len, *at, n);
    r->head_len += n;
    *at += n;
    *left -= n;
    return r->head_len == MU_FRAME_HEADER;
}

static int reader_fault(struct mu_frame_reader *r, enum mu_frame_fault what)
{
    r->fault = what;
    return -1;
}

/* Twice as much as before for a message of many frames, but never beyond what it may have. */
static bool reader_reserve(struct mu_frame_reader *r, size_t needed)
{
    size_t capacity = r->is_parted && 2 * r->body_capacity < r->most ? 2 * r->body_capacity : 0;
    uint8_t *bytes;

    if (needed <= r->body_capacity)
        return true;
    if (capacity < needed)
        capacity = needed;
    bytes = realloc(r->body, capacity);
    if (!bytes)
        return false;
    r->body = bytes;
    r->body_capacity = capacity;
    return true;
}

/* A large body is not kept: peers are many. */
static void forget_body(struct mu_frame_reader *r)
{
    r->body_len = 0;
    r->is_told = false;
    if (r->body_capacity <= 4096)
        return;
    free(r->body);
    r->body = NULL;
    r->body_capacity = 0;
}

/* The header is whole and sound: the frame's payload, or its beginning. 1: it is whole, in *ret or in the body. */
static int take_payload(struct mu_frame_reader *r, const uint8_t **at, size_t *left, struct mu_message *ret)
{
    size_t n = r->part_left < *left ? r->part_left : *left;

    if (n == r->header.length && !r->is_parted && !(r->header.flags & MU_FRAME_MORE)) {
        *ret = (struct mu_message){r->header.type, *at, n};
        *at += n;
        *left -= n;
        r->part_left = 0;
        return 1;
    }
    if (!reader_reserve(r, r->body_len + r->part_left))
        return reader_fault(r, MU_FRAME_NO_MEMORY);
    if (n)
        memcpy(r->body + r->body_len, *at, n);
    r->body_len += n;
    *at += n;
    *left -= n;
    r->part_left -= n;
    *ret = (struct mu_message){r->header.type, r->body, r->body_len};
    return r->part_left == 0;
}

int mu_frame_read(struct mu_frame_reader *r, const uint8_t **at, size_t *left, struct mu_message *ret_message)
{
    if (r->fault)
        return -1;
    if (r->is_told)
        forget_body(r);
    for (;;) {
        struct mu_frame_header h;
        int whole;

        if (r->head_len < MU_FRAME_HEADER) {
            if (!header_take(r, at, left))
                return 0;
            mu_frame_get(r->head, &h);
            r->fault = header_judge(r, &h);
            r->header = h;
            if (r->fault)
                return -1;
            r->part_left = h.length;
        }
        whole = take_payload(r, at, left, ret_message);
        if (whole <= 0)
            return whole;
        r->head_len = 0;
        r->sequence++;
        r->frames++;
        r->is_parted = r->header.flags & MU_FRAME_MORE;
        if (!r->is_parted) {
            r->is_told = true;
            return 1;
        }
    }
}

uint8_t *mu_frame_room(struct mu_frame_reader *r, size_t *ret_size)
{
    *ret_size = 0;
    if (r->fault || r->head_len < MU_FRAME_HEADER || !r->part_left || !reader_reserve(r, r->body_len + r->part_left))
        return NULL;
    *ret_size = r->part_left;
    return r->body + r->body_len;
}

void mu_frame_fill(struct mu_frame_reader *r, size_t len)
{
    r->body_len += len;
    r->part_left -= len;
}

void mu_frame_say(const struct mu_frame_reader *r, char *why, size_t size)
{
    const struct mu_frame_header *h = &r->header;

    switch (r->fault) {
    case MU_FRAME_SOUND: snprintf(why, size, "sent sound frames"); break;
    case MU_FRAME_BAD_MAGIC:
        if (r->head[0] == 22 && r->head[1] == 3) /* the beginning of a TLS record */
            snprintf(why, size, "speaks TLS, and here there is no key: give both sides the same one");
        else
            snprintf(why, size, "does not speak muster's protocol (it begins with %02x %02x %02x %02x)", r->head[0],
                     r->head[1], r->head[2], r->head[3]);
        break;
    case MU_FRAME_BAD_VERSION:
        snprintf(why, size,
                 "speaks version %u of the bridge's protocol instead of %u: install the same muster on all hosts",
                 h->version, MU_BRIDGE_VERSION);
        break;
    case MU_FRAME_BAD_FLAGS:
        snprintf(why, size, "sent a frame with unknown flags (%02x, %06x)", h->flags, h->zero);
        break;
    case MU_FRAME_BAD_LENGTH:
        snprintf(why, size, "sent a frame of %u bytes%s; the most is %u", h->length,
                 h->flags & MU_FRAME_MORE ? " that is to be continued" : "", MU_FRAME_PAYLOAD);
        break;
    case MU_FRAME_BAD_SEQUENCE:
        snprintf(why, size, "sent frame %u where %u was expected", h->sequence, r->sequence);
        break;
    case MU_FRAME_BAD_PART: snprintf(why, size, "sent a frame of type %u within another message", h->type); break;
    case MU_FRAME_TOO_LONG:
        snprintf(why, size, "sent a message of more than %zu bytes (type %u)", r->most, h->type);
        break;
    case MU_FRAME_NO_MEMORY: snprintf(why, size, "sent a message for which there is no memory here"); break;
    }
}
