/*
 * compat/pmi1_map.c: tasks as lists: for people; and which tasks share a host, as MPICH reads it: blocks (first host,
 * hosts, tasks on each).
 *
 * Without any blank: with one the clients take the whole for nothing and ask each other, with one more put a task.
 */
#include <stdio.h>

#include "compat/pmi1.h"

uint32_t mu_pmi1_list(char *text, size_t size, uint32_t first, uint32_t count,
                      bool (*is)(const void *arg, uint32_t task), const void *arg)
{
    uint32_t found = 0;
    size_t len = 0;

    for (uint32_t task = first; task < first + count; task++)
        found += is(arg, task);
    len = (size_t)snprintf(text, size, found == 1 ? "task" : "tasks");
    for (uint32_t task = first, from, n = 0, end = first + count; task < end; task++) {
        if (!is(arg, task))
            continue;
        for (from = task; task + 1 < end && is(arg, task + 1);)
            task++;
        if (len + 32 > size) {
            snprintf(text + len, size - len, ",...");
            break;
        }
        len += (size_t)snprintf(text + len, size - len, "%s%u", n++ ? "," : " ", from);
        if (task > from)
            len += (size_t)snprintf(text + len, size - len, "-%u", task);
    }
    return found;
}

void mu_pmi1_map(const uint32_t *tasks, uint32_t num_hosts, char *ret_text, size_t size)
{
    size_t len = (size_t)snprintf(ret_text, size, "(vector");

    for (uint32_t host = 0, end; host < num_hosts && len < size; host = end) {
        for (end = host + 1; end < num_hosts && tasks[end] == tasks[host];)
            end++;
        if (tasks[host] > 0)
            len += (size_t)snprintf(ret_text + len, size - len, ",(%u,%u,%u)", host, end - host, tasks[host]);
    }
    if (len < size)
        len += (size_t)snprintf(ret_text + len, size - len, ")");
    if (len >= size || len >= MU_PMI1_VALUE_MAX)
        ret_text[0] = 0;
}
