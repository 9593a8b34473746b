/*
 * session/server_def.c: what an executor is told of a session's cluster.
 */
#include <stdlib.h>
#include <string.h>

#include "session/private.h"

void *mu_ss_server_def(const struct mu_ss_session *s, const struct mu_ss_member *own, size_t *ret_len)
{
    Mu__Session__ServerDef def = MU__SESSION__SERVER_DEF__INIT;
    Mu__Session__ClusterDef cluster = MU__SESSION__CLUSTER_DEF__INIT;
    Mu__Session__JobDef *jobs = calloc(s->num_members, sizeof *jobs), **all = calloc(s->num_members, sizeof *all);
    Mu__Session__JobTask *tasks = calloc(s->num_members, sizeof *tasks);
    Mu__Session__JobTask **each = calloc((size_t)s->num_members * s->num_members, sizeof *each);
    void *bytes = NULL;

    for (uint32_t i = 0; jobs && all && tasks && each && i < s->num_members; i++) {
        const struct mu_executor *e = s->members[i].executor;
        size_t k = 0;

        while (k < cluster.n_job && strcmp(jobs[k].name, e->job) != 0)
            k++;
        if (k == cluster.n_job) {
            mu__session__job_def__init(&jobs[k]);
            jobs[k].name = (char *)(uintptr_t)e->job;
            jobs[k].tasks = each + k * s->num_members;
            all[k] = &jobs[k];
            cluster.n_job++;
        }
        mu__session__job_task__init(&tasks[i]);
        tasks[i].has_key = true;
        tasks[i].key = (int32_t)e->task;
        tasks[i].value = (char *)(uintptr_t)e->address;
        jobs[k].tasks[jobs[k].n_tasks++] = &tasks[i];
    }
    cluster.job = all;
    def.cluster = &cluster;
    def.job_name = (char *)(uintptr_t)own->executor->job;
    def.has_task_index = true;
    def.task_index = (int32_t)own->executor->task;
    def.protocol = (char *)(uintptr_t) "grpc";
    *ret_len = mu__session__server_def__get_packed_size(&def);
    if (jobs && all && tasks && each)
        bytes = malloc(*ret_len + 1);
    if (bytes)
        mu__session__server_def__pack(&def, bytes);
    free(jobs);
    free(all);
    free(tasks);
    free(each);
    return bytes;
}
