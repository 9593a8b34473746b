/*
 * cli/run/elastic.c: what `muster run` says of a job with a number of tasks that changes, and what cannot be said
 * beside it.
 */
#include "cli/run/elastic.h"

#include <string.h>

#include "base/words.h"

MU_WORDS(mu_cli_on_failure, "shrink", "replace", "restart", "end")

/* Options that go with a fixed number of tasks alone, and why. */
static const struct {
    enum mu_cli_option_id id;
    const char *name, *why;
} refused[] = {
    {MU_OPT_SURVIVE, "survive", "the launcher is what starts the next epoch"},
    {MU_OPT_MEMFD, "memfd", "each epoch has a segment of its own, which is found by its name"},
    {MU_OPT_RESTART_POLICY, "restart-policy", "--on-failure says what is started again"},
    {MU_OPT_KILL_ON_FAIL, "kill-on-fail", "--on-failure says what a failing task does"},
    {MU_OPT_MINDSPORE, "mindspore", "that scheduler has a scaling of its own"},
    {MU_OPT_RAY, "ray", "its scheduler is one for the whole job"},
    {MU_OPT_TF_MASTER, "tf-master", "its sessions are placed on a fixed number of executors"},
    {MU_OPT_WORKERS, "workers", "they are workers of one epoch"},
    {MU_OPT_BIND_TO, "bind-to", "a plan of processors or GPUs is made for one number of tasks"},
    {MU_OPT_MAP_BY, "map-by", "a plan of processors or GPUs is made for one number of tasks"},
    {MU_OPT_GRPC_RECOVERABLE, "grpc-recoverable", "--on-failure says what a failing task does"},
};

static int range_take(const struct mu_cli_call *call, const char *text, struct mu_agent_elastic *elastic)
{
    const char *colon = strchr(text, ':');
    char first[16] = "";
    uint64_t least = 0, most = 0;

    if (colon && colon - text < (ptrdiff_t)sizeof first)
        memcpy(first, text, (size_t)(colon - text));
    if (!colon || mu_cli_parse_unsigned(first, MU_AGENT_TASKS_MAX, &least) ||
        mu_cli_parse_unsigned(colon + 1, MU_AGENT_TASKS_MAX, &most) || least == 0 || least > most)
        return mu_cli_wrong(call, MU_OPT_ELASTIC, text, "is no MIN:MAX, two numbers of tasks from 1 to %u",
                            MU_AGENT_TASKS_MAX);
    elastic->least = (uint32_t)least;
    elastic->most = (uint32_t)most;
    return 0;
}

int mu_cli_take_elastic(const struct mu_cli_call *call, struct mu_agent_elastic *elastic,
                        struct mu_agent_options *options)
{
    const char *range = call->values[MU_OPT_ELASTIC];
    size_t what = MU_AGENT_SHRINK;
    int code = mu_cli_word(call, MU_OPT_ON_FAILURE, &what);

    if (code)
        return code;
    if (!range && call->values[MU_OPT_LIVE])
        return mu_cli_usage(call, "--live needs --elastic MIN:MAX");
    if (!range)
        return call->values[MU_OPT_ON_FAILURE] ? mu_cli_usage(call, "--on-failure needs --elastic MIN:MAX") : 0;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (call->values[refused[i].id])
            return mu_cli_usage(call, "--elastic and --%s exclude each other: %s", refused[i].name, refused[i].why);
    elastic->on_failure = (enum mu_agent_on_failure)what;
    if ((elastic->on_failure == MU_AGENT_REPLACE || elastic->on_failure == MU_AGENT_RESTART) &&
        !call->values[MU_OPT_RESTARTS])
        return mu_cli_usage(call, "--on-failure %s needs --restarts N: how often", mu_cli_on_failure(what));
    elastic->live = call->values[MU_OPT_LIVE] != NULL;
    if (elastic->live && elastic->on_failure == MU_AGENT_RESTART)
        return mu_cli_usage(call,
                            "--live and --on-failure restart exclude each other: that is --elastic without --live");
    if (!elastic->live && (call->values[MU_OPT_HOSTS] || call->values[MU_OPT_HOSTFILE]))
        return mu_cli_usage(call, "--elastic with --%s needs --live: the job is not started again on several hosts",
                            call->values[MU_OPT_HOSTS] ? "hosts" : "hostfile");
    if (elastic->live && call->values[MU_OPT_GRPC])
        return mu_cli_usage(call, "--live and --grpc exclude each other: its clients register for a fixed number of "
                                  "tasks");
    options->elastic = elastic;
    return range_take(call, range, elastic);
}

int mu_cli_check_elastic(const struct mu_cli_call *call, const struct mu_agent_options *options,
                         struct mu_cli_apps *apps)
{
    const struct mu_agent_elastic *elastic = options->elastic;
    const char *to = call->values[MU_OPT_STDIN], *mpi = call->values[MU_OPT_MPI];
    uint64_t task = 0;

    if (!elastic)
        return 0;
    if (apps->count > 1)
        return mu_cli_usage(call, "--elastic is for one command: of several none is known to have the tasks that come");
    if (!call->values[MU_OPT_NUM])
        apps->num_tasks = apps->list[0].num_tasks = elastic->most;
    if (apps->num_tasks < elastic->least || apps->num_tasks > elastic->most)
        return mu_cli_usage(call, "-n %u is not within --elastic %u:%u", apps->num_tasks, elastic->least,
                            elastic->most);
    if (to && mu_cli_parse_unsigned(to, UINT32_MAX, &task) == 0 && task >= elastic->least)
        return mu_cli_usage(call, "--stdin %s: with --elastic %u:%u there may be no such task", to, elastic->least,
                            elastic->most);
    if (elastic->live && mpi && strcmp(mpi, "none") != 0)
        return mu_cli_usage(
            call, "--live and --mpi %s exclude each other: MPI's programs are of a fixed number of tasks", mpi);
    if (mpi && strcmp(mpi, "pmix") == 0)
        return mu_cli_usage(call, "--elastic and --mpi pmix exclude each other: its namespace has a fixed number of "
                                  "tasks");
    return 0;
}
