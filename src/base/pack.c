/*
 * base/pack.c: bytes for others: appended to a buffer that doubles, read back from where they lie. Both sides go on
 * after a failure, writing nothing and reading zeros, so that callers look once, at the end.
 */
#include "base/pack.h"

#include <stdlib.h>
#include <string.h>

void mu_pack_done(struct mu_pack *p)
{
    free(p->bytes);
    *p = (struct mu_pack){0};
}

/* Room for `more` bytes at the end; NULL: none, now and for ever. */
static uint8_t *pack_reserve(struct mu_pack *p, size_t more)
{
    size_t size = p->capacity ? p->capacity : 128;
    uint8_t *bytes;

    if (p->failed || more > SIZE_MAX / 4 - p->len) {
        p->failed = true;
        return NULL;
    }
    while (size - p->len < more)
        size *= 2;
    if (size != p->capacity) {
        bytes = (uint8_t *)realloc(p->bytes, size);
        if (!bytes) {
            p->failed = true;
            return NULL;
        }
        p->bytes = bytes;
        p->capacity = size;
    }
    bytes = p->bytes + p->len;
    p->len += more;
    return bytes;
}

void mu_pack_raw(struct mu_pack *p, const void *bytes, size_t len)
{
    uint8_t *to = len ? pack_reserve(p, len) : NULL;

    if (to)
        memcpy(to, bytes, len);
}

void mu_pack_u8(struct mu_pack *p, uint8_t v)
{
    mu_pack_raw(p, &v, sizeof v);
}

/* Little-endian is what this machine is: shm_layout/layout.h refuses any other. */
void mu_pack_u16(struct mu_pack *p, uint16_t v)
{
    mu_pack_raw(p, &v, sizeof v);
}

void mu_pack_u32(struct mu_pack *p, uint32_t v)
{
    mu_pack_raw(p, &v, sizeof v);
}

void mu_pack_u64(struct mu_pack *p, uint64_t v)
{
    mu_pack_raw(p, &v, sizeof v);
}

void mu_pack_var(struct mu_pack *p, uint64_t v)
{
    uint8_t bytes[10];
    size_t n = 0;

    for (; v > 127; v >>= 7)
        bytes[n++] = (uint8_t)(v | 128);
    bytes[n++] = (uint8_t)v;
    mu_pack_raw(p, bytes, n);
}

void mu_pack_blob(struct mu_pack *p, const void *bytes, size_t len)
{
    if (len > UINT32_MAX) {
        p->failed = true;
        return;
    }
    mu_pack_u32(p, (uint32_t)len);
    mu_pack_raw(p, bytes, len);
}

void mu_pack_text(struct mu_pack *p, const char *text)
{
    mu_pack_blob(p, text, strlen(text));
}

void mu_pack_put_u32(struct mu_pack *p, size_t at, uint32_t v)
{
    if (!p->failed && at <= p->len && p->len - at >= sizeof v)
        memcpy(p->bytes + at, &v, sizeof v);
}

const void *mu_unpack_raw(struct mu_unpack *u, size_t len)
{
    const uint8_t *at = u->at;

    if (u->failed || len > u->left) {
        u->failed = true;
        return NULL;
    }
    u->at += len;
    u->left -= len;
    return at;
}

static void unpack_number(struct mu_unpack *u, void *to, size_t size)
{
    const void *from = mu_unpack_raw(u, size);

    if (from)
        memcpy(to, from, size);
}

uint8_t mu_unpack_u8(struct mu_unpack *u)
{
    uint8_t v = 0;

    unpack_number(u, &v, sizeof v);
    return v;
}

uint16_t mu_unpack_u16(struct mu_unpack *u)
{
    uint16_t v = 0;

    unpack_number(u, &v, sizeof v);
    return v;
}

uint32_t mu_unpack_u32(struct mu_unpack *u)
{
    uint32_t v = 0;

    unpack_number(u, &v, sizeof v);
    return v;
}

uint64_t mu_unpack_u64(struct mu_unpack *u)
{
    uint64_t v = 0;

    unpack_number(u, &v, sizeof v);
    return v;
}

uint64_t mu_unpack_var(struct mu_unpack *u)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = mu_unpack_u8(u);

        if (u->failed || (shift == 63 && byte > 1))
            break;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return v;
    }
    u->failed = true;
    return 0;
}

const void *mu_unpack_blob(struct mu_unpack *u, size_t most, size_t *ret_len)
{
    size_t len = mu_unpack_u32(u);

    *ret_len = 0;
    if (len > most)
        u->failed = true;
    if (u->failed || !mu_unpack_raw(u, len))
        return NULL;
    *ret_len = len;
    return u->at - len;
}

void mu_unpack_text(struct mu_unpack *u, char *to, size_t size)
{
    size_t len;
    const void *text = mu_unpack_blob(u, size - 1, &len);

    to[0] = 0;
    if (!text)
        return;
    if (memchr(text, 0, len)) {
        u->failed = true;
        return;
    }
    memcpy(to, text, len);
    to[len] = 0;
}
