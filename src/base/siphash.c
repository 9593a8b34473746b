/*
 * base/siphash.c: SipHash-2-4 with a tag of 128 bits, as its authors' paper and reference have it: for tags of short
 * messages in the library, which every task loads, and which therefore asks for no library of ciphers. tests/base has
 * the authors' vectors.
 */
#include "base/siphash.h"

#include <string.h>

struct sip_state {
    uint64_t v[4];
};

static inline uint64_t rotate_left(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void sip_rounds(struct sip_state *s, int count)
{
    uint64_t *v = s->v;

    while (count--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] = rotate_left(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[2] = rotate_left(v[2], 32);
    }
}

static inline void word_take(struct sip_state *s, uint64_t word)
{
    s->v[3] ^= word;
    sip_rounds(s, 2);
    s->v[0] ^= word;
}

static inline uint64_t state_folded(const struct sip_state *s)
{
    return s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
}

void mu_siphash(const uint64_t key[2], const void *bytes, size_t len, uint64_t ret_tag[2])
{
    struct sip_state s = {{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du ^ 0xee,
                           key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u}};
    uint64_t word = 0;
    size_t at = 0;

    for (; at + 8 <= len; at += 8) {
        memcpy(&word, (const char *)bytes + at, 8);
        word_take(&s, word);
    }
    word = 0;
    memcpy(&word, (const char *)bytes + at, len - at);
    word_take(&s, word | (uint64_t)len << 56);
    s.v[2] ^= 0xee;
    sip_rounds(&s, 4);
    ret_tag[0] = state_folded(&s);
    s.v[1] ^= 0xdd;
    sip_rounds(&s, 4);
    ret_tag[1] = state_folded(&s);
}
