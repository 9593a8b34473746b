/*
 * agent/mpi/mpi.c: PMI-1 (compat/pmi1.h) for the tasks that are MPI programs.
 *
 * Each task inherits a socket and is told its number (PMI_FD), or the port of a server (PMI_PORT). What it says is
 * heard in the agent's loop; a task that says nothing has cost a pair of sockets. What Open MPI 4.1 needs to find this
 * server are two names of Flux's: the job, and a library of ours that speaks to it (plugins/libpmi.c), which lies
 * beside the executable or where `make install` puts it.
 *
 * Of several hosts each serves its own tasks; barriers are gathered (gather.h), and what was put goes with them. Host 0
 * knows of all tasks' ends, so it says when a host's tasks cannot all come any more.
 *
 * An abort is the end of that task with that status, and so is it to leave without MPI_Finalize: what comes of it is
 * decided where any task's failure is. Keys are copied into the job's store, below "pmi/", for `muster kv`: a full
 * segment shows less of them, and nothing else comes of it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <unistd.h>

#include <muster/kv.h>

#include "agent/mpi/mpi.h"
#include "base/process.h"

static const char round_name[] = "pmi1";

/* ---- what the server asks of the agent ---- */

static uint32_t mpi_app_of_task(void *arg, uint32_t task_id)
{
    const struct mu_agent *agent = arg;

    return agent->tasks[task_id].app;
}

static void on_pmi1_said(void *arg, const char *sentence)
{
    (void)arg;
    mu_agent_say("%s", sentence);
}

static void on_pmi1_begins(void *arg)
{
    mu_agent_make_mpi_folder(arg);
}

static void on_pmi1_aborted(void *arg, uint32_t task_id, int code, const char *message)
{
    /* The program has mostly said why by itself; these are what MPICH and Open MPI say always. */
    int says_why = *message && strcmp(message, "abort") != 0 && strcmp(message, "N/A") != 0;

    mu_agent_condemn(arg, task_id, code, "called MPI_Abort with status %d%s%.200s", code, says_why ? ": " : "",
                     says_why ? message : "");
}

static void on_pmi1_stranded(void *arg, uint32_t task_id, const char *why)
{
    mu_agent_condemn(arg, task_id, 1, "waited in vain in MPI: %s", why);
}

static void on_key_shown(void *arg, const char *key, size_t key_len, const char *value, size_t value_len)
{
    struct mu_agent *agent = arg;
    char path[sizeof mu_agent_mpi(agent)->name + MU_PMI1_KEY_MAX + 16];
    int len = snprintf(path, sizeof path, "pmi/%s/%.*s", mu_agent_mpi(agent)->name, (int)key_len, key);

    if (agent->segment && len < (int)sizeof path && mu_agent_be_there(agent) == 0)
        muster_kv_set(agent->muster, path, (size_t)len, value, value_len, NULL);
}

static void on_keys_gathered(void *arg, enum muster_status status, const struct mu_gathered *all)
{
    struct mu_agent *agent = arg;
    struct iovec *parts = calloc(all->num_parts + 1, sizeof *parts);

    for (uint32_t i = 0; parts && i < all->num_parts; i++)
        parts[i] = (struct iovec){(void *)(uintptr_t)all->parts[i].bytes, all->parts[i].len};
    if (mu_agent_mpi(agent)->pmi1 && parts)
        mu_pmi1_exchanged(mu_agent_mpi(agent)->pmi1, status, all->num_parts, parts, all->why);
    else if (mu_agent_mpi(agent)->pmi1)
        mu_pmi1_exchanged(mu_agent_mpi(agent)->pmi1, MUSTER_RESOURCE_EXHAUSTED, 0, NULL, "out of memory");
    free(parts);
}

static void keys_exchange(void *arg, const void *bytes, size_t len)
{
    struct mu_agent *agent = arg;
    enum muster_status status = mu_agent_gather(agent, round_name, bytes, len, on_keys_gathered, agent);

    if (status != MUSTER_OK)
        mu_pmi1_exchanged(mu_agent_mpi(agent)->pmi1, status, 0, NULL, muster_last_error());
}

/* ---- what waits in vain ---- */

/* Of a host that has not come to the barrier: a task that will not; UINT32_MAX: none is known. */
static uint32_t missing_task(const struct mu_agent *agent, uint32_t host_id)
{
    const struct mu_agent_host *host = &agent->bridge->hosts[host_id];

    for (uint32_t i = host->first_task; i < host->first_task + host->tasks; i++)
        if (agent->tasks[i].ended)
            return i;
    return UINT32_MAX;
}

static void mpi_tick(struct mu_agent *agent, uint64_t now)
{
    uint32_t hosts[8], count, task_id;
    char why[200];

    mu_agent_unserved_tick(agent, now);
    if (!mu_agent_mpi(agent)->pmi1 || !agent->bridge || !mu_agent_leads(agent))
        return;
    count = mu_agent_gather_missing(agent, round_name, hosts, 8);
    for (uint32_t i = 0; i < count && i < 8; i++) {
        if (hosts[i] == 0 || (task_id = missing_task(agent, hosts[i])) == UINT32_MAX)
            continue;
        snprintf(why, sizeof why, "task %u has ended", task_id);
        mu_agent_gather_fail(agent, round_name, why);
        return;
    }
}

static void mpi_judge(struct mu_agent *agent, uint32_t task_id, int wait_status)
{
    if (mu_agent_mpi(agent)->pmi1 && mu_pmi1_task_ended(mu_agent_mpi(agent)->pmi1, task_id) == MU_PMI1_OPEN &&
        wait_status == 0)
        mu_agent_condemn(agent, task_id, 1, "exited with status 0 between MPI_Init and MPI_Finalize");
}

/* Behind the word of its end, which is why the others wait in vain. */
static void mpi_ended(struct mu_agent *agent, uint32_t task_id)
{
    (void)task_id;
    mu_pmi1_look(mu_agent_mpi(agent)->pmi1);
    mu_agent_look_unserved(agent);
}

int mu_agent_serves_mpi(const struct mu_agent *agent)
{
    return mu_agent_mpi(agent)->pmi1 || agent->pmix;
}

/* ---- the server ---- */

/* Beside the executable, as in the build's folder; or as it is installed: not a stranger's, for the tasks load it. */
static void find_library(char *entry, size_t size)
{
    static const char *const places[] = {"libpmi.so.0", "../lib/muster/libpmi.so.0"};
    char self[4000], *slash;
    struct stat exe;

    entry[0] = 0;
    if (stat("/proc/self/exe", &exe))
        return;
    mu_command_path(self, sizeof self);
    slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        size_t head = (size_t)snprintf(entry, size, "FLUX_PMI_LIBRARY_PATH=");

        snprintf(entry + head, size - head, "%.*s/%s", (int)(slash - self), self, places[i]);
        if (mu_is_beside(entry + head, (size_t)(slash - self), exe.st_uid) && access(entry + head, R_OK) == 0)
            return;
        entry[0] = 0;
    }
}

/* The job and its attempt, alike on all hosts. Open MPI passes 15 bits of the number on. */
static void name_job(struct mu_agent *agent)
{
    const struct mu_bridge_shape *shape = agent->bridge ? mu_bridge_shape(agent->bridge->bridge) : NULL;
    uint32_t attempt = mu_agent_follows(agent) ? agent->options->hosts->orders->attempt : agent->attempt;
    char text[17];
    uint64_t run;

    snprintf(text, sizeof text, "%.16s", agent->run_id);
    run = shape ? shape->run_id[0] ^ shape->run_id[1] : strtoull(text, NULL, 16);
    snprintf(mu_agent_mpi(agent)->name, sizeof mu_agent_mpi(agent)->name, "muster-%016llx-%u", (unsigned long long)run,
             attempt);
    snprintf(mu_agent_mpi(agent)->flux_job, sizeof mu_agent_mpi(agent)->flux_job, "FLUX_JOB_ID=%u",
             (unsigned)(run % 32749) + 1);
    if (shape)
        mu_pmi1_map(shape->tasks, shape->num_hosts, mu_agent_mpi(agent)->map, sizeof mu_agent_mpi(agent)->map);
    else
        mu_pmi1_map(&agent->num_tasks, 1, mu_agent_mpi(agent)->map, sizeof mu_agent_mpi(agent)->map);
}

static int mpi_begin(struct mu_agent *agent)
{
    struct mu_pmi1_options options = {
        .loop = &agent->loop,
        .num_tasks = agent->num_tasks,
        .first_task = agent->first_task,
        .local_tasks = agent->local_tasks,
        .has_others = agent->bridge != NULL,
        .kvsname = mu_agent_mpi(agent)->name,
        .mapping = mu_agent_mpi(agent)->map,
        .port = agent->options->mpi == MU_AGENT_MPI_PORT,
        .account = &agent->clients,
        .arg = agent,
        .app_of = mpi_app_of_task,
        .begins = on_pmi1_begins,
        .exchange = keys_exchange,
        .tell = mu_agent_tell_mpi,
        .waits = mu_agent_mpi_waits,
        .aborted = on_pmi1_aborted,
        .stranded = on_pmi1_stranded,
        .shown = mu_agent_follows(agent) ? NULL : on_key_shown,
        .said = on_pmi1_said,
    };

    if (agent->options->mpi >= MU_AGENT_MPI_PMIX || mu_agent_only_serves(agent))
        return 0;
    if (agent->launching.has_no_room_for_mpi) {
        mu_agent_say(
            "MPI programs are not served, each task is alone to them: with it %u tasks need %llu open files, the "
            "limit is %llu (root may raise it: 'ulimit -n'; --mpi none does without)",
            agent->local_tasks, agent->launching.files_for_mpi,
            (unsigned long long)agent->launching.files_before.rlim_max);
        return 0;
    }
    name_job(agent);
    find_library(mu_agent_mpi(agent)->flux_library, sizeof mu_agent_mpi(agent)->flux_library);
    if (mu_pmi1_start(&options, &mu_agent_mpi(agent)->pmi1) == MUSTER_OK)
        return 0;
    mu_agent_say("MPI programs cannot be served: %s (--mpi none does without)", muster_last_error());
    return -1;
}

static void mpi_stop(struct mu_agent *agent)
{
    mu_agent_stop_mpi_waits(agent);
    mu_agent_mpi(agent)->look_at = 0;
    mu_pmi1_stop(mu_agent_mpi(agent)->pmi1);
    mu_agent_mpi(agent)->pmi1 = NULL;
}

/* ---- a task's part ---- */

static int give_socket(struct mu_agent *agent, uint32_t task_id, int *ret_fd)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        mu_agent_say("no socket for task %u's MPI: %s (--mpi none does without)", task_id, strerror(errno));
        return -1;
    }
    if (mu_pmi1_take(mu_agent_mpi(agent)->pmi1, task_id, pair[0]) != MUSTER_OK) {
        mu_agent_say("no socket for task %u's MPI: %s", task_id, muster_last_error());
        close(pair[0]);
        close(pair[1]);
        return -1;
    }
    mu_pmi1_hold(mu_agent_mpi(agent)->pmi1, task_id, pair[1]);
    *ret_fd = pair[1];
    return 0;
}

/* Open MPI's own launcher takes Flux's names for a server that it could use itself, and crashes. */
static bool is_open_mpis_launcher(const char *command)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun", "mpirun.openmpi", "mpiexec.openmpi"};
    const char *slash = strrchr(command, '/'), *base = slash ? slash + 1 : command;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(base, names[i]) == 0)
            return true;
    return false;
}

/* What follows where to ask, which is the first `n`. */
static void list_rest(struct mu_agent *agent, uint32_t task_id, uint32_t app, struct mu_agent_gift *gift, int n)
{
    snprintf(gift->text[n++], sizeof gift->text[0], "PMI_RANK=%u", task_id);
    snprintf(gift->text[n++], sizeof gift->text[0], "PMI_SIZE=%u", agent->num_tasks);
    for (int i = 0; i < n; i++)
        gift->vars[i] = gift->text[i];
    if (mu_agent_mpi(agent)->flux_library[0] && !is_open_mpis_launcher(agent->options->apps[app].argv[0])) {
        gift->vars[n++] = mu_agent_mpi(agent)->flux_job;
        gift->vars[n++] = mu_agent_mpi(agent)->flux_library;
        n += mu_agent_list_mpi_places(agent, app, gift->vars + n);
    }
    gift->vars[n] = NULL;
}

static int mpi_equip(struct mu_agent *agent, uint32_t task_id, struct mu_agent_gift *ret_gift)
{
    int n = 0;

    if (!mu_agent_mpi(agent)->pmi1)
        return 0;
    if (agent->options->mpi == MU_AGENT_MPI_PORT) {
        snprintf(ret_gift->text[n++], sizeof ret_gift->text[0], "PMI_PORT=%s",
                 mu_pmi1_address(mu_agent_mpi(agent)->pmi1));
        snprintf(ret_gift->text[n++], sizeof ret_gift->text[0], "PMI_ID=%u", task_id);
    } else {
        if (give_socket(agent, task_id, &ret_gift->fd))
            return -1;
        snprintf(ret_gift->text[n++], sizeof ret_gift->text[0], "PMI_FD=%d", ret_gift->fd);
    }
    list_rest(agent, task_id, agent->tasks[task_id].app, ret_gift, n);
    return 0;
}

/* ---- a dry run --------------------------------------------------------------------------------------------------- */

int mu_agent_foresee_mpi(struct mu_agent *agent)
{
    snprintf(mu_agent_mpi(agent)->folder, sizeof mu_agent_mpi(agent)->folder, "<a folder>");
    if (agent->options->mpi == MU_AGENT_MPI_PMIX)
        return mu_agent_may_serve_pmix(agent);
    snprintf(mu_agent_mpi(agent)->flux_job, sizeof mu_agent_mpi(agent)->flux_job, "FLUX_JOB_ID=<a number>");
    find_library(mu_agent_mpi(agent)->flux_library, sizeof mu_agent_mpi(agent)->flux_library);
    mu_agent_name_mpi_places(agent);
    return 0;
}

int mu_agent_imagine_mpi(struct mu_agent *agent, uint32_t task_id, uint32_t app, struct mu_agent_gift *ret_gift)
{
    int n = 0;

    if (agent->options->mpi == MU_AGENT_MPI_PMIX)
        return mu_agent_imagine_pmix(&ret_gift->pmix);
    if (agent->options->mpi == MU_AGENT_MPI_NONE)
        return 0;
    if (agent->options->mpi == MU_AGENT_MPI_PORT) {
        snprintf(ret_gift->text[n++], sizeof ret_gift->text[0], "PMI_PORT=<an address>");
        snprintf(ret_gift->text[n++], sizeof ret_gift->text[0], "PMI_ID=%u", task_id);
    } else {
        snprintf(ret_gift->text[n++], sizeof ret_gift->text[0], "PMI_FD=<a socket>");
    }
    list_rest(agent, task_id, app, ret_gift, n);
    return 0;
}

const struct mu_component mu_mpi_component = {
    .name = "mpi",
    .state_size = sizeof(struct mu_agent_mpi_state),
    .begin = mpi_begin,
    .equip = mpi_equip,
    .judge = mpi_judge,
    .ended = mpi_ended,
    .due = mu_agent_unserved_due,
    .tick = mpi_tick,
    .report = mu_agent_note_mpi_waits,
    .stop = mpi_stop,
    .clear = mu_agent_remove_mpi_folder,
    .talk = MU_TALK_MPI,
    .hear = mu_agent_hear_mpi,
};
