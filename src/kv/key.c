/*
 * kv/key.c: key paths. The usual key needs no change: one pass over its words tells, and only then a copy is edited.
 */
#include "kv/key.h"

#include <string.h>

#define ONES  0x0101010101010101ull
#define HIGHS 0x8080808080808080ull

/* A high bit for every byte of v that is zero (and possibly for a byte 0x01 just above one: the slow path sorts out).
 */
static inline uint64_t zero_bytes(uint64_t v)
{
    return (v - ONES) & ~v & HIGHS;
}

/* Something in the key may need attention: a NUL, "//", or a '.' beside a '/'. False is certain. */
static bool suspicious(const char *key, size_t len)
{
    uint64_t nul = 0, odd = 0, carry_slash = 0x80; /* the start counts as a slash, for "." and ".." there */
    size_t i = 0;

    for (; i + 8 <= len; i += 8) {
        uint64_t v, slash, dot;

        memcpy(&v, key + i, 8);
        nul |= zero_bytes(v);
        slash = zero_bytes(v ^ ('/' * ONES));
        dot = zero_bytes(v ^ ('.' * ONES));
        odd |= (slash << 8 | carry_slash) & (slash | dot);
        carry_slash = slash >> 56;
    }
    if (i < len) {
        uint64_t v = 'x' * ONES, slash, dot;

        memcpy(&v, key + i, len - i);
        nul |= zero_bytes(v);
        slash = zero_bytes(v ^ ('/' * ONES));
        dot = zero_bytes(v ^ ('.' * ONES));
        odd |= (slash << 8 | carry_slash) & (slash | dot);
    }
    return nul || odd;
}

static enum muster_status too_long(size_t len)
{
    return mu_fail(MUSTER_INVALID_ARGUMENT, "the key is %zu bytes long; %u is the most", len, MUSTER_KEY_MAX);
}

/* Copy the parts of the path, one '/' between them. */
static enum muster_status rebuild(const char *key, size_t len, char *to, size_t *ret_len)
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
static const char *trim(const char *key, size_t *len)
{
    while (*len && key[0] == '/') {
        key++;
        --*len;
    }
    while (*len && key[*len - 1] == '/')
        --*len;
    return key;
}

enum muster_status mu_kv_key(const struct muster_segment *seg, const char *key, size_t len, struct mu_key *ret_key)
{
    char copy[MUSTER_KEY_MAX + 8];
    enum muster_status status;

    if (!key)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the key is NULL");
    if (len == MUSTER_NTS)
        len = strlen(key);
    key = trim(key, &len);
    if (len && suspicious(key, len)) {
        status = rebuild(key, len, copy, &len);
        if (status)
            return status;
        key = copy;
    }
    if (!len)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the key is empty");
    if (len > MUSTER_KEY_MAX)
        return too_long(len);
    mu_key_make(ret_key, seg, key, len);
    return MUSTER_OK;
}

enum muster_status mu_kv_directory(const char *directory, size_t len, char *ret_prefix, size_t *ret_len)
{
    enum muster_status status;

    if (!directory)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "the directory is NULL");
    if (len == MUSTER_NTS)
        len = strlen(directory);
    directory = trim(directory, &len);
    status = rebuild(directory, len, ret_prefix, ret_len);
    if (status)
        return status;
    if (*ret_len)
        ret_prefix[(*ret_len)++] = '/';
    return MUSTER_OK;
}
