/*
 * cli/status/epoch.c: the membership of a job that has one, as `muster status` and `muster top` show it.
 */
#include "cli/status/epoch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "segment/members.h"

enum { MISSING_NAMED = 8 };

enum muster_status mu_cli_epoch_take(struct muster *muster, struct mu_cli_epoch *ret_epoch)
{
    struct muster_segment *seg = muster_segment_of(muster);
    struct mu_members head;
    enum muster_status status;
    uint64_t word;
    size_t room = seg->num_tasks;

    *ret_epoch = (struct mu_cli_epoch){.is_there = mu_membership_exist(seg)};
    if (!ret_epoch->is_there)
        return MUSTER_OK;
    ret_epoch->members = calloc(room, sizeof *ret_epoch->members);
    if (!ret_epoch->members)
        abort();
    status = muster_membership_read(muster, &ret_epoch->now, ret_epoch->members, room, &ret_epoch->count);
    if (!status)
        status = mu_membership_look(seg, &head, &word);
    if (status) {
        mu_cli_epoch_free(ret_epoch);
        return status;
    }
    ret_epoch->is_anew = mu_membership_is_anew(&head);
    for (size_t i = 0; i < ret_epoch->count; i++)
        ret_epoch->wanted += (ret_epoch->members[i].flags & MUSTER_MEMBER_NEXT) != 0;
    if (mu_membership_wanted(&head))
        ret_epoch->wanted = mu_membership_wanted(&head);
    if (ret_epoch->now.phase == MUSTER_PHASE_STEADY)
        ret_epoch->wanted = ret_epoch->now.size;
    return MUSTER_OK;
}

void mu_cli_epoch_free(struct mu_cli_epoch *epoch)
{
    free(epoch->members);
    *epoch = (struct mu_cli_epoch){.is_there = false};
}

bool mu_cli_epoch_awaits(const struct mu_cli_epoch *epoch, const struct muster_member *member)
{
    uint32_t said =
        epoch->now.phase == MUSTER_PHASE_PREPARING ? MUSTER_MEMBER_READY | MUSTER_MEMBER_DONE : MUSTER_MEMBER_DONE;

    return epoch->now.phase != MUSTER_PHASE_STEADY && !epoch->is_anew && !(member->flags & said);
}

__attribute__((format(printf, 2, 3))) static void words_add(char *buffer, const char *format, ...)
{
    size_t len = strlen(buffer);
    va_list args;

    va_start(args, format);
    vsnprintf(buffer + len, 768 - len, format, args);
    va_end(args);
}

static void missing_add(const struct mu_cli_epoch *epoch, char *buffer)
{
    unsigned named = 0, more = 0;

    for (size_t i = 0; i < epoch->count; i++) {
        if (!mu_cli_epoch_awaits(epoch, &epoch->members[i]))
            continue;
        if (named < MISSING_NAMED)
            words_add(buffer, "%s %d", named++ ? "," : "; it waits for task", (int)epoch->members[i].task_id);
        else
            more++;
    }
    if (more)
        words_add(buffer, " and %u more", more);
}

const char *mu_cli_epoch_words(const struct mu_cli_epoch *epoch, char buffer[768])
{
    const struct muster_membership *now = &epoch->now;
    char age[32];

    buffer[0] = 0;
    words_add(buffer, "%" PRIu64 ": %u task%s (%u to %u)", now->epoch, now->size, now->size == 1 ? "" : "s", now->least,
              now->most);
    if (now->phase == MUSTER_PHASE_STEADY) {
        words_add(buffer, ", for %s%s%s", mu_cli_age(now->since_ns, age), now->text[0] ? "; " : "", now->text);
        return buffer;
    }
    words_add(buffer, "; change %" PRIu64 " to %u is %s, for %s", now->change, epoch->wanted,
              mu_membership_phase_name(now->phase), mu_cli_age(now->since_ns, age));
    if (epoch->is_anew)
        words_add(buffer, now->phase == MUSTER_PHASE_PREPARING ? "; it waits for the launcher"
                                                               : "; the launcher ends the tasks, and begins anew");
    missing_add(epoch, buffer);
    return buffer;
}

const char *mu_cli_epoch_brief(const struct mu_cli_epoch *epoch, char buffer[96])
{
    int n = snprintf(buffer, 96, "epoch %" PRIu64 " of %u task%s", epoch->now.epoch, epoch->now.size,
                     epoch->now.size == 1 ? "" : "s");

    if (epoch->now.phase != MUSTER_PHASE_STEADY)
        snprintf(buffer + n, 96 - (size_t)n, ", %s for %u", mu_membership_phase_name(epoch->now.phase), epoch->wanted);
    return buffer;
}

static void member_json(struct mu_cli_json *json, const struct mu_cli_epoch *epoch, const struct muster_member *member)
{
    mu_cli_json_open(json, NULL, '{');
    mu_cli_json_signed(json, "task", member->task_id);
    mu_cli_json_text(json, "role", member->role_name);
    mu_cli_json_known(json, "rank", member->rank >= 0, (uint64_t)(member->rank < 0 ? 0 : member->rank));
    mu_cli_json_known(json, "next_rank", member->next_rank >= 0,
                      (uint64_t)(member->next_rank < 0 ? 0 : member->next_rank));
    mu_cli_json_bool(json, "ready", (member->flags & (MUSTER_MEMBER_READY | MUSTER_MEMBER_DONE)) != 0);
    mu_cli_json_bool(json, "done", (member->flags & MUSTER_MEMBER_DONE) != 0);
    mu_cli_json_bool(json, "missing", mu_cli_epoch_awaits(epoch, member));
    mu_cli_json_close(json, '}');
}

void mu_cli_epoch_json(struct mu_cli_json *json, const struct mu_cli_epoch *epoch)
{
    static const char *const outcomes[] = {"none", "committed", "rolled back", "lost", "set"};
    const struct muster_membership *now = &epoch->now;

    if (!epoch->is_there) {
        mu_cli_json_null(json, "membership");
        return;
    }
    mu_cli_json_open(json, "membership", '{');
    mu_cli_json_unsigned(json, "epoch", now->epoch);
    mu_cli_json_text(json, "phase", mu_membership_phase_name(now->phase));
    mu_cli_json_unsigned(json, "since_ns", now->since_ns);
    mu_cli_json_unsigned(json, "size", now->size);
    mu_cli_json_unsigned(json, "wanted", epoch->wanted);
    mu_cli_json_unsigned(json, "least", now->least);
    mu_cli_json_unsigned(json, "most", now->most);
    mu_cli_json_unsigned(json, "change", now->change);
    mu_cli_json_known(json, "deadline_ns", now->deadline != 0 && now->deadline < UINT64_MAX - 1, now->deadline);
    mu_cli_json_text(json, "outcome", (unsigned)now->outcome < 5 ? outcomes[now->outcome] : "?");
    mu_cli_json_text(json, "text", now->text);
    mu_cli_json_bool(json, "anew", epoch->is_anew);
    mu_cli_json_open(json, "members", '[');
    for (size_t i = 0; i < epoch->count; i++)
        member_json(json, epoch, &epoch->members[i]);
    mu_cli_json_close(json, ']');
    mu_cli_json_close(json, '}');
}
