/*
 * compat/pmi1_map.c: which tasks share a host, as MPICH reads it: blocks (first host, hosts, tasks on each).
 *
 * Without any blank: with one the clients take the whole for nothing and ask each other, with one more put a task.
 */
#include <stdio.h>

#include "compat/pmi1.h"

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
