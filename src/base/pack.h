/*
 * base/pack.h: bytes for others: little-endian numbers and counted bytes, appended to a growing buffer, and read back
 * with every bound checked. An error (no memory; too short) sticks, and is asked for once at the end.
 */
#ifndef MU_BASE_PACK_H
#define MU_BASE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mu_pack {
    uint8_t *bytes; /* malloc()ed */
    size_t len, capacity;
    bool failed; /* no memory: nothing more is appended */
};

void mu_pack_done(struct mu_pack *p); /* frees; the struct is empty and usable again */
static inline void mu_pack_reset(struct mu_pack *p)
{
    p->len = 0;
    p->failed = false;
}
void mu_pack_raw(struct mu_pack *p, const void *bytes, size_t len);
void mu_pack_u8(struct mu_pack *p, uint8_t v);
void mu_pack_u16(struct mu_pack *p, uint16_t v);
void mu_pack_u32(struct mu_pack *p, uint32_t v);
void mu_pack_u64(struct mu_pack *p, uint64_t v);
/* Seven bits a byte, the lowest first; the eighth: more follow. */
void mu_pack_var(struct mu_pack *p, uint64_t v);
/* Where a number goes from another, by either way round 2^64: the difference, its sign in the lowest bit. */
static inline void mu_pack_step(struct mu_pack *p, uint64_t from, uint64_t to)
{
    uint64_t up = to - from;

    mu_pack_var(p, up << 1 ^ (up >> 63 ? UINT64_MAX : 0));
}
/* A 32-bit length, then the bytes. */
void mu_pack_blob(struct mu_pack *p, const void *bytes, size_t len);
void mu_pack_text(struct mu_pack *p, const char *text);
/* Overwrite a number that was packed before, at this offset. */
void mu_pack_put_u32(struct mu_pack *p, size_t at, uint32_t v);

struct mu_unpack {
    const uint8_t *at;
    size_t left;
    bool failed; /* it was too short, or a length too long: all that follows reads as 0 */
};

static inline struct mu_unpack mu_unpack_of(const void *bytes, size_t len)
{
    struct mu_unpack u = {(const uint8_t *)bytes, len, false};

    return u;
}
uint8_t mu_unpack_u8(struct mu_unpack *u);
uint16_t mu_unpack_u16(struct mu_unpack *u);
uint32_t mu_unpack_u32(struct mu_unpack *u);
uint64_t mu_unpack_u64(struct mu_unpack *u);
uint64_t mu_unpack_var(struct mu_unpack *u);
static inline uint64_t mu_unpack_step(struct mu_unpack *u, uint64_t from)
{
    uint64_t v = mu_unpack_var(u);

    return from + (v >> 1 ^ (v & 1 ? UINT64_MAX : 0));
}
/* The next `len` bytes in place; NULL when there are fewer. */
const void *mu_unpack_raw(struct mu_unpack *u, size_t len);
/* A counted run of at most `most` bytes, in place. */
const void *mu_unpack_blob(struct mu_unpack *u, size_t most, size_t *ret_len);
/* The same as text, copied with a NUL; refused when it does not fit or holds a NUL. */
void mu_unpack_text(struct mu_unpack *u, char *to, size_t size);
/* Nothing failed and nothing is left. */
static inline bool mu_unpack_end(const struct mu_unpack *u)
{
    return !u->failed && !u->left;
}

#endif
