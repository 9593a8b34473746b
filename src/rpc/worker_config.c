/*
 * rpc/worker_config.c: where TF_CONFIG says that the workers are:
 *     {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"], ...}, "task": ...}
 *
 * Only as much of JSON is read as finds that list; all else is stepped over. What is not whole is taken for none.
 */
#include "rpc/worker.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 32 };

static void skip_blank(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

/* That character comes next, and is stepped over. */
static bool character_take(const char **at, char c)
{
    skip_blank(at);
    if (**at != c)
        return false;
    ++*at;
    return true;
}

/* A string: where its inside begins, and how long it is; escapes are left in. */
static bool take_string(const char **at, const char **ret_text, size_t *ret_len)
{
    const char *end;

    if (!character_take(at, '"'))
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

/* Any value. Brackets are counted, not matched: what is wrong within is somebody else's to say. */
static bool skip_value(const char **at)
{
    const char *text;
    unsigned depth = 0;
    size_t len;

    do {
        skip_blank(at);
        if (**at == '"') {
            if (!take_string(at, &text, &len))
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

/* Within an object, to the value of that name. */
static bool value_find(const char **at, const char *name)
{
    const char *text;
    size_t len;

    if (!character_take(at, '{'))
        return false;
    do {
        if (!take_string(at, &text, &len) || !character_take(at, ':'))
            return false;
        if (len == strlen(name) && memcmp(text, name, len) == 0)
            return true;
        if (!skip_value(at))
            return false;
    } while (character_take(at, ','));
    return false;
}

/* The strings of an array, with commas between. */
static bool strings_join(const char *at, char *to, uint32_t *ret_count)
{
    const char *text;
    size_t len, n = 0;

    *ret_count = 0;
    if (!character_take(&at, '['))
        return false;
    do {
        if (!take_string(&at, &text, &len) || memchr(text, '\\', len) || memchr(text, ',', len))
            return false;
        if (n > 0)
            to[n++] = ',';
        memcpy(to + n, text, len);
        n += len;
        ++*ret_count;
    } while (character_take(&at, ','));
    to[n] = 0;
    return character_take(&at, ']');
}

char *mu_workers_of_config(const char *json, uint32_t num_tasks)
{
    char *list = malloc(strlen(json) + 1); /* it is a part of it */
    uint32_t count;

    if (list && value_find(&json, "cluster") && value_find(&json, "worker") && strings_join(json, list, &count) &&
        count == num_tasks && !mu_workers_check(list, num_tasks))
        return list;
    free(list);
    return NULL;
}
