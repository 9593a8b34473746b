/*
 * base/cpus.c: sets of processors of any size: as lists of text, and as the kernel tells them.
 *
 * cpu_set_t ends at 1024 processors; the CPU_*_S() forms do not.
 */
#include "base/cpus.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cpu_set_t *mu_cpus_new(size_t size)
{
    cpu_set_t *set = CPU_ALLOC(size * 8);

    if (set)
        CPU_ZERO_S(size, set);
    return set;
}

char *mu_cpus_list(const cpu_set_t *set, size_t size)
{
    size_t bits = size * 8, length = 0;
    char *list = NULL;
    FILE *out = open_memstream(&list, &length);

    if (!out)
        return NULL;
    for (size_t first = 0, next; first < bits; first = next) {
        next = first + 1;
        if (!CPU_ISSET_S(first, size, set))
            continue;
        while (next < bits && CPU_ISSET_S(next, size, set))
            next++;
        fprintf(out, ftell(out) > 0 ? ",%zu" : "%zu", first);
        if (next > first + 1)
            fprintf(out, "-%zu", next - 1);
    }
    if (fclose(out)) {
        free(list);
        return NULL;
    }
    return list;
}

int mu_cpus_parse(const char *list, cpu_set_t *set, size_t size)
{
    int outside = 0;

    while (*list && *list != '\n') {
        unsigned long first, last;
        char *end;

        if (!isdigit((unsigned char)*list))
            return -1;
        first = last = strtoul(list, &end, 10);
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1]))
                return -1;
            last = strtoul(end + 1, &end, 10);
        }
        if (last < first || last >= MU_CPUS_MAX || (*end && *end != ',' && *end != '\n'))
            return -1;
        for (; first <= last; first++) {
            if (first < size * 8)
                CPU_SET_S(first, size, set);
            else
                outside = 1;
        }
        list = *end == ',' ? end + 1 : end;
    }
    return outside;
}

int mu_cpus_allowed(cpu_set_t **ret_set, size_t *ret_size)
{
    for (size_t cpus = CPU_SETSIZE; cpus <= MU_CPUS_MAX; cpus *= 2) {
        size_t size = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *set = mu_cpus_new(size);

        if (!set)
            return -1;
        if (sched_getaffinity(0, size, set) == 0) {
            *ret_set = set;
            *ret_size = size;
            return 0;
        }
        CPU_FREE(set);
        if (errno != EINVAL) /* EINVAL: the kernel's set is larger */
            return -1;
    }
    return -1;
}

/* The value behind `key` in a file of lines. */
static char *value_of(const char *path, const char *key)
{
    FILE *file = fopen(path, "re");
    char *line = NULL, *found = NULL;
    size_t room = 0;

    if (!file)
        return NULL;
    errno = ESRCH;
    while (!found && getline(&line, &room, file) > 0)
        if (strncmp(line, key, strlen(key)) == 0) {
            line[strcspn(line, "\n")] = '\0';
            found = strdup(line + strlen(key));
        }
    free(line);
    fclose(file);
    return found;
}

char *mu_cpus_of(const char *path)
{
    return value_of(path, "Cpus_allowed_list:\t");
}

char *mu_cpus_nodes_of(const char *path)
{
    return value_of(path, "Mems_allowed_list:\t");
}
