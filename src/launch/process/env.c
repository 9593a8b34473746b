/*
 * launch/process/env.c: the environment of the tasks.
 *
 * The launcher's own environment is inherited, except the variables that muster sets (a launcher started inside another
 * job must not pass that job on) and those by which another launcher has told this one what it is (family.c). Besides
 * muster's own these are what other launchers' programs read: torchrun's, Open MPI's and JAX's names for the same
 * numbers, each family whole. Some are set only when nobody else has (an address to meet at). PMI_* come with a server
 * behind them, or not at all (agent/mpi/mpi.c). Slurm's are not set: programs that find them count on its commands.
 *
 * Where the coordination service is served (job->grpc) JAX's variables name it, whatever else the launcher's own did,
 * and jax.distributed.initialize() needs no arguments: it takes the numbers of tasks from Open MPI's variables where
 * OMPI_MCA_orte_hnp_uri is set, of which it reads nothing when it has an address. (Open MPI itself does not mind: a
 * program that it did not start is one of its own, by other signs.) So it is in an allocation of Slurm's or a pod of an
 * indexed job, where JAX would take the numbers of those instead. OMPI_VERSION says of which version the names are:
 * without it JAX 0.12 takes them for Open MPI 5's, and insists on mpi4py.
 *
 * Python keeps what it prints until it has 8 KiB, and loses it where the task is killed, unless it writes to a terminal
 * or PYTHONUNBUFFERED is set: so that is set elsewhere.
 *
 * Where PyTorch's store is served (job->tcpstore) MASTER_ADDR and MASTER_PORT name it, and TORCHELASTIC_USE_AGENT_STORE
 * says that no rank is to make one there.
 *
 * Each task has an array of its own, until it has exec'ed: tasks are started several at once. Its first entries are the
 * same for all tasks of a command and are shared; what differs lies behind the array, in the same block.
 */
#include "launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"

enum what {
    TASK,
    LOCAL,
    ATTEMPT,
    FAILURES, /* attempts that a failure has brought */
    JOB,
    SEGMENT,
    RUN_ID,
    APP,
    NUM_TASKS,
    NUM_LOCAL,
    PROCESSORS,
    TOPOLOGY,
    NODE,
    NUM_NODES,
    RESTARTS,
    RECOVERABLE,
    ADDRESS,
    PORT,
    ENDPOINT,
    BINDING,
    GRPC,
    AGENT_STORE, /* with PyTorch's store served: what makes PyTorch believe that it need not make one */
    TITLE,
    ROLE,
    ONE,
    UNBUFFERED,
    THREADS, /* one, where several tasks share a machine */
    VERSION,
    MPI,        /* what JAX knows a launcher by */
    GPUS,       /* only in job->own */
    ERROR_FILE, /* where mu_launch_env_task() may write of a task */
    MPI_OF_TASK /* what mu_launch_env_task() is given for one task */
};

/* Whether it is set where the launcher's own environment, or a command's, has it. */
enum unless_set {
    ALWAYS,
    UNLESS_SET, /* by anybody but the job that this launcher is a task of */
    USERS       /* and not by that either: it is no number of tasks, and no address */
};

static const struct variable {
    const char *name;
    enum what what;
    enum unless_set unless_set;
} variables[] = {
    /* per task: NUM_PER_TASK of them, first */
    {"MUSTER_TASK_ID", TASK, ALWAYS},
    {"MUSTER_LOCAL_ID", LOCAL, ALWAYS},
    {"MUSTER_ATTEMPT", ATTEMPT, ALWAYS},
    {"RANK", TASK, ALWAYS},
    {"LOCAL_RANK", LOCAL, ALWAYS},
    {"ROLE_RANK", TASK, ALWAYS},
    {"TORCHELASTIC_RESTART_COUNT", FAILURES, ALWAYS},
    {"OMPI_COMM_WORLD_RANK", TASK, ALWAYS},
    {"OMPI_COMM_WORLD_LOCAL_RANK", LOCAL, ALWAYS},
    {"OMPI_COMM_WORLD_NODE_RANK", LOCAL, ALWAYS},
    {"MPI_LOCALRANKID", LOCAL, ALWAYS},
    {"JAX_PROCESS_ID", TASK, ALWAYS},
    /* the same for all */
    {"MUSTER_JOB", JOB, ALWAYS},
    {"MUSTER_SEGMENT", SEGMENT, ALWAYS},
    {"MUSTER_RUN_ID", RUN_ID, ALWAYS},
    {"MUSTER_NUM_TASKS", NUM_TASKS, ALWAYS},
    {"MUSTER_NODE_ID", NODE, ALWAYS},
    {"MUSTER_NUM_NODES", NUM_NODES, ALWAYS},
    {"MUSTER_APP", APP, ALWAYS},
    {"MUSTER_RECOVERABLE", RECOVERABLE, ALWAYS},
    {"MUSTER_PROCESSORS", PROCESSORS, ALWAYS},
    {"MUSTER_TOPOLOGY", TOPOLOGY, ALWAYS},
    {"MUSTER_GPUS", GPUS, ALWAYS},
    {"MUSTER_GPU_ORDINALS", GPUS, ALWAYS},
    {"WORLD_SIZE", NUM_TASKS, ALWAYS},
    {"LOCAL_WORLD_SIZE", NUM_LOCAL, ALWAYS},
    {"GROUP_RANK", NODE, ALWAYS},
    {"GROUP_WORLD_SIZE", NUM_NODES, ALWAYS},
    {"ROLE_WORLD_SIZE", NUM_TASKS, ALWAYS},
    {"ROLE_NAME", ROLE, ALWAYS},
    {"TORCHELASTIC_RUN_ID", TITLE, ALWAYS},
    {"TORCHELASTIC_MAX_RESTARTS", RESTARTS, ALWAYS},
    {"TORCHELASTIC_ERROR_FILE", ERROR_FILE, ALWAYS},
    {"MASTER_ADDR", ADDRESS, UNLESS_SET},
    {"MASTER_PORT", PORT, UNLESS_SET},
    {"TORCHELASTIC_USE_AGENT_STORE", AGENT_STORE, UNLESS_SET},
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", ONE, USERS},
    {"OMP_NUM_THREADS", THREADS, USERS},
    {"PYTHONUNBUFFERED", UNBUFFERED, USERS},
    {"OMPI_VERSION", VERSION, ALWAYS},
    {"OMPI_COMM_WORLD_SIZE", NUM_TASKS, ALWAYS},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", NUM_LOCAL, ALWAYS},
    {"MPI_LOCALNRANKS", NUM_LOCAL, ALWAYS},
    {"JAX_NUM_PROCESSES", NUM_TASKS, ALWAYS},
    {"JAX_COORDINATOR_ADDRESS", ENDPOINT, UNLESS_SET},
    {"JAX_COORDINATOR_BIND_ADDRESS", BINDING, UNLESS_SET},
    {"MUSTER_GRPC_ADDRESS", GRPC, ALWAYS},
    {"OMPI_MCA_orte_hnp_uri", MPI, UNLESS_SET},
    {"PMI_FD", MPI_OF_TASK, ALWAYS},
    {"PMI_PORT", MPI_OF_TASK, ALWAYS},
    {"PMI_ID", MPI_OF_TASK, ALWAYS},
    {"PMI_RANK", MPI_OF_TASK, ALWAYS},
    {"PMI_SIZE", MPI_OF_TASK, ALWAYS},
    {"PMI_SPAWNED", MPI_OF_TASK, ALWAYS},
    {"FLUX_JOB_ID", MPI_OF_TASK, ALWAYS},
    {"FLUX_PMI_LIBRARY_PATH", MPI_OF_TASK, ALWAYS},
};
#define NUM_VARIABLES (sizeof variables / sizeof variables[0])
#define NUM_PER_TASK  12
#define TASK_TEXT_MAX 48
_Static_assert(NUM_PER_TASK < NUM_VARIABLES, "some are the same for all");

/* Without it JAX, which believes to be under Open MPI, takes the one GPU with the task's number. */
static const char ordinals[] = "MUSTER_GPU_ORDINALS", devices[] = "JAX_LOCAL_DEVICE_IDS";

static const struct variable *variable_find(const char *name, size_t len)
{
    for (size_t i = 0; i < NUM_VARIABLES; i++)
        if (strlen(variables[i].name) == len && memcmp(variables[i].name, name, len) == 0)
            return &variables[i];
    return NULL;
}

bool mu_launch_env_is_ours(const char *name, size_t len)
{
    const struct variable *v = variable_find(name, len);

    return v && v->unless_set == ALWAYS;
}

static bool is_stores(const struct variable *v)
{
    return v->what == ADDRESS || v->what == PORT || v->what == AGENT_STORE;
}

bool mu_launch_env_is_stores(const char *name, size_t len)
{
    const struct variable *v = variable_find(name, len);

    return v && is_stores(v);
}

static size_t name_len(const char *entry)
{
    return strcspn(entry, "=");
}

/* The value that `list` sets last for the name of `entry`; NULL: none. */
static const char *set_in(char *const *list, const char *entry, size_t len)
{
    const char *last = NULL;

    for (; list && *list; list++)
        if (name_len(*list) == len && memcmp(*list, entry, len) == 0)
            last = *list;
    return last;
}

static int variable_add(struct mu_launch_env *env, char *text)
{
    if (!text)
        return -1;
    env->vars[env->count++] = text;
    return 0;
}

/* Where the tasks of the job meet. */
static const char *master_address(const struct mu_launch_job *job)
{
    return job->part.nodes ? job->part.master : "127.0.0.1";
}

/* Where PyTorch's programs find their store, or make one. */
static int print_address(const struct variable *v, const struct mu_launch_job *job, char **ret_text)
{
    const char *colon = job->tcpstore ? strrchr(job->tcpstore, ':') : NULL, *host = job->tcpstore;
    int is_ip6 = host && *host == '[';

    if (!colon)
        return asprintf(ret_text, "%s=%s", v->name, master_address(job));
    if (colon == host) /* ":4711", in a dry run */
        return asprintf(ret_text, "%s=127.0.0.1", v->name);
    return asprintf(ret_text, "%s=%.*s", v->name, (int)(colon - host) - 2 * is_ip6, host + is_ip6);
}

/* In a dry run: none yet. */
static unsigned port_of(const struct mu_launch_job *job)
{
    const char *colon = job->tcpstore ? strrchr(job->tcpstore, ':') : NULL;
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;

    return port ? (unsigned)port : job->ports[0];
}

static uint32_t tasks_here(const struct mu_launch_job *job)
{
    return job->part.nodes ? job->part.tasks : job->num_tasks;
}

static char *variable_entry(const struct variable *v, const struct mu_launch_job *job)
{
    const char *endpoint = strchr(master_address(job), ':') ? "%s=[%s]:%u" : "%s=%s:%u";
    char *text = NULL;
    int rc = -1;

    switch (v->what) {
    case JOB: rc = asprintf(&text, "%s=%s", v->name, job->job); break;
    case SEGMENT: rc = asprintf(&text, "%s=%s", v->name, job->segment); break;
    case RUN_ID: rc = asprintf(&text, "%s=%s", v->name, job->run_id); break;
    case APP: rc = asprintf(&text, "%s=%u", v->name, job->app); break;
    case NUM_TASKS: rc = asprintf(&text, "%s=%u", v->name, job->num_tasks); break;
    case PROCESSORS:
        rc = asprintf(&text, "%s=%u", v->name, job->num_processors ? job->num_processors : mu_processors());
        break;
    case TOPOLOGY: rc = asprintf(&text, "%s=%s", v->name, job->topology); break;
    case NUM_LOCAL: rc = asprintf(&text, "%s=%u", v->name, tasks_here(job)); break;
    case NODE: rc = asprintf(&text, "%s=%u", v->name, job->part.node); break;
    case NUM_NODES: rc = asprintf(&text, "%s=%u", v->name, job->part.nodes ? job->part.nodes : 1); break;
    case RESTARTS: rc = asprintf(&text, "%s=%u", v->name, job->restarts); break;
    case RECOVERABLE: rc = asprintf(&text, "%s=%d", v->name, job->recoverable); break;
    case ADDRESS: rc = print_address(v, job, &text); break;
    case PORT: rc = asprintf(&text, "%s=%u", v->name, port_of(job)); break;
    case AGENT_STORE: rc = asprintf(&text, "%s=%s", v->name, job->tcpstore ? "True" : "False"); break;
    case TITLE: rc = asprintf(&text, "%s=%s", v->name, job->title); break;
    case ROLE: rc = asprintf(&text, "%s=default", v->name); break;
    case ONE:
    case UNBUFFERED:
    case THREADS: rc = asprintf(&text, "%s=1", v->name); break;
    case VERSION: rc = asprintf(&text, "%s=4.1", v->name); break;
    case ENDPOINT:
        rc = job->grpc ? asprintf(&text, "%s=%s", v->name, job->grpc)
                       : asprintf(&text, endpoint, v->name, master_address(job), job->ports[1]);
        break;
    case BINDING: /* with ours before them: of the idle one that process 0 starts all the same */
        rc = asprintf(&text, "%s=127.0.0.1:%u", v->name, job->grpc ? 0 : job->ports[1]);
        break;
    case GRPC: rc = asprintf(&text, "%s=%s", v->name, job->grpc); break;
    case MPI: rc = asprintf(&text, "%s=0.0;tcp://127.0.0.1:0", v->name); break;
    case TASK:
    case LOCAL:
    case GPUS:
    case ERROR_FILE:
    case MPI_OF_TASK:
    case ATTEMPT:
    case FAILURES: break;
    }
    return rc < 0 ? NULL : text;
}

/* What of the launcher's, or of a command's, variables the tasks do not get: we set it, or have obeyed it. */
static bool is_replaced(const struct mu_launch_job *job, const char *entry)
{
    size_t len = name_len(entry);

    if (job && set_in(job->own, entry, len))
        return 1;
    for (const char *const *name = job ? job->dropped : NULL; name && *name; name++)
        if (strlen(*name) == len && memcmp(*name, entry, len) == 0)
            return 1;
    return 0;
}

/* What another launcher has said to its MPI programs, of which this one, and its tasks, would be taken for. */
static bool is_of_mpi(const struct variable *v, const char *entry)
{
    return v ? v->what == MPI_OF_TASK
             : (strncmp(entry, "PMIX_", 5) == 0 && strncmp(entry, "PMIX_MCA_", 9) != 0) ||
                   (strncmp(entry, "OMPI_MCA_", 9) == 0 && strstr(entry, MU_LAUNCH_MPI_FOLDER)) ||
                   strncmp(entry, "HYDI_CONTROL_FD=", 16) == 0;
}

static bool is_coordinator(const struct variable *v)
{
    return v->what == ENDPOINT || v->what == BINDING;
}

/* The job serves it: what the launcher's own variable says is of another. */
static bool is_served(const struct variable *v, const struct mu_launch_job *job)
{
    return (job->grpc && is_coordinator(v)) || (job->tcpstore && is_stores(v));
}

/* What another launcher has set for its processes, of which this one may be: of torchrun's, where those meet. */
static bool is_anothers(const struct variable *v, char *const *base)
{
    return v->unless_set == ALWAYS || (v->unless_set == UNLESS_SET && set_in(base, "MUSTER_RUN_ID", 13)) ||
           (is_stores(v) && set_in(base, "TORCHELASTIC_RUN_ID", 19));
}

/* Of the variables that are the same for all; `env` holds what the tasks inherit. */
static bool is_due(const struct mu_launch_env *env, const struct mu_launch_job *job, const struct variable *v)
{
    if (v->unless_set && set_in(env->vars, v->name, strlen(v->name)))
        return 0;
    switch (v->what) {
    case RUN_ID: /* it is there */
    case MPI_OF_TASK:
    case ERROR_FILE:
    case GPUS: return 0;
    case TOPOLOGY: return job->topology != NULL;
    case GRPC: return job->grpc != NULL;
    case MPI: return job->grpc || (env->is_allocated && (env->has_coordinator || job->ports[0]));
    case UNBUFFERED: return !job->to_terminal;
    case THREADS: return tasks_here(job) > 1;
    case BINDING: /* with other hosts, and of another coordinator: the program's own choice */
        return !env->has_coordinator && (job->grpc || (job->ports[0] && !job->part.nodes));
    case ENDPOINT: return job->grpc || job->ports[0];
    case ADDRESS:
    case PORT: return job->tcpstore || job->ports[0];
    default: return 1;
    }
}

/* gRPC would ask a proxy for the way to this very host (with all that is said in the clear), or hang. */
static int spare_proxy(struct mu_launch_env *env, const struct mu_launch_job *job)
{
    static const char *const proxies[] = {"grpc_proxy", "https_proxy", "http_proxy"};
    const char *before = set_in(env->vars, "no_grpc_proxy", 13), *colon = job->grpc ? strrchr(job->grpc, ':') : NULL;
    const char *host =
        colon && job->grpc[0] == '[' ? job->grpc + 1 : job->grpc; /* without an IPv6 address's brackets */
    int is_set = 0;
    char *text;

    for (size_t i = 0; i < sizeof proxies / sizeof proxies[0]; i++)
        is_set |= set_in(env->vars, proxies[i], strlen(proxies[i])) != NULL;
    if (!is_set || !colon || strncmp(job->grpc, "unix:", 5) == 0)
        return 0;
    if (!before)
        before = set_in(env->vars, "no_proxy", 8); /* which gRPC reads only where the other is not set */
    before = before ? strchr(before, '=') + 1 : "";
    if (asprintf(&text, "no_grpc_proxy=%s%s%.*s", before, *before ? "," : "", (int)(colon - host) - (host != job->grpc),
                 host) < 0)
        return -1;
    env->spares_proxy = 1;
    for (size_t i = 0; i < env->count; i++)
        if (strncmp(env->vars[i], "no_grpc_proxy=", 14) == 0) {
            free(env->vars[i]);
            env->vars[i] = text;
            return 0;
        }
    return variable_add(env, text);
}

int mu_launch_env_init(struct mu_launch_env *env, char **base, const struct mu_launch_job *job)
{
    char *const *own = job ? job->env : NULL;
    int nested = set_in(base, "MUSTER_RUN_ID", 13) != NULL;
    size_t count = 0;

    memset(env, 0, sizeof *env);
    for (char *const *list = own; list && *list; list++)
        count++;
    for (char **list = base; *list; list++)
        count++;
    for (char *const *list = job ? job->own : NULL; list && *list; list++)
        count++;
    env->vars = calloc(count + NUM_VARIABLES + 2, sizeof *env->vars);
    if (!env->vars)
        return -1;
    if (job && variable_add(env, variable_entry(variable_find("MUSTER_RUN_ID", 13),
                                                job))) /* first: it is what a process is found by */
        return -1;
    for (char **list = base; *list; list++) {
        const struct variable *v = variable_find(*list, name_len(*list));

        if (job && mu_launch_family_told(*list, nested || job->serves_mpi))
            continue;
        if (is_of_mpi(v, *list)) {
            if (nested || (job && job->serves_mpi))
                continue;
        } else if (v && is_anothers(v, base)) {
            continue;
        }
        if (v && job && is_served(v, job))
            continue;
        if (!set_in(own, *list, name_len(*list)) && !is_replaced(job, *list) && variable_add(env, strdup(*list)))
            return -1;
    }
    for (char *const *list = own; list && *list; list++)
        if (set_in(own, *list, name_len(*list)) == *list && !is_replaced(job, *list) &&
            variable_add(env, strdup(*list))) /* the last one counts */
            return -1;
    if (!job)
        return 0;
    env->is_allocated = set_in(base, "SLURM_JOB_ID", 12) || set_in(base, "JOB_COMPLETION_INDEX", 20);
    env->has_coordinator = set_in(env->vars, "JAX_COORDINATOR_ADDRESS", 23) != NULL;
    for (size_t i = NUM_PER_TASK; i < NUM_VARIABLES; i++) {
        const struct variable *v = &variables[i];

        if (is_due(env, job, v) && variable_add(env, variable_entry(v, job)))
            return -1;
    }
    if (spare_proxy(env, job))
        return -1;
    env->says_devices =
        job->grpc && set_in(job->own, ordinals, sizeof ordinals - 1) && !set_in(env->vars, devices, sizeof devices - 1);
    env->own = job->own;
    env->error_folder = job->error_folder;
    env->changes = job->changes;
    env->first_task = job->part.first_task;
    return 0;
}

static size_t list_len(char *const *list)
{
    return list && *list ? 1 + list_len(list + 1) : 0;
}

char **mu_launch_env_task(const struct mu_launch_env *env, uint32_t task_id, uint32_t attempt, char *const *own,
                          char *const *more, char *const *served)
{
    size_t num_own = list_len(env->own), num_more = list_len(more), num_served = list_len(served), size, room,
           error_room, n = env->count;
    char **vars, *text;
    const char *list = env->says_devices ? set_in(own ? own : env->own, ordinals, sizeof ordinals - 1) : NULL;

    size = (env->count + NUM_PER_TASK + num_own + num_more + num_served + 3) * sizeof *vars;
    room = sizeof devices + (list ? strlen(list) : 0);
    error_room = env->error_folder ? strlen(env->error_folder) + 2 * TASK_TEXT_MAX : 0;
    vars = malloc(size + NUM_PER_TASK * TASK_TEXT_MAX + room + error_room);
    if (!vars)
        return NULL;
    memcpy(vars, env->vars, env->count * sizeof *vars);
    text = (char *)vars + size;
    for (int i = 0; i < NUM_PER_TASK; i++, text += TASK_TEXT_MAX) {
        snprintf(text, TASK_TEXT_MAX, "%s=%u", variables[i].name,
                 variables[i].what == TASK       ? task_id
                 : variables[i].what == LOCAL    ? task_id - env->first_task
                 : variables[i].what == FAILURES ? attempt - env->changes
                                                 : attempt);
        vars[n++] = text;
    }
    for (size_t i = 0; i < num_own; i++)
        vars[n++] = own ? own[i] : env->own[i];
    for (size_t i = 0; i < num_more; i++)
        vars[n++] = more[i];
    for (size_t i = 0; i < num_served; i++)
        vars[n++] = served[i];
    if (list) {
        snprintf(text, room, "%s=%s", devices, list + sizeof ordinals);
        vars[n++] = text;
        text += room;
    }
    if (env->error_folder) {
        int start = snprintf(text, error_room, "TORCHELASTIC_ERROR_FILE=");

        mu_launch_error_path(env->error_folder, task_id, attempt, text + start, error_room - (size_t)start);
        vars[n++] = text;
    }
    vars[n] = NULL;
    return vars;
}

void mu_launch_env_print(const struct mu_launch_env *env, char *const *vars, FILE *out)
{
    for (char *const *var = vars; *var; var++)
        if (variable_find(*var, name_len(*var)) || var >= vars + env->count + NUM_PER_TASK ||
            (env->spares_proxy && strncmp(*var, "no_grpc_proxy=", 14) == 0))
            fprintf(out, "    %s\n", *var);
}

void mu_launch_env_done(struct mu_launch_env *env)
{
    for (size_t i = 0; env->vars && i < env->count; i++)
        free(env->vars[i]);
    free(env->vars);
    memset(env, 0, sizeof *env);
}
