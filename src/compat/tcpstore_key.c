/*
 * compat/tcpstore_key.c: keys of any bytes and of any length, as parts of the store's paths.
 *
 * One part each, because a delete takes what is below a key along, and because the store folds slashes, of which these
 * keys have two in a row. ':' stands for '/', so that people can still read them.
 */
#include "compat/tcpstore_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PART_MAX = 4000 /* the directory, and what is below a name, have the rest */ };

const char *const mu_ts_directory[] = {
    [MU_TS_KEYS] = "tcpstore", [MU_TS_QUEUES] = "tcpstore-queue", [MU_TS_BARRIERS] = "tcpstore-barrier"};

static bool is_plain(uint8_t c)
{
    return c >= ' ' && c != ':' && c != '%' && c != 0x7f;
}

static size_t byte_escape(char *to, uint8_t c)
{
    static const char digits[] = "0123456789ABCDEF";

    to[0] = '%';
    to[1] = digits[c >> 4];
    to[2] = digits[c & 15];
    return 3;
}

/* 0: it would be too long. */
static size_t write_part(char *to, const uint8_t *key, size_t len)
{
    bool is_dots = (len == 1 || len == 2) && key[0] == '.' && key[len - 1] == '.';
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (n > PART_MAX - 3)
            return 0;
        if (is_plain(key[i]) && !is_dots)
            to[n++] = key[i] == '/' ? ':' : (char)key[i];
        else
            n += byte_escape(to + n, key[i]);
    }
    if (len == 0)
        to[n++] = '%';
    return n;
}

/* FNV-1a of 128 bits: of two keys with one hash, both longer than the store's, only one can be set. */
static size_t write_hash(char *to, const uint8_t *key, size_t len)
{
    const unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
    unsigned __int128 h = ((unsigned __int128)0x6c62272e07bb0142ull << 64) + 0x62b821756295c58dull;

    for (size_t i = 0; i < len; i++)
        h = (h ^ key[i]) * prime;
    return (size_t)snprintf(to, 35, "%%H%016llx%016llx", (unsigned long long)(h >> 64), (unsigned long long)h);
}

void mu_ts_name(struct mu_ts_name *name, enum mu_ts_place place, const uint8_t *key, size_t len)
{
    size_t n = strlen(mu_ts_directory[place]), part;

    memcpy(name->text, mu_ts_directory[place], n);
    name->text[n++] = '/';
    part = write_part(name->text + n, key, len);
    name->is_hash = part == 0;
    name->len = n + (part ? part : write_hash(name->text + n, key, len));
}

void mu_ts_name_under(struct mu_ts_name *name, const char *part)
{
    size_t n = strlen(part);

    name->text[name->len++] = '/';
    memcpy(name->text + name->len, part, n);
    name->len += n;
}

void mu_ts_name_number(struct mu_ts_name *name, uint64_t number)
{
    char part[24];

    snprintf(part, sizeof part, "%" PRIu64, number);
    mu_ts_name_under(name, part);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* What others write there need not be a name: such bytes stay as they are. */
bool mu_ts_key(const char *name, size_t len, uint8_t *to, size_t *ret_len)
{
    size_t n = 0;

    if (len > 1 && name[0] == '%' && name[1] == 'H')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool escaped = name[i] == '%' && len - i > 2 && hex_digit(name[i + 1]) >= 0 && hex_digit(name[i + 2]) >= 0;

        if (len == 1 && name[i] == '%')
            break;
        to[n++] = escaped          ? (uint8_t)(hex_digit(name[i + 1]) << 4 | hex_digit(name[i + 2]))
                  : name[i] == ':' ? '/'
                                   : (uint8_t)name[i];
        i += escaped ? 2 : 0;
    }
    *ret_len = n;
    return true;
}
