/*
 * launch/env.c: the environment of the tasks.
 *
 * The launcher's own environment is inherited, except the variables that muster sets (a launcher started inside another
 * job must not pass that job on). Entries that differ from task to task lie at the end of the array and point into the
 * structure's own text, so one array serves every task: a task has a copy of it once it has exec'ed.
 */
#include "launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"

/* The first four are per task, in the order in which mu_launch_env_task() writes them. */
static const char *const names[] = {
    "MUSTER_TASK_ID",   "MUSTER_LOCAL_ID",   "RANK",          "LOCAL_RANK", /* per task */
    "MUSTER_JOB",       "MUSTER_SEGMENT",    "MUSTER_RUN_ID", "MUSTER_NUM_TASKS", "MUSTER_NODE_ID", "WORLD_SIZE",
    "LOCAL_WORLD_SIZE", "MUSTER_PROCESSORS",
};
#define NUM_NAMES    (sizeof names / sizeof names[0])
#define NUM_PER_TASK 4

int mu_launch_env_is_ours(const char *name, size_t len)
{
    for (size_t i = 0; i < NUM_NAMES; i++)
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return 1;
    return 0;
}

static char *entry(const char *name, const char *value)
{
    char *text;

    return asprintf(&text, "%s=%s", name, value) < 0 ? NULL : text;
}

int mu_launch_env_init(struct mu_launch_env *env, char **base, const struct mu_launch_job *job)
{
    size_t count = 0, ours;
    char number[16], processors[16];

    memset(env, 0, sizeof *env);
    while (base[count])
        count++;
    env->vars = calloc(count + NUM_NAMES + 1, sizeof *env->vars);
    if (!env->vars)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (!mu_launch_env_is_ours(base[i], strcspn(base[i], "=")) && !(env->vars[env->fixed++] = strdup(base[i])))
            return -1;
    if (!job)
        return 0;
    snprintf(number, sizeof number, "%u", job->num_tasks);
    snprintf(processors, sizeof processors, "%u", job->num_processors ? job->num_processors : mu_processors());
    const char *const values[] = {job->job, job->segment, job->run_id, number, "0", number, number, processors};
    for (ours = NUM_PER_TASK; ours < NUM_NAMES; ours++)
        if (!(env->vars[env->fixed++] = entry(names[ours], values[ours - NUM_PER_TASK])))
            return -1;
    for (int i = 0; i < NUM_PER_TASK; i++)
        env->vars[env->fixed + i] = env->text[i];
    return 0;
}

void mu_launch_env_task(struct mu_launch_env *env, uint32_t task_id)
{
    for (int i = 0; i < NUM_PER_TASK; i++)
        snprintf(env->text[i], sizeof env->text[i], "%s=%u", names[i], task_id);
}

void mu_launch_env_done(struct mu_launch_env *env)
{
    for (size_t i = 0; env->vars && i < env->fixed; i++)
        free(env->vars[i]);
    free(env->vars);
    memset(env, 0, sizeof *env);
}
