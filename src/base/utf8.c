/*
 * base/utf8.c: what proto3's own readers, JSON and terminals take for text: no surrogates, no longer form of what has a
 * shorter one, nothing beyond U+10FFFF, and no character cut. What is none is refused or escaped, never handed on.
 */
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

size_t mu_utf8_length(const void *text, size_t len)
{
    const uint8_t *p = text;
    size_t size;

    if (!len)
        return 0;
    size = *p < 0x80 ? 1 : *p < 0xc2 ? 0 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : *p < 0xf5 ? 4 : 0;
    if (size > len)
        return 0;
    for (size_t i = 1; i < size; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
        (*p == 0xf4 && p[1] > 0x8f))
        return 0;
    return size;
}

bool mu_is_utf8(const void *text, size_t len)
{
    const uint8_t *p = text;

    for (size_t i = 0, size; i < len; i += size) {
        size = mu_utf8_length(p + i, len - i);
        if (!size)
            return false;
    }
    return true;
}

size_t mu_utf8_cut(const void *text, size_t len, size_t max)
{
    const uint8_t *p = text;

    if (len <= max)
        return len;
    while (max > 0 && (p[max] & 0xc0) == 0x80)
        max--;
    return max;
}

size_t mu_utf8_copy(char *to, size_t size, const char *text, size_t len)
{
    static const char more[] = " ...";
    size_t end = len < size ? len : mu_utf8_cut(text, len, size - sizeof more), word = end;

    while (end < len && word > end / 2 && text[word] != ' ')
        word--;
    word = word > end / 2 ? word : end;
    memcpy(to, text, word);
    to[word] = 0;
    if (end == len)
        return len;
    memcpy(to + word, more, sizeof more);
    return word + sizeof more - 1;
}
