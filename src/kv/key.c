/*
 * kv/key.c: key paths. The usual key needs no change: one pass over its words copies, hashes and checks it; only what
 * that pass finds suspicious is taken apart and rebuilt.
 */
#include "kv/key.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define ONES  0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

/* A high bit for every byte that is zero. A borrow may add one above a zero byte: a false alarm, which costs time only.
 */
static inline uint64_t zero_bytes(uint64_t v)
{
    return (v - ONES) & ~v & HIGHS;
}

static inline uint64_t load_word(const char *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

static inline uint32_t load_half(const char *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return v;
}

/* The last len % 8 bytes as a word, padded with zeros; reads only what is there. */
static inline uint64_t load_tail(const char *key, size_t len, size_t rest)
{
    if (len >= 8)
        return load_word(key + len - 8) >> (8 * (8 - rest));
    if (rest >= 4)
        return load_half(key) | (uint64_t)load_half(key + rest - 4) << (8 * (rest - 4));
    return (uint64_t)(uint8_t)key[0] | (uint64_t)(uint8_t)key[rest / 2] << (8 * (rest / 2)) |
           (uint64_t)(uint8_t)key[rest - 1] << (8 * (rest - 1));
}

/*
 * In one word: a NUL, "//", or a '.' right after a '/'. `carry` is 0x80 when the byte before was a '/'. '.' and '/'
 * differ in the lowest bit only, and it tells them apart.
 */
static inline uint64_t odd_bytes(uint64_t v, uint64_t *carry)
{
    uint64_t either = zero_bytes((v | ONES) ^ ('/' * ONES)), slash = either & v << 7;
    uint64_t odd = zero_bytes(v) | ((slash << 8 | *carry) & either);

    *carry = slash >> 56;
    return odd;
}

/* Copy, hash, check. True: the key needs rebuilding, or is bad; the copy is then of no use. */
static bool key_take(struct mu_key *k, const struct muster_segment *seg, const char *key, size_t len)
{
    uint64_t h = mu_hash_begin(seg, len), odd = 0, carry = 0x80; /* the start counts as a slash */
    size_t words = len / 8, rest = len % 8;

    for (size_t i = 0; i < words; i++) {
        uint64_t v = load_word(key + 8 * i);

        k->words[i] = v;
        h = mu_hash_step(h, v);
        odd |= odd_bytes(v, &carry);
    }
    if (rest) {
        uint64_t v = load_tail(key, len, rest);

        k->words[words] = v;
        h = mu_hash_step(h, v);
        odd |= odd_bytes(v | 'x' * ONES << (8 * rest), &carry); /* the padding is no NUL */
    }
    k->hash = mu_hash_end(h);
    k->len = (uint32_t)len;
    return odd != 0;
}

#ifdef __SSE2__
/* The same for 8 to 16 bytes, most keys, all at once. */
static inline bool take_short(struct mu_key *k, const struct muster_segment *seg, const char *key, size_t len)
{
    uint64_t first = load_word(key), second = len == 8 ? 0 : load_word(key + len - 8) >> (8 * (16 - len));
    uint64_t h = mu_hash_step(mu_hash_begin(seg, len), first);
    __m128i v = _mm_set_epi64x((int64_t)second, (int64_t)first), slashes = _mm_set1_epi8('/');
    uint32_t slash = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, slashes));
    uint32_t either = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_or_si128(v, _mm_set1_epi8(1)), slashes));
    uint32_t nul = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_setzero_si128()));

    k->words[0] = first;
    k->words[1] = second;
    if (len > 8)
        h = mu_hash_step(h, second);
    k->hash = mu_hash_end(h);
    k->len = (uint32_t)len;
    return ((slash << 1 | 1) & either) | (nul & ((1u << len) - 1));
}
#else
#define take_short key_take
#endif

static enum muster_status too_long(size_t len)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "the key is %zu bytes long; %u is the most", len, MUSTER_KEY_MAX);
}

/* Copy the parts of the path, one '/' between them. */
static enum muster_status path_rebuild(const char *key, size_t len, char *to, size_t *ret_len)
{
    size_t n = 0, i = 0;

    while (i < len) {
        size_t start = i;

        while (i < len && key[i] != '/')
            i++;
        if (memchr(key + start, 0, i - start))
            return mu_fail(MUSTER_INVALID_ARGUMENT, "the key has a NUL byte; keys are text");
        if ((i - start == 1 && key[start] == '.') || (i - start == 2 && key[start] == '.' && key[start + 1] == '.'))
            return mu_fail(MUSTER_INVALID_ARGUMENT,
                           "the key has a part '%.*s': keys are names and are not resolved like file paths",
                           (int)(i - start), key + start);
        if (i > start) {
            if (n + (n != 0) + (i - start) > MUSTER_KEY_MAX)
                return too_long(len);
            if (n)
                to[n++] = '/';
            memcpy(to + n, key + start, i - start);
            n += i - start;
        }
        i++;
    }
    *ret_len = n;
    return MUSTER_OK;
}

/* Trim, and say whether what is left needs rebuilding. */
static inline const char *path_trim(const char *key, size_t *ret_len)
{
    size_t len = *ret_len;

    while (len && key[0] == '/') {
        key++;
        len--;
    }
    while (len && key[len - 1] == '/')
        len--;
    *ret_len = len;
    return key;
}

/* Take the key apart and try again. Out of line, as take_any(): the usual key's call saves no registers for them. */
static __attribute__((noinline)) enum muster_status key_repair(const struct muster_segment *seg, const char *key,
                                                               size_t len, struct mu_key *ret_key)
{
    char copy[MUSTER_KEY_MAX + 8];
    enum muster_status status = path_rebuild(key, len, copy, &len);

    if (status)
        return status;
    mu_key_make(ret_key, seg, copy, len);
    return MUSTER_OK;
}

/* Of any length, the short ones' too where they need rebuilding. */
static __attribute__((noinline)) enum muster_status take_any(const struct muster_segment *seg, const char *key,
                                                             size_t len, struct mu_key *k)
{
    if (len > MUSTER_KEY_MAX || key_take(k, seg, key, len))
        return key_repair(seg, key, len, k);
    return MUSTER_OK;
}

enum muster_status mu_kv_key(const struct muster_segment *seg, const char *key, size_t len, struct mu_key *ret_key)
{
    if (!key)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the key is NULL");
    if (len == MUSTER_NTS)
        len = strlen(key);
    key = path_trim(key, &len);
    if (!len)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the key is empty");
    if (len >= 8 && len <= 16 && !take_short(ret_key, seg, key, len))
        return MUSTER_OK;
    return take_any(seg, key, len, ret_key);
}

enum muster_status mu_kv_directory(const char *directory, size_t len, char *ret_prefix, size_t *ret_len)
{
    enum muster_status status;

    if (!directory)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the directory is NULL");
    if (len == MUSTER_NTS)
        len = strlen(directory);
    directory = path_trim(directory, &len);
    status = path_rebuild(directory, len, ret_prefix, ret_len);
    if (status)
        return status;
    if (*ret_len)
        ret_prefix[(*ret_len)++] = '/';
    return MUSTER_OK;
}

bool mu_kv_long_key(const void *value, size_t value_len, const char **ret_key, size_t *ret_len)
{
    uint64_t len;

    if (value_len < sizeof len)
        return false;
    memcpy(&len, value, sizeof len);
    if (len > value_len - sizeof len)
        return false;
    *ret_key = (const char *)value + sizeof len;
    *ret_len = len;
    return true;
}

bool mu_kv_begins(const char *name, size_t name_len, const void *value, size_t value_len, const char *with, size_t len)
{
    if (mu_kv_is_long(name, name_len) && !mu_kv_long_key(value, value_len, &name, &name_len))
        return false;
    return name_len > len && !memcmp(name, with, len);
}
