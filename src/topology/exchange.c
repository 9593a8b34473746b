/*
 * topology/exchange.c: every task gives its local topology, and all get the global one.
 *
 * It is done with keys. A task puts what it gives under muster/topology/NAME/local/TASK, and waits for
 * muster/topology/NAME/global. A task that finds that absent and all locals there makes it from them and inserts it:
 * most often the last that comes. That insertion is the only commit. It may be done by several, for all make the
 * same bytes of the same locals and the first one counts; so nobody's death or stopping between any two steps delays
 * the others, and what one has been told, all are told. A fault in the locals is an outcome, too.
 *
 * On a follower's host it is done by calls to the leader (exchange_remote.c), in the same steps on the same keys.
 *
 * The outcome holds the version of each local that it was made from. So a task knows whether what it gave is in it,
 * also when its process has replaced another that died after giving something else.
 */
#include "topology/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/key.h"
#include "segment/hosts.h"
#include "segment/wait.h"
#include "topology/exchange_private.h"
#include "topology/message.h"

/* ---- keys and values --------------------------------------------------------------------------------------------- */

static enum muster_status local_key(const struct mu_exchange *x, uint32_t task, struct mu_key *ret_key)
{
    char key[NAME_MAX_BYTES + 64];

    snprintf(key, sizeof key, "muster/topology/%s/local/%u", x->name, task);
    return mu_kv_key(x->seg, key, MUSTER_NTS, ret_key);
}

static enum muster_status make_keys(struct mu_exchange *x)
{
    char key[NAME_MAX_BYTES + 64];
    size_t len = strlen(x->name);
    enum muster_status status;

    if (!len || len > NAME_MAX_BYTES || strchr(x->name, '/'))
        return mu_fail(MUSTER_INVALID_ARGUMENT,
                       "the name of a topology exchange is 1 to %d bytes without '/', not \"%.140s\"", NAME_MAX_BYTES,
                       x->name);
    snprintf(key, sizeof key, "muster/topology/%s/global", x->name);
    snprintf(x->what, sizeof x->what, "topology exchange %.50s", x->name);
    status = mu_kv_key(x->seg, key, MUSTER_NTS, &x->global);
    return status ? status : local_key(x, x->task, &x->own);
}

static bool is_there(const struct mu_exchange *x, const struct mu_key *key)
{
    struct mu_table t = mu_table_kv(x->seg);
    struct mu_found f;

    return !mu_table_get(&t, x->ctx, key, NULL, 0, &f) && f.version;
}

/* Into x->value; found->version 0: absent. */
static enum muster_status read_value(struct mu_exchange *x, const struct mu_key *key, struct mu_found *ret_found)
{
    struct mu_table t = mu_table_kv(x->seg);

    for (;;) {
        enum muster_status status = mu_table_get(&t, x->ctx, key, x->value, x->capacity, ret_found);

        if (status || !ret_found->version || ret_found->len <= x->capacity)
            return status;
        free(x->value);
        x->capacity = ret_found->len;
        x->value = malloc(x->capacity);
        if (!x->value) {
            x->capacity = 0;
            return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: no memory for %zu bytes", x->what, ret_found->len);
        }
    }
}

/* ---- giving ------------------------------------------------------------------------------------------------------ */

/*
 * Ours is put where none is, or where another process of the task, which is no more, left one that nobody has been
 * given yet. The same once more changes nothing.
 */
enum mu_verdict mu_giving_judge(struct mu_exchange *x, uint64_t version, const void *old, size_t old_len,
                                enum muster_status *ret_status)
{
    const struct local_head *mine = x->given;
    struct local_head there;

    x->version = version;
    if (!version)
        return MU_PUT;
    if (old_len >= sizeof there) {
        memcpy(&there, old, sizeof there);
        if (there.form == mine->form && old_len == x->given_size &&
            !memcmp((const uint8_t *)old + sizeof there, mine + 1, x->given_size - sizeof there))
            return MU_KEEP;
        if (there.incarnation != mine->incarnation && !x->outcome_there)
            return MU_PUT;
    }
    *ret_status = mu_fail(MUSTER_FAILED_PRECONDITION,
                          "%s: task %u has given another local topology before: a name serves once", x->what, x->task);
    return MU_KEEP;
}

static enum mu_verdict put_local(struct mu_edit *e)
{
    return mu_giving_judge(e->arg, e->version, e->old, e->old_len, &e->status);
}

static enum muster_status local_give(struct mu_exchange *x)
{
    struct mu_table t = mu_table_kv(x->seg);
    struct mu_edit e = {.arg = x, .value = x->given, .len = x->given_size};

    enum muster_status status;

    x->outcome_there = is_there(x, &x->global);
    status = mu_table_edit(&t, x->ctx, &x->own, MU_EDIT_WANTS_OLD, put_local, &e, &x->version);
    mu_bell_ring(x->seg);
    return status;
}

/* ---- making the outcome ------------------------------------------------------------------------------------------ */

void mu_givens_done(struct mu_givens *l)
{
    for (uint32_t i = 0; l->values && i < l->count; i++)
        free(l->values[i]);
    free(l->values);
    free(l->bytes);
    free(l->sizes);
    free(l->versions);
}

enum muster_status mu_givens_begin(const struct mu_exchange *x, struct mu_givens *l)
{
    uint32_t n = l->count = x->seg->num_tasks;

    l->values = calloc(n, sizeof *l->values);
    l->bytes = calloc(n, sizeof *l->bytes);
    l->sizes = calloc(n, sizeof *l->sizes);
    l->versions = calloc(n, sizeof *l->versions);
    if (!l->values || !l->bytes || !l->sizes || !l->versions)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: no memory for %u local topologies", x->what, n);
    return MUSTER_OK;
}

/* With x->next below the end: that one is not there any more; somebody deletes our keys. */
static enum muster_status read_locals(struct mu_exchange *x, struct mu_givens *l)
{
    enum muster_status begun = mu_givens_begin(x, l);

    for (uint32_t i = 0; i < l->count && !begun; i++) {
        struct mu_found f;
        struct mu_key key;
        enum muster_status status = local_key(x, i, &key);

        if (!status)
            status = read_value(x, &key, &f);
        if (!status && !f.version)
            x->next = i;
        if (status || !f.version)
            return status;
        if (f.len < sizeof(struct local_head))
            return mu_fail(MUSTER_DATA_LOSS, "%s: what task %u gave was overwritten by somebody", x->what, i);
        l->values[i] = x->value;
        l->bytes[i] = (const uint8_t *)x->value + sizeof(struct local_head);
        l->sizes[i] = f.len - sizeof(struct local_head);
        l->versions[i] = f.version;
        x->value = NULL;
        x->capacity = 0;
    }
    return begun;
}

/* The global topology of what was read. */
static enum muster_status outcome_number(const struct mu_exchange *x, const struct mu_givens *l, void **ret_bytes,
                                         size_t *ret_size)
{
    const struct local_head *first = l->values[0];

    for (uint32_t i = 1; i < l->count; i++) {
        const struct local_head *head = l->values[i];
        const char *one = mu_form_name((enum muster_topology_form)first->form);
        const char *other = mu_form_name((enum muster_topology_form)head->form);

        if (head->form != first->form)
            return mu_fail(MUSTER_INVALID_ARGUMENT, "%s: task 0 gave the form of %s, task %u that of %s", x->what,
                           one ? one : "?", i, other ? other : "?");
    }
    return muster_topology_global((enum muster_topology_form)first->form, l->bytes, l->sizes, l->count, ret_bytes,
                                  ret_size);
}

static enum mu_verdict put_first(struct mu_edit *e)
{
    return e->version ? MU_KEEP : MU_PUT;
}

enum muster_status mu_giving_compose(const struct mu_exchange *x, const struct mu_givens *l, void **ret_value,
                                     size_t *ret_len)
{
    size_t versions = l->count * sizeof *l->versions, room = MUSTER_VALUE_MAX - sizeof(struct outcome_head) - versions;
    char sentence[1024];
    void *bytes = NULL;
    size_t size = 0;
    enum muster_status status = outcome_number(x, l, &bytes, &size);
    struct outcome_head head = {status, l->count};
    uint8_t *value;

    if (status && status != MUSTER_INVALID_ARGUMENT)
        return status;
    if (status)
        size = (size_t)snprintf(sentence, sizeof sentence, "%s", muster_last_error());
    if (size > room) {
        free(bytes);
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: the global topology has %zu bytes; %zu is the most", x->what,
                       size, room);
    }
    *ret_len = sizeof head + versions + size;
    *ret_value = value = malloc(*ret_len);
    if (value) {
        memcpy(value, &head, sizeof head);
        memcpy(value + sizeof head, l->versions, versions);
        memcpy(value + sizeof head + versions, status ? sentence : bytes, size);
    }
    free(bytes);
    return value ? MUSTER_OK : mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: no memory for %zu bytes", x->what, *ret_len);
}

/*
 * All have given: make the outcome. What is wrong with the locals is told to everybody; that we have no memory is our
 * own affair, and another may succeed.
 */
static enum muster_status exchange_settle(struct mu_exchange *x)
{
    struct mu_table t = mu_table_kv(x->seg);
    struct mu_edit e = {0};
    struct mu_givens l = {0};
    void *value = NULL;
    enum muster_status status = read_locals(x, &l);

    if (!status && x->next == l.count)
        status = mu_giving_compose(x, &l, &value, &e.len);
    if (!status && value) {
        e.value = value;
        status = mu_table_edit(&t, x->ctx, &x->global, 0, put_first, &e, NULL); /* the first one counts */
        mu_bell_ring(x->seg);
    }
    free(value);
    mu_givens_done(&l);
    return status;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* x->value is an outcome of `len` bytes. */
enum muster_status mu_giving_deliver(struct mu_exchange *x, size_t len, void **ret_global, size_t *ret_size)
{
    struct outcome_head head = {0};
    size_t at = sizeof head + x->seg->num_tasks * sizeof(uint64_t);
    uint64_t version = 0;
    uint8_t *value = x->value;

    if (len >= at) {
        memcpy(&head, value, sizeof head);
        memcpy(&version, value + sizeof head + x->task * sizeof version, sizeof version);
    }
    if (len < at || head.num_tasks != x->seg->num_tasks || head.status > MUSTER_DATA_LOSS)
        return mu_fail(MUSTER_DATA_LOSS, "%s: the global topology was overwritten by somebody", x->what);
    if (version != x->version)
        return mu_fail(
            MUSTER_FAILED_PRECONDITION,
            "%s: the others have what an earlier process of task %u gave, and that was another local topology", x->what,
            x->task);
    if (head.status)
        return mu_fail((enum muster_status)head.status, "%.*s", (int)(len - at < 1000 ? len - at : 1000), value + at);
    memmove(value, value + at, len - at);
    x->value = NULL;
    *ret_global = value;
    *ret_size = len - at;
    return MUSTER_OK;
}

/* A task that left before all had theirs will not come; that does not hold for tasks that may come again. */
static bool has_left(const struct mu_task_record *r)
{
    return mu_cluster_is_over(r) || (r->state == MUSTER_TASK_DISCONNECTED && r->attempt &&
                                     !(r->flags & (MU_TASK_RECOVERABLE | MU_TASK_TRANSIENT)));
}

enum muster_status mu_giving_look_for_failure(struct mu_exchange *x)
{
    struct mu_cluster c;
    char name[MU_NAME_MAX], end[MU_DOING_MAX];
    enum muster_status status = mu_cluster_error(x->seg, x->what);

    if (!status)
        status = mu_cluster_look(x->seg, &c);
    if (status || c.root.version == x->tasks_version)
        return status;
    if (!x->records)
        x->records = calloc(x->seg->num_tasks, sizeof *x->records);
    if (!x->records)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "%s: no memory for %u tasks", x->what, x->seg->num_tasks);
    status = mu_cluster_all(x->seg, x->records, NULL, &c);
    for (uint32_t i = 0; i < x->seg->num_tasks && !status; i++)
        if (has_left(&x->records[i])) {
            mu_cluster_name(x->seg, i, &x->records[i], name, sizeof name);
            status =
                mu_fail(MUSTER_UNAVAILABLE, "%s: %s %s", x->what, name,
                        mu_cluster_is_over(&x->records[i]) ? mu_cluster_end(&x->records[i], end) : "has left the job");
        }
    if (!status)
        x->tasks_version = c.root.version;
    return status;
}

static bool all_have_given(struct mu_exchange *x)
{
    struct mu_key key;

    while (x->next < x->seg->num_tasks && !local_key(x, x->next, &key) && is_there(x, &key))
        x->next++;
    return x->next == x->seg->num_tasks;
}

/* Replaces the sentence of a deadline that has passed. */
static enum muster_status name_missing(struct mu_exchange *x)
{
    char text[600] = "";
    size_t n = 0;
    uint32_t missing = 0;

    for (uint32_t i = x->next; i < x->seg->num_tasks; i++) {
        struct mu_task_record r;
        struct mu_cluster c;
        struct mu_key key;
        char name[MU_NAME_MAX], text_of[MU_DOING_MAX];
        const char *doing;

        if (local_key(x, i, &key) || is_there(x, &key) || ++missing > NAMED_MISSING ||
            mu_cluster_task(x->seg, i, &r, NULL, &c))
            continue;
        mu_cluster_name(x->seg, i, &r, name, sizeof name);
        doing = mu_cluster_doing(x->seg, i, &r, text_of);
        n += (size_t)snprintf(text + n, sizeof text - n, "; %s: %s%s", name, doing,
                              doing[0] == 'r' ? ", has not come to the exchange" : "");
    }
    return mu_fail(MUSTER_DEADLINE_EXCEEDED, "%s: the deadline passed, and %u of %u tasks are missing%s%s", x->what,
                   missing, x->seg->num_tasks, text, missing > NAMED_MISSING ? "; ..." : "");
}

static enum muster_status wait_for_outcome(struct mu_exchange *x, muster_deadline deadline, void **ret_global,
                                           size_t *ret_size)
{
    struct mu_table t = mu_table_kv(x->seg);
    struct mu_found f;
    struct mu_wait w;
    enum muster_status failure = MUSTER_OK, status;

    mu_wait_begin(&w, x->seg, x->ctx, deadline, x->what);
    for (;;) {
        mu_wait_look(&w);
        status = read_value(x, &x->global, &f);
        if (!status && f.version)
            status = mu_giving_deliver(x, f.len, ret_global, ret_size);
        if (status || f.version)
            break;
        if (failure) {
            status = failure;
            break;
        }
        failure = mu_giving_look_for_failure(x);
        if (failure)
            continue; /* a task that left or died may have had the outcome: look once more whether it is there by now */
        if (all_have_given(x))
            status = exchange_settle(x);
        else if (!is_there(x, &x->own))
            status = local_give(x); /* somebody has deleted it */
        else
            status = mu_wait_on(&w, mu_table_bucket(&t, &x->global), f.word);
        if (status)
            break;
    }
    mu_wait_end(&w);
    return status == MUSTER_DEADLINE_EXCEEDED ? name_missing(x) : status;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

static enum muster_status take_local(struct mu_exchange *x, uint64_t incarnation, enum muster_topology_form form,
                                     const void *local, size_t size)
{
    struct local_head head = {.form = form, .incarnation = incarnation};

    if (!mu_form_name(form))
        return mu_fail(MUSTER_INVALID_ARGUMENT, "%d is no form of the topology messages", (int)form);
    if ((!local && size) || size > MUSTER_VALUE_MAX - sizeof head)
        return mu_fail(MUSTER_INVALID_ARGUMENT, "a local topology of %zu bytes%s; %zu is the most", size,
                       local ? "" : " at NULL", MUSTER_VALUE_MAX - sizeof head);
    x->given_size = sizeof head + size;
    x->given = malloc(x->given_size);
    if (!x->given)
        return mu_fail(MUSTER_RESOURCE_EXHAUSTED, "no memory for a local topology of %zu bytes", size);
    memcpy(x->given, &head, sizeof head);
    if (size)
        memcpy((uint8_t *)x->given + sizeof head, local, size);
    return MUSTER_OK;
}

enum muster_status mu_topology_exchange(struct muster *m, int32_t task_id, uint64_t incarnation, const char *name,
                                        enum muster_topology_form form, const void *local, size_t local_size,
                                        muster_deadline deadline, void **ret_global, size_t *ret_size)
{
    struct mu_exchange x = {.name = name ? name : "default", .task = (uint32_t)task_id, .tasks_version = UINT64_MAX};
    bool remote = false;
    enum muster_status status = mu_enter(m, &x.ctx);

    if (status)
        return status;
    x.seg = m->seg;
    if (task_id < 0 || x.task >= x.seg->num_tasks)
        status = mu_fail(MUSTER_INVALID_ARGUMENT, "task %d; job %s has tasks 0 to %u", task_id, x.seg->job,
                         x.seg->num_tasks - 1);
    if (!status)
        status = make_keys(&x);
    if (!status)
        status = take_local(&x, incarnation, form, local, local_size);
    remote = mu_is_follower(x.seg);
    if (!status && !remote)
        status = local_give(&x);
    if (!status && !remote)
        status = wait_for_outcome(&x, deadline, ret_global, ret_size);
    mu_exit(x.ctx);
    if (!status && remote)
        status = mu_giving_remote(m, &x, deadline, ret_global, ret_size);
    free(x.given);
    free(x.records);
    free(x.value);
    return status;
}

enum muster_status muster_topology_exchange(struct muster *muster, const char *name, enum muster_topology_form form,
                                            const void *local, size_t local_size, muster_deadline deadline,
                                            void **ret_global, size_t *ret_size)
{
    if (muster && muster_task_id(muster) < 0)
        return mu_fail(MUSTER_FAILED_PRECONDITION, "an observer has no local topology to give");
    return mu_topology_exchange(muster, muster ? muster_task_id(muster) : 0, muster ? muster_incarnation(muster) : 0,
                                name, form, local, local_size, deadline, ret_global, ret_size);
}
