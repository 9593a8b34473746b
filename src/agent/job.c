/*
 * agent/job.c: the job's segment and the launcher's part in it.
 *
 * The launcher creates the segment and joins it as an observer; where it need not before, when the first task has, or
 * the job is a while old: a job of which nobody makes use has cost a name and some pages. Its slot it takes at once. If
 * there are no pages then, it is there when a task is: others do not need it. A thread, the watcher, waits
 * for the kernel to report the death of a thread that holds a slot: about 0.15 ms after SIGKILL, where the pidfd of a
 * large process takes hundreds; the pidfds, in the event loop, remain the authority. Between deaths it looks for tasks
 * without recent heartbeats: when every task of a job is stopped, nobody else would. In a job of several hosts it looks
 * for the bridge, too, so that not both wake up for it; but not in an agent that adopts, where it starts first.
 * At the end: the thread is called back, the observer leaves, the segment is closed and its name goes.
 *
 * The watcher is started a while after the tasks (deferred.c).
 */
#include "agent/hosts/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "segment/file.h"
#include "segment/format.h"
#include "segment/reserve.h"
#include "topology/share.h"

#define WATCH_AFTER_NS 10000000u
#define LOOK_NS        100000000u /* as every wait */

struct observer_state {
    struct muster *seat; /* the slot that is kept until the launcher joins */
    int absence_said;    /* that there are no pages for it */
    pthread_t watcher;
    int watching;
    uint64_t watch_at;     /* when the watcher is to be started; 0: not */
    struct mu_beat *beats; /* of each task; the watcher's */
};

static struct observer_state *observer_state(const struct mu_agent *agent)
{
    return mu_component_state(agent, MU_COMPONENT_OBSERVER);
}

/* A task may be in error and live: stopped, hung, or by its own word. Its process's end is said elsewhere. */
static void say_living_error(struct mu_agent *agent, uint64_t *said_ns)
{
    struct muster_error error;
    int32_t task = mu_agent_first_error(agent, &error);
    char name[120];

    if (task < 0 || error.since_ns == *said_ns)
        return;
    *said_ns = error.since_ns;
    if (error.cause == MUSTER_CAUSE_HEARTBEAT || error.cause == MUSTER_CAUSE_REPORTED ||
        error.cause == MUSTER_CAUSE_SERVICE)
        mu_agent_say("%s is in error: %s", mu_agent_task_name(agent, (uint32_t)task, name, sizeof name), error.message);
}

/* What is looked at when somebody has died, and in each period. */
static void look_at_tasks(struct mu_agent *agent, uint64_t *last_check, uint64_t *said)
{
    struct mu_ctx *ctx;

    if (agent->is_suspended) {
        *last_check = 1; /* long ago: then all have their time anew */
    } else if (mu_enter(agent->muster, &ctx) == MUSTER_OK) {
        mu_beats_check(ctx, observer_state(agent)->beats, last_check);
        mu_exit(ctx);
    }
    if (!mu_agent_follows(agent)) /* the leader's agent hears of it, too */
        say_living_error(agent, said);
}

static bool is_removed(const struct mu_agent *agent)
{
    return agent->segment && mu_segment_is_whole(agent->segment) && mu_segment_is_removed(agent->segment);
}

static void *deaths_watch(void *arg)
{
    struct mu_agent *agent = arg;
    struct mu_bridge *bridge = agent->bridge && !agent->adopted ? agent->bridge->bridge : NULL;
    uint64_t period = agent->muster->seg->heartbeat_timeout / 8, last_check = 0, said = 0, check_at = 0;
    uint64_t turn = bridge ? period / (period / LOOK_NS + 1) : period; /* parts of a period: no wake-up more for it */
    enum muster_status status;

    if (bridge)
        mu_bridge_be_looked_after(bridge, true);
    for (;;) {
        status = mu_death_wait(agent->muster, muster_after_ns(turn), NULL);
        if (status != MUSTER_OK && status != MUSTER_DEADLINE_EXCEEDED)
            break; /* CANCELLED: called back. Anything else: the pidfds alone must do */
        if (bridge)
            mu_bridge_look(bridge);
        if (status && mu_now() < check_at)
            continue;
        check_at = muster_after_ns(period - turn / 2);
        look_at_tasks(agent, &last_check, &said);
    }
    if (bridge)
        mu_bridge_be_looked_after(bridge, false);
    muster_thread_detach(agent->muster);
    if (status == MUSTER_CANCELLED && is_removed(agent)) /* the loop looks itself, as at a task's end */
        kill(getpid(), SIGCHLD);
    return NULL;
}

void mu_agent_check_removed(struct mu_agent *agent)
{
    if (agent->broken || agent->phase != MU_PHASE_RUNNING || mu_agent_is_ending(agent) || !is_removed(agent))
        return;
    mu_agent_say("the segment of job %s was removed by 'muster segment rm --force': ending the job", agent->job);
    agent->root_said = 1; /* whichever task fails of it first is not to blame */
    mu_agent_break(agent);
}

void mu_agent_watch_job(struct mu_agent *agent)
{
    if ((observer_state(agent)->absence_said && !mu_segment_is_committed(agent->segment)) || mu_agent_be_there(agent)) {
        observer_state(agent)->watch_at = muster_after_ns(LOOK_NS);
        return;
    }
    observer_state(agent)->beats = calloc(agent->num_tasks, sizeof *observer_state(agent)->beats);
    if (observer_state(agent)->beats && pthread_create(&observer_state(agent)->watcher, NULL, deaths_watch, agent) == 0)
        observer_state(agent)->watching = 1;
}

void mu_agent_watch_soon(struct mu_agent *agent)
{
    observer_state(agent)->watch_at = muster_after_ns(WATCH_AFTER_NS);
}

void mu_agent_name_job(struct mu_agent *agent)
{
    unsigned char bytes[16];
    const struct mu_agent_hosts *hosts = agent->options->hosts;
    unsigned random;

    mu_random(bytes, sizeof bytes);
    for (int i = 0; i < 16; i++)
        snprintf(agent->run_id + 2 * i, 3, "%02x", bytes[i]);
    if (hosts && hosts->run_id[0]) /* a follower's that has stayed */
        snprintf(agent->run_id, sizeof agent->run_id, "%s", hosts->run_id);
    else if (hosts)
        snprintf(agent->options->hosts->run_id, sizeof hosts->run_id, "%s", agent->run_id);
    mu_random(&random, sizeof random);
    if (agent->options->job)
        snprintf(agent->job, sizeof agent->job, "%s", agent->options->job);
    else
        snprintf(agent->job, sizeof agent->job, "%s-%d-%06x", agent->options->num_apps ? "run" : "serve", (int)getpid(),
                 random & 0xffffff);
    snprintf(agent->title, sizeof agent->title, "%s", agent->job);
    if (hosts && hosts->node > 0)
        snprintf(agent->job, sizeof agent->job, "%.195s.h%u", agent->title, hosts->node);
}

/* A job in which the launcher may join later, and leave the segment's pages to the first member. */
static bool joins_late(const struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;

    return agent->num_tasks && options->num_apps && !options->hosts && !options->metrics &&
           !mu_agent_has_coord(agent) && !options->ray && !options->tf && !options->survive && !options->trace_events &&
           !options->restart_tasks && !options->elastic && options->mpi < MU_AGENT_MPI_PMIX;
}

/*
 * Why nobody like us can make a file where segments are: the folder may not be there; 0: that is not why. A name that
 * is taken is another matter.
 */
static int refusal_to_write(enum muster_status status)
{
    if (status == MUSTER_OK || status == MUSTER_ALREADY_EXISTS ||
        faccessat(AT_FDCWD, mu_segment_folder(), W_OK | X_OK, AT_EACCESS) == 0)
        return 0;
    return errno == EROFS || errno == EACCES || errno == ENOENT || errno == ENOTDIR ? errno : 0;
}

/* By a job that runs; where no file can be made nobody has looked. */
static bool is_name_held(const struct mu_agent *agent)
{
    struct muster_segment *other;
    bool held;

    if (muster_segment_open(agent->job, &other))
        return false;
    held = !mu_segment_is_stale(other);
    muster_segment_close(other);
    return held;
}

/* It gets its name when a guard is there to take it away; which is on its way meanwhile. */
static enum muster_status make_and_name(struct mu_agent *agent, const struct muster_segment_config *config,
                                        const struct mu_hosts_config *hosts, unsigned how)
{
    enum muster_status status = mu_segment_make(agent->job, config, hosts, how, &agent->segment);
    struct stat st;

    if (status)
        return status;
    if (agent->segment->path[0] && fstat(muster_segment_fd(agent->segment), &st) == 0)
        mu_launch_guard_segment(agent->launching.guard, st.st_dev, st.st_ino);
    mu_launch_guard_await(agent->launching.guard);
    status = mu_segment_name(agent->segment);
    if (status) {
        muster_segment_close(agent->segment);
        agent->segment = NULL;
    }
    return status;
}

static enum muster_status segment_create(struct mu_agent *agent)
{
    const struct mu_agent_options *options = agent->options;
    struct muster_segment_config config = {
        .num_tasks = agent->num_tasks,
        .num_slots = options->threads ? mu_format_slots(agent->local_tasks, options->threads) : 0,
        .heap_bytes = options->heap_bytes,
        .object_bytes = options->object_bytes,
        .heartbeat_timeout_ns = options->heartbeat_timeout_ns,
        .memfd = options->memfd,
        .trace_events = options->trace_events,
        .listened = mu_agent_has_coord(agent),
    };
    struct mu_hosts_config place, *hosts = mu_agent_place(agent, &config, &place);
    unsigned how = MU_SEGMENT_KEPT | (joins_late(agent) ? MU_SEGMENT_LATE : 0);
    enum muster_status status;
    int refusal = 0;

    status = make_and_name(agent, &config, hosts, how);
    if ((status == MUSTER_RESOURCE_EXHAUSTED || (refusal = refusal_to_write(status))) && !config.memfd &&
        !options->survive) {
        if (is_name_held(agent))
            return mu_fail(MUSTER_ALREADY_EXISTS, "job %s is running here already", agent->job);
        config.memfd = 1;
        status = make_and_name(agent, &config, hosts, how);
        if (status == MUSTER_OK)
            mu_agent_say("%s cannot hold the segment%s%s: it is in a memfd (reach it with --job /proc/%d/fd/%d)",
                         mu_segment_folder(), refusal ? ": " : "", refusal ? strerror(refusal) : "", (int)getpid(),
                         muster_segment_fd(agent->segment));
    }
    return status;
}

static void say_not_created(struct mu_agent *agent, enum muster_status status)
{
    char sentence[512];
    struct muster_segment *other;

    snprintf(sentence, sizeof sentence, "%s", muster_last_error());
    if (status == MUSTER_ALREADY_EXISTS && muster_segment_open(agent->job, &other) == MUSTER_OK) {
        mu_agent_say("job %s is running already: pid %u holds the name (choose another --job, or see 'muster status "
                     "--job %s')",
                     agent->job, mu_segment_holder(other), agent->job);
        muster_segment_close(other);
        return;
    }
    mu_agent_say("%s", sentence);
}

int mu_agent_join_job(struct mu_agent *agent)
{
    if (mu_task_join_open(agent->segment, &agent->muster) == MUSTER_OK)
        return 0;
    mu_agent_say("%s", muster_last_error());
    return -1;
}

int mu_agent_be_there(struct mu_agent *agent)
{
    if (agent->muster)
        return 0;
    if (!observer_state(agent)->seat || mu_segment_commit(agent->segment) != MUSTER_OK) {
        if (observer_state(agent)->seat && !observer_state(agent)->absence_said)
            mu_agent_say("%s; until then no task can join", muster_last_error());
        observer_state(agent)->absence_said = 1;
        return -1;
    }
    agent->muster = observer_state(agent)->seat;
    for (uint32_t i = agent->first_task; agent->tasks && i < mu_agent_tasks_end(agent); i++)
        if (agent->tasks[i].ended)
            mu_task_process_ended(agent->muster, (int32_t)i, (uint32_t)agent->tasks[i].pid, agent->tasks[i].wait_status,
                                  agent->tasks[i].restart_at == UINT64_MAX);
    return 0;
}

int mu_agent_open_job(struct mu_agent *agent)
{
    enum muster_status status = segment_create(agent);

    if (status != MUSTER_OK) {
        say_not_created(agent, status);
        return -1;
    }
    if (agent->segment->path[0])
        snprintf(agent->segment_text, sizeof agent->segment_text, "%s", agent->segment->path);
    else
        snprintf(agent->segment_text, sizeof agent->segment_text, "fd:%d", muster_segment_fd(agent->segment));
    agent->topology_fd = mu_share_create(agent->topology_text, sizeof agent->topology_text);
    if (agent->topology_fd < 0)
        agent->topology_text[0] = '\0'; /* each task that asks loads hwloc for itself */
    if (mu_segment_is_committed(agent->segment))
        return mu_agent_join_job(agent);
    if (mu_task_join_seat(agent->segment, &observer_state(agent)->seat) == MUSTER_OK)
        return 0;
    mu_agent_say("%s", muster_last_error());
    return -1;
}

/* The name is removed only if it is still our segment's. One that was cut short must not be touched. */
void mu_agent_remove_name(struct mu_agent *agent)
{
    if (!agent->segment || agent->segment_text[0] != '/')
        return;
    if (mu_segment_is_whole(agent->segment))
        mu_segment_mark_closed(agent->segment, MU_CLOSED);
    mu_segment_unlink(agent->segment);
}

void mu_agent_close_job(struct mu_agent *agent)
{
    if (observer_state(agent)->watching)
        pthread_join(observer_state(agent)->watcher, NULL);
    mu_components_leave(agent);
    if (agent->muster || observer_state(agent)->seat)
        muster_leave(agent->muster ? agent->muster : observer_state(agent)->seat);
    if (agent->segment)
        muster_segment_close(agent->segment);
    if (agent->topology_text[0])
        close(agent->topology_fd);
    agent->topology_text[0] = '\0';
    free(observer_state(agent)->beats);
    observer_state(agent)->watching = 0;
    observer_state(agent)->watch_at = 0;
    agent->muster = observer_state(agent)->seat = NULL;
    observer_state(agent)->absence_said = 0;
    agent->segment = NULL;
    observer_state(agent)->beats = NULL;
}

int32_t mu_agent_first_error(struct mu_agent *agent, struct muster_error *ret_error)
{
    memset(ret_error, 0, sizeof *ret_error);
    if (!agent->muster || muster_error_wait(agent->muster, muster_after_ns(0), ret_error) != MUSTER_OK)
        return -1;
    return ret_error->task_id >= 0 && (uint32_t)ret_error->task_id < agent->num_tasks ? ret_error->task_id : -1;
}

/* ---- the component ----------------------------------------------------------------------------------------------- */

static uint64_t observer_due(const struct mu_agent *agent)
{
    return observer_state(agent)->watch_at ? observer_state(agent)->watch_at : UINT64_MAX;
}

static void observer_tick(struct mu_agent *agent, uint64_t now)
{
    if (!observer_state(agent)->watch_at || now < observer_state(agent)->watch_at)
        return;
    observer_state(agent)->watch_at = 0;
    mu_agent_watch_job(agent);
}

/* Call the watcher back; mu_agent_close_job() joins it. */
static void observer_interrupt(struct mu_agent *agent)
{
    if (observer_state(agent)->watching)
        muster_interrupt(agent->muster);
}

const struct mu_component mu_observer_component = {
    .name = "observer",
    .state_size = sizeof(struct observer_state),
    .due = observer_due,
    .tick = observer_tick,
    .clear = observer_interrupt,
    .close = observer_interrupt,
};
