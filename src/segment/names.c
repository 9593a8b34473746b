/*
 * segment/names.c: TensorFlow's names of tasks, for sentences. They are this process's alone: the segment knows
 * numbers.
 */
#include "segment/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mu_names_set(struct muster_segment *seg, const char *words)
{
    char *own = strdup(words), *none = NULL;

    /* release, process-local: pairs with acquire in mu_bare_label(), in this process's other threads: the words come
     * before their address */
    if (own &&
        !atomic_compare_exchange_strong_explicit(&seg->names, &none, own, memory_order_release, memory_order_relaxed))
        free(own);
}

const char *mu_bare_label(const struct muster_segment *seg, int64_t task, char label[MU_LABEL_MAX])
{
    /* acquire, process-local: pairs with release in mu_names_set() */
    const char *at = seg ? atomic_load_explicit(&seg->names, memory_order_acquire) : NULL;
    int64_t first = 0;

    while (at && *at) {
        size_t len = strcspn(at, ":");
        long count = at[len] ? strtol(at + len + 1, NULL, 10) : 0;

        if (task >= first && task - first < count) {
            snprintf(label, MU_LABEL_MAX, "/job:%.*s/replica:0/task:%" PRId64,
                     (int)(len < MU_JOB_LEN_MAX ? len : MU_JOB_LEN_MAX), at, task - first);
            return label;
        }
        first += count;
        at = strchr(at, ',');
        at += at != NULL;
    }
    snprintf(label, MU_LABEL_MAX, "%" PRId64, task);
    return label;
}

const char *mu_label(const struct muster_segment *seg, int64_t task, char label[MU_LABEL_MAX])
{
    if (mu_bare_label(seg, task, label)[0] != '/')
        snprintf(label, MU_LABEL_MAX, "task %" PRId64, task);
    return label;
}
