/*
 * bridge/member/members.c: every host's task records in every host's segment.
 *
 * A host's own tasks' records are its truth. Its agent tells the leader which of them have changed; the leader merges
 * them into its own segment, and tells every other host what has changed there. So a death is a change of a record like
 * any other, and a waiter on any host finds it in the records beside it. All that is remembered of a
 * peer is up to which version of the job's state it was told; a new connection begins at 0, with all that ever was.
 *
 * Merging. A record of another host's task keeps the version that it has at the host that sends it: what is not newer
 * is nothing new, so frames may come twice or late. An error that was put into the leader's record is not overwritten
 * by a host that does not know of it yet: it is told instead (bridge/core/owner.c). Clocks are not compared: ages
 * travel.
 */
#include "bridge/member/members.h"

#include <stdlib.h>
#include <string.h>

#include <muster/task.h>

#define TOLD_FLAGS                                                                                                     \
    (MU_TASK_RECOVERABLE | MU_TASK_TRANSIENT | MU_TASK_GUEST | MU_TASK_ENDED | MU_TASK_HOW_UNKNOWN |                   \
     MU_TASK_HOW_FLAGS(UINT16_MAX))
#define PACE_NS 20000u /* a host, between two frames with what is not urgent, where there are many hosts */

/* ---- what changed in our own segment ----------------------------------------------------------------------------- */

/* The records that are ours to tell, as they are now. */
static void records_refresh(struct mu_core *core)
{
    struct members *m = mu_members_of(core);
    struct mu_cluster c;
    uint64_t word = mu_load_acquire(&core->seg->header->cluster); /* acquire: as mu_cluster_look() */

    if (m->read && mu_word_same(word, m->word))
        return;
    if (mu_cluster_run(core->seg, m->first, m->count, m->records, NULL, &c))
        return; /* corrupt: each reader of the records is told so */
    m->read = true;
    m->word = c.word;
    m->version = c.root.version;
    m->first_error = core->leader ? c.root.first_error : 0;
    m->base = m->told_all;
    m->num_changed = 0;
    mu_pack_reset(&m->list);
    for (uint32_t i = 0; i < m->count; i++)
        if (m->records[i].version > m->base) {
            m->changed[m->num_changed++] = i;
            if (core->leader && mu_members_untold(&m->records[i]))
                mu_owner_tell_error(core, i);
        }
}

static void look_at_records(struct mu_core *core)
{
    struct members *m = mu_members_of(core);
    struct mu_cluster c;
    bool urgent;

    m->told_all = m->tell_all;
    m->telling = m->waiting = false;
    mu_core_trim(&m->list);
    mu_core_trim(&m->frame);
    if (mu_cluster_look(core->seg, &c) || (c.root.version == m->told_all && m->roster == m->roster_told))
        return;
    urgent = core->num_hosts <= MU_MEMBERS_MANY || c.root.errors != m->errors_told; /* errors are told at once */
    m->waiting = core->now < m->tell_at && !urgent;
    if (m->waiting)
        return;
    records_refresh(core);
    for (uint32_t h = 0; h < mu_members_peers(core); h++)
        mu_core_want(core, h);
    m->telling = true;
    m->tell_all = m->version;
    m->roster_told = m->roster;
    m->errors_told = c.root.errors;
    m->tell_at = core->now + (uint64_t)PACE_NS * core->num_hosts;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void add_record(struct mu_core *core, struct mu_records_out *out, uint32_t task,
                       const struct mu_task_record *record)
{
    const struct mu_host *h = task < out->end ? NULL : &core->seg->hosts[mu_host_of(core->seg, task)];
    struct mu_task_record r = *record;
    struct mu_cluster c;
    struct mu_said said;
    char text[MU_TEXT_MAX] = "";

    if (r.state == MUSTER_TASK_ERROR && mu_cluster_task(core->seg, task, &r, text, &c))
        return;
    said = (struct mu_said){.version = r.version,
                            .incarnation = r.incarnation,
                            .age = core->now > r.since ? core->now - r.since : 0,
                            .task = task,
                            .state = r.state,
                            .cause = r.cause,
                            .code = r.code,
                            .flags = r.flags & TOLD_FLAGS,
                            .pid = r.pid,
                            .attempt = r.attempt,
                            .text = text,
                            .text_len = strlen(text)};
    mu_records_add(out, &said, h ? h->first_task + h->num_tasks : out->end);
}

/* Those that have changed, once for all hosts that are told of them. */
static void pack_list(struct mu_core *core)
{
    struct members *m = mu_members_of(core);
    struct mu_records_out out;

    if (m->list.len)
        return;
    mu_records_begin(&out, &m->list);
    for (uint32_t i = 0; i < m->num_changed; i++) {
        add_record(core, &out, m->first + m->changed[i], &m->records[m->changed[i]]);
        m->ends[i] = m->list.len;
    }
}

/* Of the list, all before this task, which is a host's first: no run goes on over it. */
static size_t list_until(const struct members *m, uint32_t task)
{
    uint32_t low = 0, high = m->num_changed;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (m->first + m->changed[mid] < task)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? m->ends[low - 1] : 0;
}

/* Nobody is told of his own tasks: `first` to `end` are left out. */
static void add_list(struct mu_core *core, uint32_t first, uint32_t end)
{
    struct members *m = mu_members_of(core);
    size_t before, from;

    pack_list(core);
    if (m->list.failed) {
        m->frame.failed = true;
        return;
    }
    before = list_until(m, first);
    from = end > first ? list_until(m, end) : before;
    if (before)
        mu_pack_raw(&m->frame, m->list.bytes, before);
    if (m->list.len > from)
        mu_pack_raw(&m->frame, m->list.bytes + from, m->list.len - from);
}

static void add_all(struct mu_core *core, uint64_t since, uint32_t first, uint32_t end)
{
    struct members *m = mu_members_of(core);
    struct mu_records_out out;

    mu_records_begin(&out, &m->frame);
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t task = m->first + i;

        if (m->records[i].version > since && (task < first || task >= end))
            add_record(core, &out, task, &m->records[i]);
    }
}

static void tell_records(struct mu_core *core, uint32_t host)
{
    struct members *m = mu_members_of(core);
    struct member_told *told = &m->told[host];
    const struct mu_host *h = &core->seg->hosts[host];
    uint32_t first = core->leader ? h->first_task : 0, end = core->leader ? first + h->num_tasks : 0;
    size_t empty;

    mu_pack_reset(&m->frame);
    mu_pack_u64(&m->frame, m->first_error);
    empty = m->frame.len;
    if (told->version >= m->base) /* some of them it may know already: nothing comes of those */
        add_list(core, first, end);
    else
        add_all(core, told->version, first, end);
    if (m->frame.failed)
        core->peers[host].front.failed = true;
    else if (m->frame.len > empty || told->first_error != m->first_error)
        mu_core_send_front(core, host, MU_FRAME_RECORDS, m->frame.bytes, m->frame.len);
    told->version = m->version;
    told->first_error = m->first_error;
}

static void members_front(struct mu_core *core, uint32_t host)
{
    struct members *m = mu_members_of(core);

    if (!mu_members_is_due(core, host))
        return;
    m->told[host].now = false;
    mu_roster_tell(core, host);
    records_refresh(core);
    if (m->told[host].version != m->version || m->told[host].first_error != m->first_error)
        tell_records(core, host);
}

bool mu_members_told(struct mu_core *core, uint32_t host, uint64_t *ret_word)
{
    const struct member_told *told = &mu_members_of(core)->told[host];
    struct mu_cluster c;

    if (mu_cluster_look(core->seg, &c))
        return false;
    *ret_word = c.word;
    return told->version == c.root.version && told->first_error == (core->leader ? c.root.first_error : 0);
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static bool record_bad(const char *what, uint32_t task)
{
    mu_fail(MUSTER_INVALID_ARGUMENT, "the record of task %u %s", task, what);
    return false;
}

/* `after`: the task before it in the frame, + 1. */
static bool record_can_be(const struct mu_core *core, uint32_t host, const struct mu_said *s, uint64_t after)
{
    uint32_t task = s->task;

    if (task >= core->seg->num_tasks || mu_is_local_task(core->seg, task) ||
        (core->leader && mu_host_of(core->seg, task) != host))
        return record_bad("is not its to tell", task);
    if (task < after)
        return record_bad("is out of order", task);
    if (!s->version || s->state > MUSTER_TASK_ERROR || s->cause > MUSTER_CAUSE_SERVICE || s->code > MUSTER_DATA_LOSS ||
        (s->flags & ~TOLD_FLAGS))
        return record_bad("cannot be", task);
    return !s->text_len || !memchr(s->text, 0, s->text_len) || record_bad("has a text with a NUL", task);
}

/* All of the frame, before any of it is believed. */
static bool is_sound(const struct mu_core *core, uint32_t host, struct mu_records_in in)
{
    uint64_t after = 0;

    while (mu_records_next(&in)) {
        if (!record_can_be(core, host, &in.now, after))
            return false;
        after = in.now.task + 1ul;
    }
    return !in.u.failed || record_bad("is cut off", in.now.task);
}

static bool record_merge(struct mu_task_change *c)
{
    struct mu_core *core = c->arg;
    struct mu_said *s = &mu_members_of(core)->said[c->index];
    struct mu_task_record *r = &c->record;
    bool known = r->flags & MU_TASK_REMOTE, same = known && r->state == s->state && r->attempt == s->attempt;

    /* a registration that is in error is never connected again */
    s->contested =
        known && r->state == MUSTER_TASK_ERROR && s->state == MUSTER_TASK_CONNECTED && s->attempt == r->attempt;
    if (s->contested || (known && s->version <= r->start))
        return false;
    *r = (struct mu_task_record){.state = s->state,
                                 .cause = s->cause,
                                 .code = s->code,
                                 .flags = s->flags | MU_TASK_REMOTE |
                                          (s->state == MUSTER_TASK_CONNECTED ? MU_TASK_SAID_CONNECTED : 0),
                                 .pid = s->pid,
                                 .attempt = s->attempt,
                                 .start = s->version,
                                 .incarnation = s->incarnation,
                                 .since = same ? r->since : core->now - (s->age < core->now ? s->age : core->now)};
    memset(c->text, 0, sizeof c->text);
    if (s->text_len)
        memcpy(c->text, s->text, s->text_len);
    return true;
}

static bool merge_some(struct mu_core *core, uint32_t count)
{
    struct members *m = mu_members_of(core);
    enum muster_status status;
    struct mu_ctx *ctx;

    if (mu_enter(core->m, &ctx))
        return false;
    status = mu_cluster_edit_many(ctx, m->said_tasks, count, record_merge, core);
    mu_exit(ctx);
    for (uint32_t i = 0; !status && i < count; i++)
        if (m->said[i].contested && core->leader)
            mu_owner_tell_error(core, m->said_tasks[i]);
    return !status;
}

static bool set_first(struct mu_core *core, uint64_t first_error)
{
    enum muster_status status;
    struct mu_ctx *ctx;

    if (!first_error)
        return true;
    if (mu_enter(core->m, &ctx))
        return false;
    status = mu_cluster_set_first(ctx, (uint32_t)first_error - 1);
    mu_exit(ctx);
    return !status;
}

bool mu_take_records(struct mu_core *core, uint32_t host, struct mu_unpack *u)
{
    struct members *m = mu_members_of(core);
    uint64_t first_error = mu_unpack_u64(u);
    struct mu_records_in in = mu_records_of(u);
    uint32_t count = 0;
    bool good;

    if (first_error > (core->leader ? 0 : core->seg->num_tasks)) {
        mu_fail(MUSTER_INVALID_ARGUMENT, "task %llu cannot be the first in error", (unsigned long long)first_error - 1);
        return false;
    }
    good = is_sound(core, host, in);
    while (good && mu_records_next(&in)) {
        uint32_t task = in.now.task;

        if (count && m->said_tasks[0] / MU_TASKS_PER_BLOCK != task / MU_TASKS_PER_BLOCK) {
            good = merge_some(core, count);
            count = 0;
        }
        m->said[count] = in.now;
        m->said_tasks[count++] = task;
    }
    good = good && (!count || merge_some(core, count)) && set_first(core, first_error);
    mu_core_worked(core);
    return good;
}

/* ---- the module -------------------------------------------------------------------------------------------------- */

static bool members_init(struct mu_core *core, void **ret_state)
{
    struct members *m = calloc(1, sizeof *m);

    *ret_state = m;
    if (!m)
        return false;
    m->first = core->leader ? 0 : core->seg->first_task;
    m->count = core->leader ? core->seg->num_tasks : core->seg->local_tasks;
    m->records = calloc(m->count + 1, sizeof *m->records);
    m->changed = calloc(m->count + 1, sizeof *m->changed);
    m->told = calloc(mu_members_peers(core), sizeof *m->told);
    m->ends = calloc(m->count + 1, sizeof *m->ends);
    if (!m->records || !m->changed || !m->told || !m->ends || (core->leader && !mu_roster_init(core)))
        return false;
    mu_roster_begin(core);
    mu_loss_begin(core);
    return true;
}

static void members_done(struct mu_core *core)
{
    struct members *m = mu_members_of(core);

    mu_pack_done(&m->frame);
    mu_pack_done(&m->list);
    mu_pack_done(&m->news.list);
    free(m->ends);
    free(m->hosts_changed);
    free(m->named);
    free(m->records);
    free(m->changed);
    free(m->told);
    free(m->errands);
    free(m->rtt_told);
    free(m);
}

static void members_up(struct mu_core *core, uint32_t host)
{
    struct members *m = mu_members_of(core);

    m->told[host] = (struct member_told){.now = true};
    mu_roster_set(core, host, MU_HOST_UP);
    mu_owner_up(core, host);
    mu_core_want(core, host);
}

static void members_down(struct mu_core *core, uint32_t host)
{
    mu_roster_set(core, host, MU_HOST_DOWN);
    mu_loss_broken(core, host);
}

static void members_lost(struct mu_core *core, uint32_t host, const char *why)
{
    mu_members_of(core)->told[host].gone = 0;
    mu_loss_of(core, host, why); /* first: an agent that dies in between is followed by one that waits for it anew */
    mu_roster_set(core, host, why && !strcmp(why, MU_CORE_LEFT) ? MU_HOST_LEFT : MU_HOST_LOST);
    if (core->leader)
        mu_owner_lost(core, host);
}

static void members_look(struct mu_core *core)
{
    mu_loss_look(core);
    mu_roster_look(core);
    look_at_records(core);
}

static uint64_t members_next(struct mu_core *core)
{
    struct members *m = mu_members_of(core);
    uint64_t at = mu_loss_next(core), roster = mu_roster_next(core);

    at = roster < at ? roster : at;
    return m->waiting && m->tell_at < at ? m->tell_at : at;
}

const struct mu_module mu_module_members = {.name = "members",
                                            .init = members_init,
                                            .done = members_done,
                                            .up = members_up,
                                            .down = members_down,
                                            .lost = members_lost,
                                            .look = members_look,
                                            .front = members_front,
                                            .next = members_next};
