/*
 * agent/mpi/pmix.c: PMIx for the job's tasks (compat/pmix.h), in the agent's loop.
 *
 * libpmix's server is started with the first attempt, before its tasks, and lives as long as the agent; each attempt
 * has a name space of its own. Its files, and those of programs that ask it where to put theirs, lie in one folder of
 * the agent's, which the guard removes when the agent is killed. A task that asks for the job's end is condemned: its
 * process is killed, and what counts is what it asked for.
 *
 * Between hosts fences are gathered (agent/serve/gather.h), and all else is talk of the agents, in pieces, for a
 * message is bounded and what a task puts is not.
 */
#include "compat/pmix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/hosts/bridge.h"

#define PIECE     (512u << 10) /* bytes of a message, most */
#define HEARD_MAX (256u << 20)
#define FOLDER    MU_LAUNCH_MPI_FOLDER "XXXXXX"

struct mu_agent_pmix {
    struct mu_pmix *server;
    char directory[208];
    uint32_t num_hosts;
    struct mu_pack *heard; /* of each host: the pieces of a message until the last */
};

/* ---- to and from other hosts ------------------------------------------------------------------------------------- */

static void host_tell(void *arg, uint32_t host, const void *bytes, size_t len)
{
    struct mu_pack what = {.bytes = NULL};

    for (size_t at = 0, n; at < len; at += n) {
        n = len - at < PIECE ? len - at : PIECE;
        mu_pack_reset(&what);
        mu_pack_u8(&what, at + n < len);
        mu_pack_raw(&what, (const char *)bytes + at, n);
        mu_agent_tell(arg, host, MU_TALK_PMIX, &what);
    }
    mu_pack_done(&what);
}

static void pmix_hear(struct mu_agent *agent, uint32_t host, struct mu_unpack *u)
{
    struct mu_agent_pmix *pmix = agent->pmix;
    int more = mu_unpack_u8(u);
    struct mu_pack *heard = pmix && host < pmix->num_hosts ? &pmix->heard[host] : NULL;

    if (!heard || u->failed)
        return;
    if (heard->len + u->left <= HEARD_MAX)
        mu_pack_raw(heard, u->at, u->left);
    else
        heard->failed = true;
    if (more)
        return;
    if (!heard->failed)
        mu_pmix_told(pmix->server, host, heard->bytes, heard->len);
    mu_pack_done(heard);
}

/* A fence that waits for other hosts. */
struct fence {
    struct mu_agent *agent;
    uint32_t id;
};

static void on_modex_gathered(void *arg, enum muster_status status, const struct mu_gathered *all)
{
    struct fence *fence = arg;
    struct mu_pack parts = {.bytes = NULL};

    for (uint32_t i = 0; status == MUSTER_OK && i < all->num_parts; i++)
        mu_pack_raw(&parts, all->parts[i].bytes, all->parts[i].len);
    if (parts.failed)
        mu_pack_done(&parts);
    if (fence->agent->pmix)
        mu_pmix_gathered(fence->agent->pmix->server, fence->id, status != MUSTER_OK || parts.failed, parts.bytes,
                         parts.len);
    else
        mu_pack_done(&parts);
    free(fence);
}

static void modex_gather(void *arg, const uint32_t *hosts, uint32_t num_hosts, const char *name, const void *bytes,
                         size_t len, uint32_t id)
{
    struct mu_agent *agent = arg;
    struct fence *fence = malloc(sizeof *fence);

    if (fence) {
        *fence = (struct fence){agent, id};
        if (mu_agent_gather_among(agent, hosts, num_hosts, name, bytes, len, on_modex_gathered, fence) == MUSTER_OK)
            return;
        mu_agent_say("a fence of PMIx fails: %s", muster_last_error());
        free(fence);
    }
    mu_pmix_gathered(agent->pmix->server, id, true, NULL, 0);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static void on_pmix_aborted(void *arg, uint32_t task, int status, const char *text)
{
    struct mu_agent *agent = arg;
    int says_why = text && *text && strcmp(text, "N/A") != 0; /* Open MPI's word for nothing */

    if (!mu_agent_has_task(agent, task))
        return;
    mu_agent_condemn(agent, task, status, "called PMIx_Abort (or MPI_Abort) with status %d%s%.200s", status,
                     says_why ? ": " : "", says_why ? text : "");
}

static void on_pmix_stranded(void *arg, uint32_t task, uint32_t missing)
{
    mu_agent_condemn(arg, task, 1, "waited in vain in PMIx (or MPI): task %u has ended without it", missing);
}

void mu_agent_describe_pmix(const struct mu_agent *agent, char *text, size_t size)
{
    text[0] = 0;
    if (agent->pmix && agent->pmix->server)
        mu_pmix_describe(agent->pmix->server, text, size);
}

static void pmix_judge(struct mu_agent *agent, uint32_t task_id, int wait_status)
{
    uint32_t other;

    if (!agent->pmix)
        return;
    switch (mu_pmix_task_ended(agent->pmix->server, task_id, &other)) {
    case MU_PMIX_OPEN:
        if (wait_status == 0)
            mu_agent_condemn(agent, task_id, 1, "exited with status 0 between PMIx_Init and PMIx_Finalize (or MPI's)");
        break;
    case MU_PMIX_MISSED:
        if (wait_status == 0)
            mu_agent_condemn(agent, task_id, 1, "exited with status 0 before PMIx_Init (or MPI_Init), and others wait");
        if (agent->options->keep_going) /* one: libpmix lets the others of its fence go when it is lost */
            on_pmix_stranded(agent, other, task_id);
        break;
    case MU_PMIX_NEVER:
    case MU_PMIX_FINALIZED: break;
    }
}

/*
 * Open MPI 4.1 asks PMIx only where it believes that its launcher is one that serves it: jsrun, say. And what its tasks
 * share, in files of 4.1 or of 5, is to go when they are killed.
 */
static const char *const for_open_mpi[][2] = {
    {"JSM_JSRUN_PORT", "1"},
    {"OMPI_MCA_btl_vader_backing_directory", NULL}, /* NULL: the folder */
    {"OMPI_MCA_btl_sm_backing_directory", NULL},
    {"OMPI_MCA_osc_sm_backing_directory", NULL},
    {"OMPI_MCA_osc_rdma_backing_directory", NULL},
};
#define NUM_FOR_OPEN_MPI (sizeof for_open_mpi / sizeof for_open_mpi[0])

/* Copies of `vars`, and what Open MPI needs, in one block. What the user has set comes before them, and counts. */
static char **environment_join(char *const *vars, const char *folder)
{
    size_t count = NUM_FOR_OPEN_MPI + 1, room = 0, n = 0, at = 0;
    char **all, *text;

    for (char *const *var = vars; var && *var; var++, count++)
        room += strlen(*var) + 1;
    for (size_t i = 0; i < NUM_FOR_OPEN_MPI; i++)
        room += strlen(for_open_mpi[i][0]) + strlen(folder) + 3;
    all = malloc(count * sizeof *all + room);
    if (!all)
        return NULL;
    text = (char *)(all + count);
    for (; vars && *vars; vars++) {
        all[n++] = text + at;
        at += (size_t)snprintf(text + at, room - at, "%s", *vars) + 1;
    }
    for (size_t i = 0; i < NUM_FOR_OPEN_MPI; i++) {
        const char *value = for_open_mpi[i][1];

        all[n++] = text + at;
        at += (size_t)snprintf(text + at, room - at, "%s=%s", for_open_mpi[i][0], value ? value : folder) + 1;
    }
    all[n] = NULL;
    return all;
}

static int pmix_equip(struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *gift)
{
    char **vars = NULL;

    if (!agent->pmix)
        return 0;
    if (mu_pmix_environment(agent->pmix->server, task_id, &vars) == MUSTER_OK)
        gift->pmix = environment_join(vars, agent->pmix->directory);
    if (!gift->pmix)
        mu_agent_say("%s", vars ? "out of memory" : muster_last_error());
    for (char **var = vars; var && *var; var++)
        free(*var);
    free(vars);
    return gift->pmix ? 0 : -1;
}

int mu_agent_imagine_pmix(char ***ret_vars)
{
    char all[] = "PMIX_*=<what libpmix says to its clients>";

    *ret_vars = environment_join((char *[]){all, NULL}, "<a folder>");
    if (!*ret_vars)
        mu_agent_say("out of memory");
    return *ret_vars ? 0 : -1;
}

/* ---- beginning --------------------------------------------------------------------------------------------------- */

/* Two hosts may have one name (both parts of the job run on one machine); to PMIx they are two. */
static void name_host(const struct mu_agent *agent, const struct mu_bridge_shape *shape, uint32_t host, char *name,
                      size_t size)
{
    int is_double = 0;

    if (!shape) {
        mu_agent_own_name(agent->options->hosts, name, size);
        return;
    }
    for (uint32_t i = 0; i < shape->num_hosts; i++)
        is_double |= i != host && strcmp(shape->names[i], shape->names[host]) == 0;
    if (is_double || !shape->names[host][0])
        snprintf(name, size, "%.48s-%u", shape->names[host], host);
    else
        snprintf(name, size, "%s", shape->names[host]);
}

/*
 * What lies there is mapped: libpmix's tables of what tasks have put, Open MPI's segments. So it is in memory where
 * that can be had, and not where TMPDIR is, which may be on another machine's disk.
 */
static int make_directory(struct mu_agent *agent, struct mu_agent_pmix *pmix)
{
    const char *above = getenv("TMPDIR");

    snprintf(pmix->directory, sizeof pmix->directory, "/dev/shm%s", FOLDER);
    if (!mkdtemp(pmix->directory)) {
        snprintf(pmix->directory, sizeof pmix->directory, "%.180s%s", above && *above == '/' ? above : "/tmp", FOLDER);
        if (!mkdtemp(pmix->directory)) {
            mu_agent_say("--mpi pmix: cannot make %s: %s", pmix->directory, strerror(errno));
            pmix->directory[0] = 0;
            return -1;
        }
    }
    mu_launch_guard_folder(agent->launching.guard, pmix->directory);
    return 0;
}

static int open_server(struct mu_agent *agent, const struct mu_bridge_shape *shape)
{
    struct mu_agent_pmix *pmix;
    char name[256];
    struct mu_pmix_options options = {.loop = &agent->loop,
                                      .host_name = name,
                                      .tell = host_tell,
                                      .gather = modex_gather,
                                      .aborted = on_pmix_aborted,
                                      .stranded = on_pmix_stranded,
                                      .waits = mu_agent_mpi_waits,
                                      .arg = agent};

    if (agent->pmix)
        return 0;
    pmix = agent->pmix = calloc(1, sizeof *pmix);
    if (pmix)
        pmix->heard = calloc(shape ? shape->num_hosts : 1, sizeof *pmix->heard);
    if (!pmix || !pmix->heard) {
        mu_agent_say("out of memory");
        return -1;
    }
    pmix->num_hosts = shape ? shape->num_hosts : 1;
    if (make_directory(agent, pmix))
        return -1;
    name_host(agent, shape, shape ? shape->host : 0, name, sizeof name);
    options.directory = pmix->directory;
    if (mu_pmix_open(&options, &pmix->server) == MUSTER_OK)
        return 0;
    mu_agent_say("--mpi pmix: %s", muster_last_error());
    return -1;
}

static int pmix_server_begin(struct mu_agent *agent, const struct mu_bridge_shape *shape, char (*names)[256],
                             const char **list, uint32_t *apps)
{
    uint32_t num_hosts = agent->pmix->num_hosts, all = agent->num_tasks;
    char nspace[256];
    struct mu_pmix_job job = {
        .nspace = nspace,
        .num_tasks = agent->num_tasks,
        .num_apps = agent->options->num_apps,
        .host = shape ? shape->host : 0,
        .num_hosts = num_hosts,
        .host_names = list,
        .host_tasks = shape ? shape->tasks : &all,
        .apps = apps,
        .m = agent->muster,
    };
    uint32_t attempt = mu_agent_follows(agent) ? agent->options->hosts->orders->attempt : agent->attempt;

    snprintf(nspace, sizeof nspace, "muster-%.200s-%u", agent->title, attempt);
    for (uint32_t i = 0; i < num_hosts; i++) {
        name_host(agent, shape, i, names[i], sizeof names[i]);
        list[i] = names[i];
    }
    for (uint32_t i = 0; i < agent->num_tasks; i++)
        apps[i] = agent->tasks[i].app;
    if (mu_pmix_begin(agent->pmix->server, &job) == MUSTER_OK)
        return 0;
    mu_agent_say("--mpi pmix: %s", muster_last_error());
    return -1;
}

int mu_agent_may_serve_pmix(const struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;

    if (!options->survive && !options->restart_tasks)
        return 0;
    mu_agent_say("--mpi pmix serves no job with %s: PMIx knows no %s that comes back",
                 options->survive ? "--survive" : "--restart-policy task", options->survive ? "server" : "task");
    return -1;
}

static int pmix_begin(struct mu_agent *agent)
{
    const struct mu_bridge_shape *shape = agent->bridge ? mu_bridge_shape(agent->bridge->bridge) : NULL;
    char(*names)[256];
    const char **list;
    uint32_t *apps;
    int rc = -1;

    if (agent->options->mpi != MU_AGENT_MPI_PMIX)
        return 0;
    if (mu_agent_may_serve_pmix(agent) || open_server(agent, shape))
        return -1;
    names = calloc(agent->pmix->num_hosts, sizeof *names);
    list = calloc(agent->pmix->num_hosts, sizeof *list);
    apps = calloc(agent->num_tasks + 1, sizeof *apps);
    if (names && list && apps)
        rc = pmix_server_begin(agent, shape, names, list, apps);
    else
        mu_agent_say("out of memory");
    free(names);
    free(list);
    free(apps);
    return rc;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static void pmix_stop(struct mu_agent *agent)
{
    struct mu_agent_pmix *pmix = agent->pmix;

    if (!pmix || !pmix->server)
        return;
    mu_pmix_end(pmix->server);
    for (uint32_t i = 0; i < pmix->num_hosts; i++)
        mu_pack_done(&pmix->heard[i]);
}

/* Tasks that are told to end by a signal may end as they like; others may wait in PMIx. */
static void pmix_ending(struct mu_agent *agent, int killed)
{
    int goes_on =
        !mu_agent_follows(agent) && agent->attempt < agent->options->restarts; /* it cannot be started twice */

    if (agent->pmix && !goes_on && (killed || agent->root_cause >= 0 || agent->timed_out))
        mu_pmix_halt(agent->pmix->server);
}

const char *mu_agent_pmix_folder(const struct mu_agent *agent)
{
    return agent->pmix->directory[0] ? agent->pmix->directory : NULL;
}

static void pmix_close(struct mu_agent *agent)
{
    struct mu_agent_pmix *pmix = agent->pmix;

    if (!pmix)
        return;
    mu_pmix_close(pmix->server);
    if (pmix->directory[0])
        mu_launch_remove_folder(pmix->directory);
    mu_launch_guard_folder(agent->launching.guard, NULL);
    agent->pmix = NULL;
    free(pmix->heard);
    free(pmix);
}

const struct mu_component mu_pmix_component = {
    .name = "pmix",
    .begin = pmix_begin,
    .equip = pmix_equip,
    .judge = pmix_judge,
    .ending = pmix_ending,
    .stop = pmix_stop,
    .close = pmix_close,
    .talk = MU_TALK_PMIX,
    .hear = pmix_hear,
};
