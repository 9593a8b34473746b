/*
 * cli/status/diagnose.c: which tasks hold the job up, in sentences.
 *
 * For each barrier and group that some have come to and others have not, the most telling of the missing are named: a
 * dead task before a stopped one, that before one that has never joined, and so on, down to one that merely works. What
 * is wrong with tasks that nobody is seen to wait for follows, and the waiters for keys. The sentences are sorted the
 * same way, so the first one is the answer to "why does it hang?".
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/status/picture.h"

#define YOUNG_NS 100000000u /* a task that has waited for less, for one that works, does not hang */

/* ---- words ------------------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *format, ...)
{
    size_t len = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + len, size - len, format, args);
    va_end(args);
}

/* "task 3 (pid 4711)", "tasks 0-2, 5 and 7": `ids` ascend. */
static void add_tasks(char *text, size_t size, const struct mu_cli_picture *picture, const int32_t *ids, uint32_t count)
{
    uint32_t pid = count ? picture->tasks[ids[0]].info.pid : 0;
    const struct mu_cli_host *other;

    add(text, size, count == 1 ? "task" : "tasks");
    for (uint32_t i = 0, said = 0; i < count; said++) {
        uint32_t last = i;

        while (last + 1 < count && ids[last + 1] == ids[last] + 1)
            last++;
        if (last == i + 1)
            last = i; /* "3 and 4", not "3-4" */
        if (said == 6 && last + 1 < count) {
            add(text, size, " and %u more", count - i);
            break;
        }
        add(text, size, "%s%d", said == 0 ? " " : last + 1 == count ? " and " : ", ", (int)ids[i]);
        if (last > i)
            add(text, size, "-%d", (int)ids[last]);
        i = last + 1;
    }
    if (count == 0)
        return;
    other = mu_cli_other_host(picture, ids[0]);
    if (count == 1 && pid)
        add(text, size, other ? " (pid %u on host %s)" : " (pid %u)", pid, other ? other->view.name : "");
    else if (other && mu_cli_other_host(picture, ids[count - 1]) == other) /* a host's tasks follow each other */
        add(text, size, " (on host %s)", other->view.name);
}

/* All are on other hosts, and no more is known of them than that they are connected. */
static bool are_out_of_sight(const struct mu_cli_picture *picture, const int32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!mu_cli_other_host(picture, ids[i]) || picture->tasks[ids[i]].letter)
            return false;
    return true;
}

/* The one that has stood still for longest. */
static uint64_t oldest_run(const struct mu_cli_picture *picture, const int32_t *ids, uint32_t count)
{
    uint64_t oldest = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t ran = picture->tasks[ids[i]].last_ran;

        if (ran && (!oldest || ran < oldest))
            oldest = ran;
    }
    return oldest;
}

/* ", for 2.1 s": behind what is so now. */
static void add_for(char *text, size_t size, uint64_t since)
{
    char age[32];

    if (since)
        add(text, size, ", for %s", mu_cli_age(since, age));
}

/* " has been stopped for 2.1 s"; of which no time is known, " is stopped". */
static void add_state(char *text, size_t size, uint32_t count, const char *is, const char *has, uint64_t since)
{
    char age[32];

    if (since)
        add(text, size, " %s %s for %s", count == 1 ? "has" : "have", has, mu_cli_age(since, age));
    else
        add(text, size, " %s", is);
}

/* The sentence on tasks with live processes that have not joined. */
static void add_unjoined(char *text, size_t size, const struct mu_cli_picture *picture, const int32_t *ids,
                         uint32_t count)
{
    const struct mu_cli_task *first = &picture->tasks[ids[0]];

    for (uint32_t i = 0; i < count; i++)
        if (!picture->tasks[ids[i]].unjoined)
            return;
    add(text, size, count == 1 ? ", and has not joined%s" : ", and have not joined",
        first->info.attempt ? " again" : "");
}

/* ... and what it does instead. */
static void add_instead(char *text, size_t size, const struct mu_cli_picture *picture, const struct mu_cli_task *task)
{
    char age[32];

    if (!task->letter)
        return;
    if (task->letter == 'Z' || task->letter == 'X')
        add(text, size, ", and has ended");
    else if (task->letter == 'D')
        add(text, size, ", and is blocked in the kernel (disk, network file system, driver)");
    else if (task->letter != 'S' || mu_cli_is_busy(task))
        add(text, size, task->cpu_percent < 0 ? ", and runs" : ", and runs (%.0f %% CPU%s)", task->cpu_percent,
            task->cpu_is_recent ? "" : " so far");
    else if (task->last_ran && picture->now_ns - task->last_ran > MU_CLI_IDLE_NS)
        add(text, size, ", and has slept for %s", mu_cli_age(task->last_ran, age));
}

/* What is the matter with them, all of one kind. */
static void add_matter(char *text, size_t size, const struct mu_cli_picture *picture, enum mu_cli_kind kind,
                       const int32_t *ids, uint32_t count)
{
    const struct mu_cli_task *first = &picture->tasks[ids[0]];
    const char *are = count == 1 ? "is" : "are";
    char age[32];

    switch (kind) {
    case MU_CLI_DEAD:
        add(text, size, " %s %s", are, count == 1 && first->info.guest ? "lost" : "dead");
        if (first->info.state == MUSTER_TASK_ERROR && count == 1)
            add(text, size, " (%s, noticed %s ago: %s)", mu_cli_cause_name(first->info.cause),
                mu_cli_age(first->info.since_ns, age), first->info.message);
        break;
    case MU_CLI_STOPPED:
        if (first->letter == 't' && count == 1)
            add_state(text, size, 1, "is stopped by a debugger", "been stopped by a debugger",
                      oldest_run(picture, ids, 1));
        else
            add_state(text, size, count, count == 1 ? "is stopped" : "are stopped", "been stopped",
                      oldest_run(picture, ids, count));
        add_unjoined(text, size, picture, ids, count);
        if (first->info.state == MUSTER_TASK_ERROR && count == 1 && !first->unjoined)
            add(text, size, ", and in error (%s: %s)", mu_cli_cause_name(first->info.cause), first->info.message);
        break;
    case MU_CLI_IN_ERROR:
        if (count == 1)
            add(text, size, " has been in error for %s (%s: %s)", mu_cli_age(first->info.since_ns, age),
                mu_cli_cause_name(first->info.cause), first->info.message);
        else
            add(text, size, " are in error");
        break;
    case MU_CLI_GONE:
        if (count == 1)
            add(text, size, " left the job %s ago", mu_cli_age(first->info.since_ns, age));
        else
            add(text, size, " have left the job");
        break;
    case MU_CLI_ABSENT:
        add(text, size, count > 1 ? " have %s" : " has %s",
            first->unjoined && first->info.attempt ? "not joined again" : "never joined");
        if (count == 1 && first->unjoined)
            add_instead(text, size, picture, first);
        break;
    case MU_CLI_BLOCKED: add(text, size, " %s blocked in the kernel (disk, network file system, driver)", are); break;
    case MU_CLI_SLEEPS:
        add_state(text, size, count, count == 1 ? "sleeps elsewhere" : "sleep elsewhere", "slept elsewhere",
                  oldest_run(picture, ids, count));
        break;
    case MU_CLI_WAITS:
        if (count == 1) {
            add(text, size, " waits in %s", first->info.waiting);
            add_for(text, size, first->info.waiting_since_ns);
        } else {
            add(text, size, " wait elsewhere");
        }
        break;
    default:
        if (are_out_of_sight(picture, ids, count)) {
            add(text, size, count == 1 ? " is alive" : " are alive on other hosts");
            if (picture->own_host)
                add(text, size, " (what %s is known on host %s)", count == 1 ? "it does" : "they do",
                    picture->hosts[0].view.name);
            break;
        }
        add(text, size, " %s running elsewhere", are);
        if (count == 1 && first->cpu_percent >= 0)
            add(text, size, " (%.0f %% CPU%s)", first->cpu_percent, first->cpu_is_recent ? "" : " so far");
    }
}

/* The same; or, of tasks with processes that have ended without an error, that. */
static void add_matter_or_end(char *text, size_t size, const struct mu_cli_picture *picture, enum mu_cli_kind kind,
                              const int32_t *ids, uint32_t count)
{
    const struct mu_cli_task *first = &picture->tasks[ids[0]];
    char end[192];

    if (mu_cli_is_ended(&first->info) && !first->unjoined)
        add(text, size, " %s", count == 1 ? mu_cli_end(&first->info, end) : "have ended");
    else
        add_matter(text, size, picture, kind, ids, count);
}

/* ---- findings ---------------------------------------------------------------------------------------------------- */

struct cause_search {
    struct mu_cli_picture *picture;
    int32_t *ids;           /* room for all tasks */
    unsigned char *accused; /* a sentence names the task already */
    size_t capacity;
};

static struct mu_cli_finding *new_finding(struct cause_search *s, enum mu_cli_kind kind, uint32_t waiters)
{
    struct mu_cli_picture *picture = s->picture;
    struct mu_cli_finding *finding;

    if (picture->num_findings == s->capacity) {
        size_t n = s->capacity ? s->capacity * 2 : 8;
        struct mu_cli_finding *more = realloc(picture->findings, n * sizeof *more);

        if (!more)
            return NULL;
        picture->findings = more;
        s->capacity = n;
    }
    finding = &picture->findings[picture->num_findings++];
    *finding = (struct mu_cli_finding){.kind = kind, .waiters = waiters};
    return finding;
}

static int by_number(const void *a, const void *b)
{
    return *(const int32_t *)a < *(const int32_t *)b ? -1 : *(const int32_t *)a > *(const int32_t *)b;
}

/* A barrier in use is seen within an instance, too. Where members of a group have not even gone to sleep no time is
 * known. */
static bool is_young(const struct mu_cli_picture *picture, uint64_t since_ns)
{
    return since_ns == 0 || picture->now_ns < since_ns + YOUNG_NS;
}

/* Those of a barrier's missing that tell most. */
static int accuse_missing(struct cause_search *s, const struct mu_barrier_view *barrier)
{
    const struct mu_cli_picture *picture = s->picture;
    enum mu_cli_kind kind = MU_CLI_FINE;
    struct mu_cli_finding *finding;
    uint32_t count = 0, waiters = 0;

    for (uint32_t i = 0; i < barrier->arrived; i++)
        waiters += (uint32_t)barrier->present[i] < picture->count && picture->tasks[barrier->present[i]].info.alive;
    for (uint32_t i = 0; i < barrier->missing_count && waiters; i++) {
        int32_t id = barrier->missing[i];
        enum mu_cli_kind own =
            (uint32_t)id < picture->count ? mu_cli_kind_of(picture, &picture->tasks[id]) : MU_CLI_FINE;

        if (own < kind) {
            kind = own;
            count = 0;
        }
        if (own == kind && own != MU_CLI_FINE)
            s->ids[count++] = id;
    }
    if (count == 0 || (kind >= MU_CLI_BLOCKED && is_young(picture, barrier->since_ns)))
        return 0;
    qsort(s->ids, count, sizeof *s->ids, by_number);
    finding = new_finding(s, kind, waiters);
    if (!finding)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        s->accused[s->ids[i]] = 1;
    add_tasks(finding->text, sizeof finding->text, picture, s->ids, count);
    add_matter_or_end(finding->text, sizeof finding->text, picture, kind, s->ids, count);
    add(finding->text, sizeof finding->text, ": %u task%s for %s in %s %.200s", waiters,
        waiters == 1 ? " waits" : "s wait", count == 1 ? "it" : "them", barrier->is_group ? "group" : "barrier",
        barrier->id);
    if (!barrier->is_group && barrier->instance)
        add(finding->text, sizeof finding->text, " (instance %llu)", (unsigned long long)barrier->instance);
    add_for(finding->text, sizeof finding->text, barrier->since_ns);
    return 0;
}

/* What is wrong with tasks that no sentence has named: one sentence a kind, but the first error has its own. */
static int accuse_rest(struct cause_search *s, enum mu_cli_kind kind)
{
    const struct mu_cli_picture *picture = s->picture;
    int32_t first = picture->in_error ? picture->error.task_id : -1;

    for (int own = 1; own >= 0; own--) {
        struct mu_cli_finding *finding;
        uint32_t count = 0;

        for (size_t i = 0; i < picture->count; i++)
            if (!s->accused[i] && mu_cli_kind_of(picture, &picture->tasks[i]) == kind && (!own || (int32_t)i == first))
                s->ids[count++] = (int32_t)i;
        if (count == 0)
            continue;
        finding = new_finding(s, kind, own ? UINT32_MAX : 0);
        if (!finding)
            return -1;
        add_tasks(finding->text, sizeof finding->text, picture, s->ids, count);
        add_matter_or_end(finding->text, sizeof finding->text, picture, kind, s->ids, count);
        for (uint32_t i = 0; i < count; i++)
            s->accused[s->ids[i]] = 1;
    }
    return 0;
}

static int accuse_hosts(struct cause_search *s)
{
    const struct mu_cli_picture *picture = s->picture;

    for (uint32_t i = 0; i < picture->num_hosts; i++) {
        enum mu_cli_kind kind = mu_cli_host_kind(&picture->hosts[i]);
        struct mu_cli_finding *finding;

        if (kind == MU_CLI_FINE)
            continue;
        finding = new_finding(s, kind, picture->hosts[i].view.num_tasks);
        if (!finding)
            return -1;
        mu_cli_accuse_host(picture, &picture->hosts[i], finding->text, sizeof finding->text);
    }
    return 0;
}

/* A client that is done while most others work: its program has failed, as like as not. */
static int accuse_leaving(struct cause_search *s)
{
    int32_t id = (int32_t)s->picture->leaves - 1;
    struct mu_cli_finding *finding = id < 0 ? NULL : new_finding(s, MU_CLI_WAITS, UINT32_MAX);

    if (!finding)
        return id < 0 ? 0 : -1;
    s->accused[id] = 1;
    add_tasks(finding->text, sizeof finding->text, s->picture, &id, 1);
    add(finding->text, sizeof finding->text, " waits in the shutdown, for which most tasks have not called");
    return 0;
}

/* A long key is cut off in what a task says of its wait: several may seem to be one. */
static void add_what(char *text, size_t size, const struct mu_cli_calls *calls, const char *waiting, uint32_t count)
{
    if (strncmp(waiting, "key ", 4) == 0 && strlen(waiting) == sizeof((struct muster_task_info *)NULL)->waiting - 1)
        add(text, size, " wait%s that begin%s with %s", count == 1 ? "s for a key" : " for keys", count == 1 ? "s" : "",
            waiting + 4);
    else
        add(text, size, " wait%s for %s", count == 1 ? "s" : "", waiting);
    mu_cli_calls_why(calls, waiting, text, size);
}

/* The waiters for the same key, event or object that are not named yet. No task is known to be late: it ranks last. */
static int name_waits(struct cause_search *s)
{
    const struct mu_cli_picture *picture = s->picture;

    for (size_t i = 0; i < picture->count; i++) {
        const struct muster_task_info *info = &picture->tasks[i].info;
        uint64_t since = info->waiting_since_ns;
        struct mu_cli_finding *finding;
        uint32_t count = 0;

        if (s->accused[i] || (strncmp(info->waiting, "key ", 4) != 0 && strncmp(info->waiting, "event ", 6) != 0 &&
                              strncmp(info->waiting, "object 0x", 9) != 0))
            continue;
        for (size_t k = i; k < picture->count; k++) {
            const struct muster_task_info *other = &picture->tasks[k].info;

            if (s->accused[k] || strcmp(other->waiting, info->waiting) != 0)
                continue;
            s->accused[k] = 1;
            s->ids[count++] = (int32_t)k;
            since = other->waiting_since_ns < since ? other->waiting_since_ns : since;
        }
        if (is_young(picture, since))
            continue;
        finding = new_finding(s, MU_CLI_WAITS, count);
        if (!finding)
            return -1;
        add_tasks(finding->text, sizeof finding->text, picture, s->ids, count);
        add_what(finding->text, sizeof finding->text, &picture->calls, info->waiting, count);
        add_for(finding->text, sizeof finding->text, since);
    }
    return 0;
}

/* The task that has waited longest, for anything; -1: none for so long that it is worth a word. */
static int32_t longest_wait(const struct mu_cli_picture *picture)
{
    uint64_t oldest = UINT64_MAX;
    int32_t id = -1;

    for (size_t i = 0; i < picture->count; i++) {
        const struct muster_task_info *info = &picture->tasks[i].info;

        if (!info->waiting[0] || is_young(picture, info->waiting_since_ns) || info->waiting_since_ns >= oldest)
            continue;
        oldest = info->waiting_since_ns;
        id = (int32_t)i;
    }
    return id;
}

/* As a waiter for an error does. */
static void say_that_nobody_is_late(const struct mu_cli_picture *picture, int32_t id, char *text, size_t size)
{
    const struct muster_task_info *info = &picture->tasks[id].info;

    snprintf(text, size, "nobody is known to hold the job up: %u of %zu tasks connected; ",
             picture->states[MUSTER_TASK_CONNECTED], picture->count);
    add_tasks(text, size, picture, &id, 1);
    add(text, size, " has waited longest, for %s", info->waiting);
    add_for(text, size, info->waiting_since_ns);
}

static void say_that_none_has_joined(const struct mu_cli_picture *picture, char *text, size_t size)
{
    snprintf(text, size, "no task has joined: still starting, or none uses muster");
    if (picture->alive) /* as the launcher knows */
        add(text, size, "; the processes of %u of %zu live", picture->alive, picture->count);
}

static int say_that_all_is_well(struct cause_search *s)
{
    const struct mu_cli_picture *picture = s->picture;
    uint32_t connected = picture->states[MUSTER_TASK_CONNECTED], absent = 0;
    struct mu_cli_finding *finding = new_finding(s, MU_CLI_FINE, 0);
    int32_t longest = longest_wait(picture);

    if (!finding)
        return -1;
    for (size_t i = 0; i < picture->count; i++)
        absent += picture->tasks[i].info.attempt == 0;
    if (longest >= 0)
        say_that_nobody_is_late(picture, longest, finding->text, sizeof finding->text);
    else if (connected)
        snprintf(finding->text, sizeof finding->text, "no wait is longer than 0.1 s: %u of %zu tasks connected",
                 connected, picture->count);
    else if (absent == picture->count)
        say_that_none_has_joined(picture, finding->text, sizeof finding->text);
    else if (absent == 0)
        snprintf(finding->text, sizeof finding->text, "all tasks have left");
    else
        snprintf(finding->text, sizeof finding->text, "no task is connected: %u never joined, %zu have left", absent,
                 picture->count - absent);
    return 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct mu_cli_finding *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->waiters > y->waiters ? -1 : x->waiters < y->waiters;
}

int mu_cli_diagnose(struct mu_cli_picture *picture)
{
    struct cause_search s = {picture, calloc(picture->count + 1, sizeof *s.ids), calloc(picture->count + 1, 1), 0};
    int rc = s.ids && s.accused ? 0 : -1;

    for (size_t i = 0; !rc && i < picture->num_barriers; i++) {
        const struct mu_barrier_view *barrier = &picture->barriers[i];

        if (mu_cli_barrier_is_open(barrier) && barrier->arrived > 0 && barrier->participants <= picture->count)
            rc = accuse_missing(&s, barrier);
    }
    for (int kind = MU_CLI_DEAD; !rc && kind <= MU_CLI_IN_ERROR; kind++)
        rc = accuse_rest(&s, (enum mu_cli_kind)kind);
    if (!rc)
        rc = accuse_hosts(&s);
    rc = rc ? rc : accuse_leaving(&s);
    rc = rc ? rc : name_waits(&s);
    if (!rc && picture->num_findings == 0)
        rc = say_that_all_is_well(&s);
    if (!rc)
        qsort(picture->findings, picture->num_findings, sizeof *picture->findings, by_rank);
    free(s.ids);
    free(s.accused);
    return rc;
}
