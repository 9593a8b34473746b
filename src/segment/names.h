/*
 * segment/names.h: what a task is called in sentences: "task 2", or, where the job's clients know their tasks by
 * TensorFlow's names, "/job:worker/replica:0/task:1". Nobody but muster knows its own numbers there.
 */
#ifndef MU_SEGMENT_NAMES_H
#define MU_SEGMENT_NAMES_H

#include "segment/segment.h"

#define MU_LABEL_MAX   176u
#define MU_NAME_MAX    272u /* of a label with "(pid 4711 on host n1)" behind it: mu_cluster_name() */
#define MU_JOB_LEN_MAX 128u /* of a job's name in the words */

/* "ps:1,worker:2": the jobs of the tasks, in order, as mu_jobs_init() has checked them. In this process, for as long as
 * the segment is mapped; the first words stay. Without memory the tasks keep their numbers. */
void mu_names_set(struct muster_segment *seg, const char *words);

/* seg may be NULL, and the task be none of the job's. */
const char *mu_label(const struct muster_segment *seg, int64_t task, char label[MU_LABEL_MAX]);
#define MU_LABEL(seg, task) mu_label(seg, task, (char[MU_LABEL_MAX]){0})
/* "2", where the sentence says that it is a task. */
const char *mu_bare_label(const struct muster_segment *seg, int64_t task, char label[MU_LABEL_MAX]);
#define MU_BARE_LABEL(seg, task) mu_bare_label(seg, task, (char[MU_LABEL_MAX]){0})

#endif
