/*
 * task/join.c: joining and leaving.
 *
 * Joining: find the segment, or create it (the kernel decides a race); take a slot; look again whether the job was
 * closed meanwhile; register the task. A predecessor that is dead but not yet scavenged is scavenged here. Leaving is
 * the reverse; the last to leave a job that no launcher keeps closes and unlinks it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "segment/file.h"
#include "segment/hosts.h"
#include "segment/ledger.h"
#include "segment/reserve.h"
#include "segment/wait.h"
#include "task/task.h"

#define JOIN_PATIENCE_NS 10000000000u

static void deaths_recheck(struct mu_ctx *ctx)
{
    mu_task_scavenge(ctx);
}

void muster_options_init(struct muster_options *options)
{
    memset(options, 0, sizeof *options);
    options->task_id = -1;
}

/* A number from the environment: 1 found, 0 not set, -1 nonsense (the sentence is set). */
static int env_number(const char *name, long most, long *ret_value)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !*text)
        return 0;
    errno = 0;
    *ret_value = strtol(text, &end, 10);
    if (errno || *end || *ret_value < 0 || *ret_value > most) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "%s is '%s'; a number from 0 to %ld is expected", name, text, most);
        return -1;
    }
    return 1;
}

struct plan {
    struct muster_options o;
    const char *segment; /* MUSTER_SEGMENT, or NULL */
    struct muster_segment_config config;
    bool seat; /* the slot alone */
};

static enum muster_status options_resolve(const struct muster_options *options, struct plan *p)
{
    long n = 0;
    int rc;

    if (options)
        p->o = *options;
    else
        muster_options_init(&p->o);
    if (p->o.flags & MUSTER_JOIN_WORKER)
        p->o.flags |= MUSTER_JOIN_OBSERVER;
    rc = env_number("MUSTER_RECOVERABLE", 1, &n);
    if (rc < 0)
        return MUSTER_INVALID_ARGUMENT;
    if (rc && n && !(p->o.flags & (MUSTER_JOIN_OBSERVER | MUSTER_JOIN_READ_ONLY)))
        p->o.flags |= MUSTER_JOIN_RECOVERABLE;
    p->segment = p->o.job ? NULL : getenv("MUSTER_SEGMENT");
    if (!p->o.job)
        p->o.job = getenv("MUSTER_JOB");
    if (p->o.job && !p->segment) {
        const char *job = getenv("MUSTER_JOB"), *segment = getenv("MUSTER_SEGMENT");

        if (job && segment && *segment && !strcmp(job, p->o.job))
            p->segment = segment; /* our launcher's own job, named explicitly */
    }
    if (p->segment && !*p->segment)
        p->segment = NULL;
    if (!(p->o.flags & (MUSTER_JOIN_OBSERVER | MUSTER_JOIN_READ_ONLY)) && p->o.task_id < 0) {
        rc = env_number("MUSTER_TASK_ID", INT32_MAX, &n);
        if (rc < 0)
            return MUSTER_INVALID_ARGUMENT;
        if (!rc)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "no task id (set MUSTER_TASK_ID, or start under 'muster run')");
        p->o.task_id = (int32_t)n;
    }
    if (p->o.config)
        p->config = *p->o.config;
    if (!p->o.num_tasks)
        p->o.num_tasks = p->config.num_tasks;
    if (!p->o.num_tasks) {
        rc = env_number("MUSTER_NUM_TASKS", 8192, &n);
        if (rc < 0)
            return MUSTER_INVALID_ARGUMENT;
        p->o.num_tasks = rc ? (uint32_t)n : 0;
    }
    p->config.num_tasks = p->o.num_tasks;
    rc = env_number("MUSTER_PROCESSORS", INT32_MAX, &n);
    if (rc < 0)
        return MUSTER_INVALID_ARGUMENT;
    mu_processors_learn(rc ? (unsigned)n : 0);
    if (!p->o.deadline)
        p->o.deadline = mu_now() + JOIN_PATIENCE_NS;
    if (!p->segment && (!p->o.job || !*p->o.job))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "no job name (set MUSTER_JOB, or give one)");
    return MUSTER_OK;
}

/* Open the job's segment or create it. */
static enum muster_status segment_find(const struct plan *p, struct muster_segment **ret_seg)
{
    bool read_only = p->o.flags & MUSTER_JOIN_READ_ONLY;
    const char *name = p->segment ? p->segment : p->o.job;
    enum muster_status status;

    for (;;) {
        status = mu_segment_open(name, !read_only, ret_seg);
        if (!status && (read_only || p->segment || !mu_segment_is_stale(*ret_seg)))
            return MUSTER_OK;
        if (!status) {
            mu_segment_unref(*ret_seg);
            status = mu_fail(MUSTER_NOT_FOUND, "job %s is over; only its segment is left", name);
        }
        if (status != MUSTER_NOT_FOUND || p->segment || read_only || (p->o.flags & MUSTER_JOIN_NO_CREATE))
            return status;
        if (!p->o.num_tasks)
            return mu_fail(MUSTER_INVALID_ARGUMENT,
                           "there is no job %s yet, and to create it the number of tasks is needed "
                           "(set MUSTER_NUM_TASKS)",
                           name);
        status = mu_segment_create(p->o.job, &p->config, false, ret_seg);
        if (status != MUSTER_ALREADY_EXISTS || mu_now() > p->o.deadline)
            return status;
    }
}

static enum muster_status task_enrol(struct muster *m, struct mu_ctx *ctx, const struct plan *p)
{
    struct muster_segment *seg = m->seg;
    struct mu_registration r = {.task = (uint32_t)m->task_id, .flags = p->o.flags, .incarnation = m->incarnation};
    uint64_t period = p->o.heartbeat_period_ns ? p->o.heartbeat_period_ns : seg->heartbeat_timeout / 4;
    enum muster_status status;

    r.pid = (uint32_t)getpid();
    r.start = mu_process_start(getpid());
    r.slot = ctx->slot;
    r.slot_incarnation = ctx->incarnation;
    if (!(p->o.flags & MUSTER_JOIN_NO_HEARTBEAT)) {
        status = mu_heartbeat_start(m, period, &r.slot, &r.slot_incarnation);
        if (status)
            return status;
    }
    m->pulse = &seg->slots[r.slot];
    m->pulse_incarnation = r.slot_incarnation;
    r.slot++;
    for (;;) {
        struct timespec pause = {.tv_nsec = 1000000};

        status = mu_task_register(ctx, &r);
        if (status != MUSTER_UNAVAILABLE || mu_now() > p->o.deadline)
            return status;
        if (!mu_task_scavenge(ctx)) /* another is at it: give it the processor */
            nanosleep(&pause, NULL);
    }
}

/* Each host of a job has a run of its tasks. */
static enum muster_status refuse_stranger(const struct muster_segment *seg, uint32_t task)
{
    uint32_t host = mu_host_of(seg, task);
    char there[64], here[64];

    mu_host_name(seg, host, there, sizeof there);
    mu_host_name(seg, seg->host, here, sizeof here);
    if (!seg->local_tasks)
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "task %u of job %s is one of host %u (%s); this is host %u (%s), without tasks", task, seg->job,
                       host, there, seg->host, here);
    return mu_fail(MUSTER_INVALID_ARGUMENT,
                   "task %u of job %s is one of host %u (%s); this is host %u (%s), with tasks %u to %u", task,
                   seg->job, host, there, seg->host, here, seg->first_task, seg->first_task + seg->local_tasks - 1);
}

/* With the segment at hand: handle, slot, registration. Takes the segment over. */
static enum muster_status segment_enter(struct muster_segment *seg, const struct plan *p, struct muster **ret_muster)
{
    struct muster *m = mu_handle_new(seg, p->o.flags);
    struct mu_ctx *ctx = NULL;
    enum muster_status status;

    if (!m) {
        mu_segment_unref(seg);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a handle");
    }
    status = p->seat ? MUSTER_OK : mu_segment_commit(seg);
    mu_wait_recheck = deaths_recheck;
    m->incarnation = p->o.incarnation;
    while (!m->incarnation)
        mu_random(&m->incarnation, sizeof m->incarnation);
    if (!(p->o.flags & (MUSTER_JOIN_OBSERVER | MUSTER_JOIN_READ_ONLY)))
        m->task_id = p->o.task_id;
    if (!status && m->task_id >= 0 && (uint32_t)m->task_id >= seg->num_tasks)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "task id %d; job %s has tasks 0 to %u", m->task_id, seg->job,
                         seg->num_tasks - 1);
    if (!status && m->task_id >= 0 && !mu_is_local_task(seg, (uint32_t)m->task_id))
        status = refuse_stranger(seg, (uint32_t)m->task_id);
    if (!status && !(p->o.flags & MUSTER_JOIN_READ_ONLY)) {
        status = mu_handle_context(m, &ctx);
        mu_fence_seq_cst(); /* slot first, then the state; pairs with mu_segment_last_out() */
        if (!status && MU_STATE(mu_load32_acquire(&seg->header->state)) != MU_OPEN) /* acquire: as there */
            status = mu_fail(MUSTER_CANCELLED, "job %s has just been closed", seg->job);
        if (!status && m->task_id >= 0)
            status = task_enrol(m, ctx, p);
        if (!status && p->o.flags & MUSTER_JOIN_WORKER) {
            m->pulse = ctx->own;
            m->pulse_incarnation = ctx->incarnation;
        }
        if (status && ctx && m->task_id >= 0)
            mu_task_bury_past(ctx, (uint32_t)m->task_id);
    }
    if (!status) {
        *ret_muster = m;
        return MUSTER_OK;
    }
    mu_heartbeat_stop(m, false);
    mu_handle_end(m);
    if (seg->writable)
        mu_segment_last_out(seg);
    mu_handle_put_away(m);
    return status;
}

static enum muster_status task_join(const struct muster_options *options, struct muster **ret_muster)
{
    struct plan p = {0};
    struct muster_segment *seg;
    enum muster_status status = options_resolve(options, &p);

    for (int tries = 0; !status; tries++) {
        status = segment_find(&p, &seg);
        if (status)
            return status;
        status = segment_enter(seg, &p, ret_muster);
        /* closed between opening and claiming: the next look finds no segment, and may create one */
        if (status != MUSTER_CANCELLED || p.segment || tries == 100)
            return status;
        status = MUSTER_OK;
    }
    return status;
}

enum muster_status muster_join(const struct muster_options *options, struct muster **ret_muster)
{
    enum muster_status status;

    if (mu_inside)
        return mu_handle_refuse_handler();
    mu_inside = 1;
    status = task_join(options, ret_muster);
    mu_exit_read();
    return status;
}

static enum muster_status join_open(struct muster_segment *seg, bool seat, struct muster **ret_muster)
{
    struct plan p = {.seat = seat};
    enum muster_status status;

    if (mu_inside)
        return mu_handle_refuse_handler();
    muster_options_init(&p.o);
    p.o.flags = MUSTER_JOIN_OBSERVER | MUSTER_JOIN_NO_CREATE | MUSTER_JOIN_NO_HEARTBEAT;
    p.o.deadline = mu_now() + JOIN_PATIENCE_NS;
    mu_segment_ref(seg);
    mu_inside = 1;
    status = segment_enter(seg, &p, ret_muster);
    mu_exit_read();
    return status;
}

enum muster_status mu_task_join_open(struct muster_segment *seg, struct muster **ret_muster)
{
    return join_open(seg, false, ret_muster);
}

enum muster_status mu_task_join_seat(struct muster_segment *seg, struct muster **ret_muster)
{
    return join_open(seg, true, ret_muster);
}

/* Without a heartbeat thread: with our slot, or another thread's when none is to be had. */
static enum muster_status task_unregister(struct muster *m)
{
    struct mu_ctx *ctx, *own = NULL;
    enum muster_status status;

    status = mu_handle_context(m, &own);
    ctx = status ? mu_handle_borrow(m) : own;
    if (ctx)
        status = mu_task_unregister(ctx, (uint32_t)m->task_id, m->incarnation);
    if (ctx && ctx != own)
        mu_handle_return();
    return status;
}

enum muster_status muster_leave(struct muster *muster)
{
    struct muster_segment *seg;
    void (*at_leave)(struct muster *);
    enum muster_status status;

    if (!muster)
        return MUSTER_OK;
    seg = muster->seg;
    status = mu_enter_handle(muster);
    if (status) {
        if (seg && !mu_handle_is_ours(muster)) /* a forked child: only its copy of the handle goes */
            mu_handle_put_away(muster);
        return status;
    }
    at_leave = muster->at_leave;
    if (at_leave && mu_segment_is_whole(seg))
        at_leave(muster);
    mu_ledger_close(muster);
    if (!mu_segment_is_whole(seg))
        status = mu_fail(MUSTER_DATA_LOSS, "the segment of job %s was truncated while in use", seg->job);
    else if (muster->task_id >= 0 && !muster->heartbeat)
        status = task_unregister(muster);
    if (muster->heartbeat) {
        enum muster_status left = mu_heartbeat_stop(muster, !status);

        status = status ? status : left;
    }
    mu_handle_end(muster);
    if (seg->writable && mu_segment_is_whole(seg))
        mu_segment_last_out(seg);
    mu_handle_put_away(muster);
    mu_exit_read();
    return status;
}

struct muster_segment *muster_segment_of(struct muster *muster)
{
    return muster->seg;
}

const char *muster_job(const struct muster *muster)
{
    return muster->seg ? muster->seg->job : "";
}

int32_t muster_task_id(const struct muster *muster)
{
    return muster->task_id;
}

uint32_t muster_num_tasks(const struct muster *muster)
{
    return muster->seg ? muster->seg->num_tasks : 0;
}

uint64_t muster_incarnation(const struct muster *muster)
{
    return muster->incarnation;
}

void muster_thread_detach(struct muster *muster)
{
    if (mu_enter_read(muster))
        return;
    if (muster->heartbeat || !muster->pulse || !mu_handle_holds(muster, muster->pulse)) /* the task's life is kept */
        mu_handle_detach_thread(muster);
    mu_exit_read();
}
