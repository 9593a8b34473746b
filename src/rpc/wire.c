/*
 * rpc/wire.c: timeouts, statuses, percent-encoding and base64, as gRPC writes them in headers.
 */
#include "rpc/wire.h"

#include <string.h>

#include "base/utf8.h"

bool mu_wire_timeout(const char *text, size_t len, uint64_t *ret_ns)
{
    static const struct {
        char unit;
        uint64_t ns;
    } units[] = {{'H', 3600000000000u}, {'M', 60000000000u}, {'S', 1000000000u},
                 {'m', 1000000u},       {'u', 1000u},        {'n', 1u}};
    uint64_t number = 0;

    if (len < 2 || len > 9)
        return false;
    for (size_t i = 0; i + 1 < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(text[i] - '0');
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].unit == text[len - 1]) {
            *ret_ns = number > UINT64_MAX / 4 / units[i].ns ? UINT64_MAX / 4 : number * units[i].ns;
            return true;
        }
    return false;
}

bool mu_wire_is(const uint8_t *bytes, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(bytes, word, len) == 0;
}

unsigned mu_wire_status(const uint8_t *digits, size_t len)
{
    unsigned n = 0;

    for (size_t i = 0; i < len; i++) {
        if (digits[i] < '0' || digits[i] > '9' || i >= 3)
            return 999;
        n = n * 10 + (unsigned)(digits[i] - '0');
    }
    return len > 0 ? n : 999;
}

static bool character_is_plain(unsigned char c)
{
    return c >= 0x20 && c <= 0x7e && c != '%';
}

/* The bytes of the character that begins there; of those that are none. */
static size_t character_length(const char *at, size_t left, bool *ret_good)
{
    size_t len = mu_utf8_length(at, left);

    *ret_good = len > 0;
    if (!len)
        for (len = 1; len < left && !mu_utf8_length(at + len, left - len);)
            len++;
    return len;
}

size_t mu_wire_text(const char *text, char *to, size_t size)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t len = strlen(text), from = 0, n = 0, room = size - strlen(" " MU_WIRE_CUT), fits = 0;

    while (from < len) {
        bool good;
        size_t bytes = character_length(text + from, len - from, &good), more = 0;
        const char *say = good ? text + from : "?"; /* of bytes that are no text nothing but that */
        size_t said = good ? bytes : 1;

        for (size_t i = 0; i < said; i++)
            more += character_is_plain((unsigned char)say[i]) ? 1 : 3;
        if (from + said > MU_WIRE_TEXT_MAX || n + more > size)
            break;
        from += bytes;
        for (size_t i = 0; i < said; i++) {
            unsigned char c = (unsigned char)say[i];

            if (character_is_plain(c)) {
                to[n++] = (char)c;
                continue;
            }
            to[n++] = '%';
            to[n++] = hex[c >> 4];
            to[n++] = hex[c & 15];
        }
        if (n <= room)
            fits = n;
    }
    if (from == len)
        return n;
    memcpy(to + fits, " " MU_WIRE_CUT, strlen(" " MU_WIRE_CUT));
    return fits + strlen(" " MU_WIRE_CUT);
}

size_t mu_wire_base64(const void *bytes, size_t len, char *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    size_t n = 0;

    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t word =
            (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) | (left > 2 ? from[i + 2] : 0);

        to[n++] = digits[word >> 18];
        to[n++] = digits[(word >> 12) & 63];
        if (left > 1)
            to[n++] = digits[(word >> 6) & 63];
        if (left > 2)
            to[n++] = digits[word & 63];
    }
    return n;
}
