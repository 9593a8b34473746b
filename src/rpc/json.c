/*
 * rpc/json.c: finding a value in JSON.
 */
#include "rpc/json.h"

#include <string.h>

enum { DEPTH_MAX = 32 };

void mu_json_blank(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

bool mu_json_take(const char **at, char c)
{
    mu_json_blank(at);
    if (**at != c)
        return false;
    ++*at;
    return true;
}

bool mu_json_string(const char **at, const char **ret_text, size_t *ret_len)
{
    const char *end;

    if (!mu_json_take(at, '"'))
        return false;
    for (end = *at; *end && *end != '"'; end++)
        if (*end == '\\' && !*++end)
            return false;
    if (!*end)
        return false;
    *ret_text = *at;
    *ret_len = (size_t)(end - *at);
    *at = end + 1;
    return true;
}

bool mu_json_skip(const char **at)
{
    const char *text;
    unsigned depth = 0;
    size_t len;

    do {
        mu_json_blank(at);
        if (**at == '"') {
            if (!mu_json_string(at, &text, &len))
                return false;
        } else if (**at == '{' || **at == '[') {
            if (++depth > DEPTH_MAX)
                return false;
            ++*at;
        } else if (depth > 0 && strchr("}],:", **at) && **at) {
            depth -= **at == '}' || **at == ']';
            ++*at;
        } else {
            len = strcspn(*at, "{}[]\",: \t\r\n");
            if (len == 0)
                return false;
            *at += len;
        }
    } while (depth > 0);
    return true;
}

bool mu_json_find(const char **at, const char *name)
{
    const char *text;
    size_t len;

    if (!mu_json_take(at, '{'))
        return false;
    do {
        if (!mu_json_string(at, &text, &len) || !mu_json_take(at, ':'))
            return false;
        if (len == strlen(name) && memcmp(text, name, len) == 0)
            return true;
        if (!mu_json_skip(at))
            return false;
    } while (mu_json_take(at, ','));
    return false;
}
