/*
 * cli/scale.c: `muster scale`: other numbers of tasks for a job that runs (muster run --elastic).
 *
 * What is asked for is a change of the job's membership. Where the launcher begins each epoch anew it takes the change
 * up, and its outcome is the membership of the next segment of the same name; else it stands in the segment that there
 * is, and those that take part commit it or roll it back.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <muster/membership.h>

#include "base/activity.h"
#include "segment/host_view.h"
#include "segment/members.h"

#define SCALE_NS 60000000000ull

static const struct timespec pause = {.tv_nsec = 20000000}; /* between two looks */

struct scaling {
    struct mu_cli_call *call;
    struct muster *muster; /* NULL: between two segments */
    struct muster_membership now;
    struct muster_member *members; /* in the order of their ranks */
    size_t count;
    int32_t *come, *go;
    size_t num_come, num_go;
    uint32_t wanted;
    uint64_t change, timeout_ns;
    muster_deadline deadline;
    bool is_anew;
};

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static bool is_named(const int32_t *tasks, size_t count, int32_t task)
{
    for (size_t i = 0; i < count; i++)
        if (tasks[i] == task)
            return true;
    return false;
}

/* "6", "+2", "-1". 0, or 2 with a complaint printed. */
static int size_take(struct scaling *s, const char *text)
{
    int sign = text[0] == '+' || text[0] == '-';
    uint64_t number = 0;
    int64_t wanted;

    if (mu_cli_parse_unsigned(text + sign, MUSTER_MEMBERS_MAX, &number) || (!sign && !number))
        return mu_cli_usage(s->call, "'%.60s' is no number of tasks: write 6, +2 or -1", text);
    wanted = text[0] == '+'   ? (int64_t)s->now.size + (int64_t)number
             : text[0] == '-' ? (int64_t)s->now.size - (int64_t)number
                              : (int64_t)number;
    s->wanted = wanted < 0 ? 0 : (uint32_t)wanted;
    return 0;
}

static int names_take(struct scaling *s)
{
    for (int i = 0; i < s->call->count; i++) {
        uint64_t task = 0;

        if (mu_cli_parse_unsigned(s->call->operands[i], MUSTER_MEMBERS_MAX - 1, &task))
            return mu_cli_usage(s->call, "'%.60s' is no task's number", s->call->operands[i]);
        if (!is_named(s->go, s->num_go, (int32_t)task))
            s->go[s->num_go++] = (int32_t)task;
    }
    s->wanted = s->num_go < s->now.size ? s->now.size - (uint32_t)s->num_go : 0;
    return 0;
}

/* Nobody starts a task there. */
static bool host_is_lost(const struct muster_segment *seg, uint32_t task)
{
    struct mu_host_view view;

    if (!mu_is_bridged(seg))
        return false;
    mu_host_look(seg, mu_host_of(seg, task), &view);
    return view.state == MU_HOST_LOST || view.state == MU_HOST_LEFT;
}

static bool number_is_free(const struct scaling *s, int32_t task)
{
    struct muster_task_info info;

    for (size_t i = 0; i < s->count; i++)
        if (s->members[i].task_id == task)
            return false;
    return muster_task_get(s->muster, task, &info) == MUSTER_OK && !info.alive && /* else it has not left yet */
           !host_is_lost(muster_segment_of(s->muster), (uint32_t)task);
}

/*
 * Those that are to come have the lowest numbers that are free; those that are to go the highest ranks. True: there are
 * enough.
 */
static bool lists_fill(struct scaling *s)
{
    s->num_come = 0;
    for (size_t i = s->count; i-- > 0 && s->num_go + s->wanted < s->now.size;)
        if (s->members[i].flags & MUSTER_MEMBER_IN)
            s->go[s->num_go++] = s->members[i].task_id;
    for (uint32_t task = 0; task < s->now.capacity && s->now.size + s->num_come < s->wanted; task++) {
        if (number_is_free(s, (int32_t)task))
            s->come[s->num_come++] = (int32_t)task;
    }
    return s->is_anew || s->now.size + s->num_come >= s->wanted;
}

/* As where each epoch is begun anew: a member that has left well stays one, and no number would count it rightly. */
static int leavers_check(const struct scaling *s)
{
    struct muster_task_info info;

    for (size_t i = 0; i < s->count && !s->is_anew; i++) {
        int32_t task = s->members[i].task_id;

        if (!(s->members[i].flags & MUSTER_MEMBER_IN) || muster_task_get(s->muster, task, &info) || info.alive ||
            info.state != MUSTER_TASK_DISCONNECTED || !info.attempt)
            continue;
        fprintf(stderr,
                "%s: task %d has left already, so the job is about to end, and takes no other number of tasks\n",
                s->call->path, task);
        return MU_CLI_EXIT_FAILURE;
    }
    return 0;
}

static enum muster_status scale_read(struct scaling *s)
{
    struct mu_members head;
    uint64_t word;
    enum muster_status status = muster_membership_read(s->muster, &s->now, NULL, 0, &s->count);
    size_t room = s->count;

    if (status)
        return status;
    s->members = calloc(room + 1, sizeof *s->members);
    s->come = calloc(s->now.capacity + 1, sizeof *s->come);
    s->go = calloc((size_t)s->now.capacity + (size_t)s->call->count + 1, sizeof *s->go);
    if (!s->members || !s->come || !s->go)
        abort();
    status = muster_membership_read(s->muster, &s->now, s->members, room, &s->count);
    s->count = s->count < room ? s->count : room;
    if (!status)
        status = mu_membership_look(muster_segment_of(s->muster), &head, &word);
    s->is_anew = !status && mu_membership_is_anew(&head);
    return status;
}

static enum muster_status scale_wish(struct scaling *s)
{
    struct mu_membership_wish wish = {
        .wanted = s->wanted, .go = s->go, .num_go = s->num_go, .timeout_ns = s->timeout_ns};
    struct mu_ctx *ctx;
    enum muster_status status = mu_enter(s->muster, &ctx);

    if (status)
        return status;
    status = mu_membership_wish(ctx, &wish);
    mu_exit(ctx);
    s->change = wish.ret_change;
    return status;
}

/* ---- its outcome ------------------------------------------------------------------------------------------------- */

static void scale_leave(struct scaling *s)
{
    if (s->muster)
        mu_cli_leave(s->call, s->muster, 0);
    s->muster = NULL;
}

/* The process that was asked, the launcher. */
struct scale_launcher {
    uint32_t pid; /* 0: nobody can tell whether it lives */
    uint64_t start;
};

static bool has_ended(const struct scale_launcher *launcher)
{
    struct mu_activity look;

    return launcher->pid && (!mu_activity_look(launcher->pid, launcher->start, NULL, &look) || look.letter == 'Z');
}

/* Until the job's next segment is there, or its launcher is not. An exit status; the sentence has been printed. */
static int segment_follow(struct scaling *s, const char *job, const struct scale_launcher *launcher, uint64_t epoch)
{
    struct muster_options options;

    muster_options_init(&options);
    options.job = job;
    options.flags = MUSTER_JOIN_READ_ONLY | MUSTER_JOIN_NO_CREATE;
    for (;;) {
        enum muster_status status = muster_join(&options, &s->muster);

        if (!status) {
            status = muster_membership_read(s->muster, &s->now, NULL, 0, NULL);
            if (!status && s->now.epoch > epoch)
                return 0;
            muster_leave(s->muster);
            s->muster = NULL;
        }
        if (mu_cli_interrupted())
            return 128 + mu_cli_interrupted();
        if (has_ended(launcher)) {
            fprintf(stderr, "%s: job %s has ended meanwhile\n", s->call->path, job);
            return MU_CLI_EXIT_FAILURE;
        }
        if (muster_now_ns() >= s->deadline) {
            fprintf(stderr, "%s: the next epoch of job %s has not begun yet\n", s->call->path, job);
            return MU_CLI_EXIT_DEADLINE;
        }
        nanosleep(&pause, NULL);
    }
}

/* A job that was started again for another reason, or shrank, has a later epoch, and not what was asked for. */
static int size_check(const struct scaling *s, const char *job)
{
    if (s->now.size == s->wanted)
        return 0;
    fprintf(stderr,
            "%s: job %s has %u task%s in epoch %" PRIu64 ", not the %u that were asked for: a task was lost meanwhile; "
            "ask again\n",
            s->call->path, job, s->now.size, s->now.size == 1 ? "" : "s", s->now.epoch, s->wanted);
    return MU_CLI_EXIT_FAILURE;
}

/* The change is pending. An exit status; a sentence has been printed. */
static int outcome_await(struct scaling *s)
{
    struct muster_segment_info info;
    uint64_t epoch = s->now.epoch;
    enum muster_status status = muster_segment_info(muster_segment_of(s->muster), &info);
    struct scale_launcher launcher = {.pid = muster_segment_of(s->muster)->foreign ? 0 : info.creator_pid,
                                      .start = muster_segment_of(s->muster)->header->creator_start};

    while (!status) {
        if (s->now.change == s->change && s->now.phase == MUSTER_PHASE_STEADY)
            break;
        /* its own deadline ends a change that is pending, with the reason; one that the launcher has taken up has none
         */
        status = muster_membership_wait(
            s->muster, &s->now, s->is_anew && s->now.phase == MUSTER_PHASE_SETTLING ? s->deadline : MUSTER_FOREVER);
    }
    if (s->is_anew && status == MUSTER_CANCELLED && !mu_cli_interrupted()) {
        scale_leave(s);
        return segment_follow(s, info.job, &launcher, epoch);
    }
    if (status)
        return mu_cli_fail(s->call, status);
    if (s->now.outcome == MUSTER_OUTCOME_COMMITTED)
        return 0;
    fprintf(stderr, "%s: ", s->call->path);
    mu_cli_print_line(stderr, s->now.text);
    putc('\n', stderr);
    return MU_CLI_EXIT_FAILURE;
}

static void outcome_print(const struct scaling *s, const char *job)
{
    struct mu_cli_json json;

    if (!s->call->values[MU_OPT_JSON]) {
        printf("job %s has %u task%s in epoch %" PRIu64 "\n", job, s->now.size, s->now.size == 1 ? "" : "s",
               s->now.epoch);
        return;
    }
    mu_cli_json_start(&json, stdout);
    mu_cli_json_open(&json, NULL, '{');
    mu_cli_json_text(&json, "job", job);
    mu_cli_json_unsigned(&json, "epoch", s->now.epoch);
    mu_cli_json_unsigned(&json, "tasks", s->now.size);
    mu_cli_json_close(&json, '}');
    mu_cli_json_end(&json);
}

static int scale_run(struct mu_cli_call *call)
{
    struct scaling s = {.call = call, .timeout_ns = SCALE_NS};
    struct muster_segment_info info;
    enum muster_status status;
    int code = mu_cli_duration(call, MU_OPT_TIMEOUT, &s.timeout_ns);

    if (!code && !call->values[MU_OPT_REMOVE] && call->count != 1)
        code = mu_cli_usage(call, "one number of tasks is wanted: 6, +2 or -1 (or --remove TASK...)");
    if (!code)
        code = mu_cli_join(call, MUSTER_JOIN_OBSERVER, -1, &s.muster);
    if (code)
        return code;
    s.deadline = muster_after_ns(s.timeout_ns);
    status = scale_read(&s);
    if (!status)
        status = muster_segment_info(muster_segment_of(s.muster), &info);
    if (!status)
        code = call->values[MU_OPT_REMOVE] ? names_take(&s) : size_take(&s, call->operands[0]);
    if (!status && !code && (s.wanted < s.now.least || s.wanted > s.now.most)) {
        fprintf(stderr, "%s: %u members would be left; the job may have %u to %u\n", call->path, s.wanted, s.now.least,
                s.now.most);
        code = MU_CLI_EXIT_FAILURE;
    }
    if (!status && !code && s.wanted != s.now.size)
        code = leavers_check(&s);
    if (!status && !code && s.wanted != s.now.size) {
        bool is_filled;

        while (!(is_filled = lists_fill(&s)) && muster_now_ns() < s.deadline && !mu_cli_interrupted())
            nanosleep(&pause, NULL); /* those that were to go are about to leave */
        if (!is_filled) {
            fprintf(stderr, "%s: only %zu task%s can come: the other numbers are taken, or of hosts that are lost\n",
                    call->path, s.num_come, s.num_come == 1 ? "" : "s");
            code = MU_CLI_EXIT_FAILURE;
        }
    }
    if (!status && !code && s.wanted != s.now.size) {
        status = s.is_anew ? scale_wish(&s)
                           : muster_membership_propose(s.muster, s.come, s.num_come, NULL, s.go, s.num_go, s.timeout_ns,
                                                       &s.change);
        if (!status)
            code = outcome_await(&s);
        if (!status && !code)
            code = size_check(&s, info.job);
    }
    if (status)
        code = mu_cli_fail(call, status);
    else if (!code)
        outcome_print(&s, info.job);
    scale_leave(&s);
    free(s.members);
    free(s.come);
    free(s.go);
    return mu_cli_finish(call, code);
}

static const struct mu_cli_option scale_options[] = {
    {MU_OPT_REMOVE, 0, "remove", NULL, NULL, "the operands are tasks that are to go"},
    {MU_OPT_TIMEOUT, 0, "timeout", "D", NULL, "what is not done by then is rolled back (default 1m)"},
    MU_CLI_JOB,
    MU_CLI_JSON,
    MU_CLI_END,
};

const struct mu_cli_verb mu_cli_scale = {
    .name = "scale",
    .operands = "N | +K | -K | --remove TASK...",
    .summary = "Give a running job more or fewer tasks",
    .options = scale_options,
    .min = 1,
    .max = -1,
    .run = scale_run,
};
