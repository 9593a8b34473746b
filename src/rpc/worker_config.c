/*
 * rpc/worker_config.c: where TF_CONFIG says that the workers are:
 *     {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"], ...}, "task": ...}
 *
 * What is not whole is taken for none.
 */
#include "rpc/worker.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/json.h"

/* The strings of an array, with commas between. */
static bool strings_join(const char *at, char *to, uint32_t *ret_count)
{
    const char *text;
    size_t len, n = 0;

    *ret_count = 0;
    if (!mu_json_take(&at, '['))
        return false;
    do {
        if (!mu_json_string(&at, &text, &len) || memchr(text, '\\', len) || memchr(text, ',', len))
            return false;
        if (n > 0)
            to[n++] = ',';
        memcpy(to + n, text, len);
        n += len;
        ++*ret_count;
    } while (mu_json_take(&at, ','));
    to[n] = 0;
    return mu_json_take(&at, ']');
}

char *mu_workers_of_config(const char *json, uint32_t num_tasks)
{
    char *list = malloc(strlen(json) + 1); /* it is a part of it */
    uint32_t count;

    if (list && mu_json_find(&json, "cluster") && mu_json_find(&json, "worker") && strings_join(json, list, &count) &&
        count == num_tasks && !mu_workers_check(list, num_tasks))
        return list;
    free(list);
    return NULL;
}
