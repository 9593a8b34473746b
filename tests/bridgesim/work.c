/*
 * tests/bridgesim/work.c: what the tasks do, and what must hold of it.
 *
 * Counters, appends, compare-and-sets and insertions happen as often as they were acknowledged, or once more for each
 * whose outcome the caller was not told (I11). Every value of the causal keys says which versions of all these keys
 * its writer had seen: who reads it must not read anything older afterwards, and no key ever goes back (I10). When all
 * is quiet, what followers hold is what the leader holds.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { COUNTERS = 3, LOGS = 2, CELLS = 2, NAMES = 40, LOG_MAX = 4096, BARRIERS = 6 };

struct causal {
    uint64_t known[SIM_KEYS];
    uint32_t writer, op;
};

static struct {
    int64_t counted[COUNTERS], unsure_counts[COUNTERS];
    uint8_t appended[LOGS][SIM_TASKS][256]; /* by the task's operation: 1 acknowledged, 2 not known */
    int64_t swapped[CELLS], unsure_swaps[CELLS];
    uint32_t winners[NAMES], tries[NAMES], unsure_inserts[NAMES];
    uint32_t came[BARRIERS], passed[BARRIERS], failed[BARRIERS];
    uint64_t before[BARRIERS][SIM_KEYS]; /* what some participant had seen when it came */
} truth;

bool sim_has(enum mu_op op)
{
    for (size_t i = 0; i < mu_op_kinds_count; i++)
        if (mu_op_kinds[i].op == op)
            return true;
    return false;
}

static void doing(struct sim_task *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void doing(struct sim_task *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(t->doing, sizeof t->doing, format, args);
    va_end(args);
    sim_say("task %u: %s", t->id, t->doing);
    sim_totals.operations++;
}

/* Whether it was done; unsure: nobody can say. What else may come of a call is a failure of the bridge. */
static bool was_done(struct sim_task *t, enum muster_status status, bool *ret_unsure)
{
    *ret_unsure = status == MUSTER_UNAVAILABLE || status == MUSTER_CANCELLED || status == MUSTER_DEADLINE_EXCEEDED;
    if (status != MUSTER_OK && !*ret_unsure)
        sim_fail("task %u, %s: %s: %s", t->id, t->doing, muster_status_name(status), muster_last_error());
    sim_totals.unsure += *ret_unsure;
    return status == MUSTER_OK;
}

/* ---- exactly once ------------------------------------------------------------------------------------------------ */

static void count_up(struct sim_task *t)
{
    uint32_t k = (uint32_t)sim_random(COUNTERS);
    char key[16];
    int64_t value;
    bool unsure;

    snprintf(key, sizeof key, "count/%u", k);
    doing(t, "counts %s up", key);
    truth.unsure_counts[k]++; /* until it is known; so for one who dies on the way */
    if (was_done(t, muster_kv_increment(t->m, key, MUSTER_NTS, 1, &value), &unsure)) {
        truth.counted[k]++;
        SIM_CHECK(value <= truth.counted[k] + truth.unsure_counts[k],
                  "task %u: %s is %lld, and it was counted up %lld times at most", t->id, key, (long long)value,
                  (long long)(truth.counted[k] + truth.unsure_counts[k]));
    }
    truth.unsure_counts[k] -= !unsure;
}

static void append(struct sim_task *t)
{
    uint32_t k = (uint32_t)sim_random(LOGS), op = t->ops;
    char key[16], text[16];
    bool unsure;

    snprintf(key, sizeof key, "log/%u", k);
    snprintf(text, sizeof text, "%u.%u;", t->id, op);
    doing(t, "appends %s to %s", text, key);
    truth.appended[k][t->id][op] = 2;
    if (was_done(t, muster_kv_append(t->m, key, MUSTER_NTS, text, MUSTER_NTS, NULL), &unsure))
        truth.appended[k][t->id][op] = 1;
}

static void swap(struct sim_task *t)
{
    uint32_t k = (uint32_t)sim_random(CELLS);
    int64_t value = 0;
    uint64_t version = 0;
    enum muster_status status;
    char key[16];
    size_t len;
    bool unsure;

    snprintf(key, sizeof key, "cell/%u", k);
    doing(t, "swaps %s", key);
    status = muster_kv_try_get(t->m, key, MUSTER_NTS, &value, sizeof value, &len, &version);
    if (status == MUSTER_NOT_FOUND)
        value = 0, version = 0;
    else if (!was_done(t, status, &unsure))
        return;
    value++;
    truth.unsure_swaps[k]++;
    status = muster_kv_compare_and_set(t->m, key, MUSTER_NTS, version, &value, sizeof value, NULL);
    if (status == MUSTER_ABORTED)
        unsure = false;
    else if (was_done(t, status, &unsure))
        truth.swapped[k]++;
    truth.unsure_swaps[k] -= !unsure;
}

static void insert(struct sim_task *t)
{
    uint32_t k = (uint32_t)sim_random(NAMES);
    enum muster_status status;
    char key[16];
    bool unsure;

    snprintf(key, sizeof key, "name/%u", k);
    doing(t, "inserts %s", key);
    truth.tries[k]++;
    truth.unsure_inserts[k]++;
    status = muster_kv_insert(t->m, key, MUSTER_NTS, &t->id, sizeof t->id);
    if (status == MUSTER_ALREADY_EXISTS)
        unsure = false;
    else
        truth.winners[k] += was_done(t, status, &unsure);
    truth.unsure_inserts[k] -= !unsure;
    SIM_CHECK(truth.winners[k] <= 1, "key %s was inserted %u times", key, truth.winners[k]);
}

/* ---- causality --------------------------------------------------------------------------------------------------- */

static void learn(struct sim_task *t, uint32_t k, uint64_t version, const uint64_t *known)
{
    for (uint32_t i = 0; known && i < SIM_KEYS; i++)
        t->known[i] = known[i] > t->known[i] ? known[i] : t->known[i];
    SIM_CHECK(version >= t->known[k], "task %u, %s: it has version %" PRIu64 ", and knows of %" PRIu64, t->id, t->doing,
              version, t->known[k]);
    t->known[k] = version;
}

static void write_causal(struct sim_task *t)
{
    uint32_t k = (uint32_t)sim_random(SIM_KEYS);
    struct causal c = {.writer = t->id, .op = t->ops};
    uint64_t version;
    char key[16];
    bool unsure;

    snprintf(key, sizeof key, "v/%u", k);
    doing(t, "writes %s", key);
    memcpy(c.known, t->known, sizeof c.known);
    if (was_done(t, muster_kv_set(t->m, key, MUSTER_NTS, &c, sizeof c, &version), &unsure))
        learn(t, k, version, NULL);
}

static void read_causal(struct sim_task *t, bool waits)
{
    uint32_t k = (uint32_t)sim_random(SIM_KEYS);
    struct causal c;
    uint64_t version;
    enum muster_status status;
    char key[16];
    size_t len;
    bool unsure;

    snprintf(key, sizeof key, "v/%u", k);
    doing(t, "%s %s", waits ? "waits for" : "reads", key);
    sim_totals.reads++;
    if (waits) {
        uint64_t deadline = sim_clock(t->host) + 50000000;

        status = muster_kv_get(t->m, key, MUSTER_NTS, deadline, &c, sizeof c, &len, &version);
        SIM_CHECK(status != MUSTER_DEADLINE_EXCEEDED || sim_clock(t->host) >= deadline, "task %u, %s: too early", t->id,
                  t->doing);
    } else {
        status = muster_kv_try_get(t->m, key, MUSTER_NTS, &c, sizeof c, &len, &version);
    }
    if (status == MUSTER_NOT_FOUND) {
        SIM_CHECK(!t->known[k], "task %u: key %s is gone, and it knows of version %" PRIu64, t->id, key, t->known[k]);
        return;
    }
    if (was_done(t, status, &unsure)) {
        SIM_CHECK(len == sizeof c, "task %u: the value of %s has %zu bytes", t->id, key, len);
        SIM_CHECK(version >= t->known[k], "task %u, %s: it has version %" PRIu64 ", and knows of %" PRIu64, t->id,
                  t->doing, version, t->known[k]);
        learn(t, k, version, c.known);
    }
}

static void come_and_go(struct sim_task *t)
{
    uint32_t k = (uint32_t)sim_random(4);
    char key[16];
    bool unsure;

    snprintf(key, sizeof key, "dir/%u", k);
    doing(t, "sets and deletes %s", key);
    if (sim_chance(2))
        was_done(t, muster_kv_set(t->m, key, MUSTER_NTS, &t->ops, sizeof t->ops, NULL), &unsure);
    else
        was_done(t, muster_kv_delete(t->m, key, MUSTER_NTS, NULL), &unsure);
}

static void list(struct sim_task *t)
{
    struct muster_kv_list *found = NULL;
    size_t count;
    bool unsure;

    doing(t, "lists the counters");
    if (was_done(t, muster_kv_get_dir(t->m, "count", MUSTER_NTS, &found), &unsure)) {
        SIM_CHECK(muster_kv_count(t->m, "count", MUSTER_NTS, &count) || count <= COUNTERS, "%zu counters", count);
        muster_kv_list_free(found);
    }
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

/* The leader's tasks are quicker than the others, whose first arrival is what begins a barrier's time. */
static void dawdle(struct sim_task *t)
{
    uint64_t deadline = sim_clock(t->host) + 500000000;
    char byte;

    doing(t, "dawdles");
    if (muster_kv_get(t->m, "never", MUSTER_NTS, deadline, &byte, 1, NULL, NULL) == MUSTER_DEADLINE_EXCEEDED)
        SIM_CHECK(sim_clock(t->host) >= deadline, "task %u, %s: too early", t->id, t->doing);
}

static void meet(struct sim_task *t, uint32_t n)
{
    enum muster_status status;
    char id[16];

    if (sim_clocks && t->host == 0 && n % 2)
        dawdle(t);
    snprintf(id, sizeof id, "meeting/%u", n);
    doing(t, "comes to %s", id);
    truth.came[n]++;
    for (uint32_t k = 0; k < SIM_KEYS; k++)
        if (t->known[k] > truth.before[n][k])
            truth.before[n][k] = t->known[k];
    /* an hour is more than a run has, and less than clocks are apart */
    status = muster_barrier_wait(t->m, id, 0, NULL, 0, n % 2 ? 3600000000000u : 0, MUSTER_FOREVER);
    if (status == MUSTER_OK) {
        truth.passed[n]++;
        SIM_CHECK(truth.came[n] == sim.num_tasks, "task %u: %s is passed, and %u of %u have come", t->id, id,
                  truth.came[n], sim.num_tasks);
        for (uint32_t k = 0; k < SIM_KEYS; k++)
            if (truth.before[n][k] > t->known[k])
                t->known[k] = truth.before[n][k];
    } else {
        truth.failed[n]++;
        SIM_CHECK(sim.died, "task %u: %s failed, and nobody died: %s", t->id, id, muster_last_error());
    }
    SIM_CHECK(!truth.passed[n] || !truth.failed[n], "task %u: %s was passed by %u and failed for %u: %s", t->id, id,
              truth.passed[n], truth.failed[n], status ? muster_last_error() : "");
}

/* ---- a task ------------------------------------------------------------------------------------------------------ */

/* Nothing but an answer of the leader: what every fresh read begins with. */
static void synchronize(struct sim_task *t)
{
    struct mu_remote_call call = {.op = MU_OP_SYNC, .deadline = MUSTER_FOREVER, .what = "the leader"};
    struct mu_answer answer;
    struct mu_ctx *ctx;
    enum muster_status status;
    bool unsure;

    doing(t, "synchronizes");
    status = mu_enter(t->m, &ctx);
    if (!status) {
        status = mu_remote_call(t->m, ctx, &call, &answer);
        mu_answer_done(&answer);
        mu_exit(ctx);
    }
    was_done(t, status, &unsure);
}

static void one(struct sim_task *t)
{
    if (sim_chance(20) || !sim_has(MU_OP_KV_GET)) {
        synchronize(t);
        return;
    }
    switch (sim_random(10)) {
    case 0:
    case 1: count_up(t); break;
    case 2: append(t); break;
    case 3: swap(t); break;
    case 4: insert(t); break;
    case 5: write_causal(t); break;
    case 6: sim_chance(3) ? write_causal(t) : read_causal(t, true); break;
    case 7:
    case 8: read_causal(t, false); break;
    default: sim_chance(4) ? list(t) : come_and_go(t); break;
    }
}

static void join_job(struct sim_task *t)
{
    struct muster_options options;

    muster_options_init(&options);
    options.job = sim.hosts[t->host].name;
    options.task_id = (int32_t)t->id;
    options.flags = MUSTER_JOIN_NO_CREATE | MUSTER_JOIN_NO_HEARTBEAT;
    options.deadline = MUSTER_FOREVER;
    doing(t, "joins");
    if (muster_join(&options, &t->m) != MUSTER_OK)
        sim_fail("task %u cannot join: %s", t->id, muster_last_error());
}

void sim_work(struct sim_task *t)
{
    uint32_t every;

    join_job(t);
    every = t->ops_left / BARRIERS + 1;
    for (t->ops = 0; t->ops_left; t->ops++, t->ops_left--) {
        one(t);
        if (sim_has(MU_OP_BARRIER_WAIT) && t->ops % every == every - 1)
            meet(t, t->ops / every);
    }
    snprintf(t->doing, sizeof t->doing, "has ended");
}

void sim_work_start(void)
{
    memset(&truth, 0, sizeof truth);
}

/* ---- afterwards: what the leader holds --------------------------------------------------------------------------- */

/* By the leader's agent, which reads its own segment. */
static size_t held(const char *key, void *buffer, size_t size)
{
    size_t len = 0;
    enum muster_status status = muster_kv_try_get(sim.hosts[0].agent, key, MUSTER_NTS, buffer, size, &len, NULL);

    SIM_CHECK(status == MUSTER_OK || status == MUSTER_NOT_FOUND, "%s: %s", key, muster_last_error());
    return status ? 0 : len;
}

static void check_between(const char *key, int64_t value, int64_t sure, int64_t unsure)
{
    SIM_CHECK(value >= sure && value <= sure + unsure,
              "%s is %lld: %lld changes were acknowledged, %lld more may have been made", key, (long long)value,
              (long long)sure, (long long)unsure);
}

static void check_log(uint32_t k)
{
    static char text[LOG_MAX * 16];
    uint8_t seen[SIM_TASKS][256] = {{0}};
    char key[16];
    size_t len;

    snprintf(key, sizeof key, "log/%u", k);
    len = held(key, text, sizeof text - 1);
    text[len] = 0;
    for (char *at = text; *at;) {
        uint32_t id, op;
        int n = 0;

        SIM_CHECK(sscanf(at, "%u.%u;%n", &id, &op, &n) == 2 && n && id < SIM_TASKS && op < 256, "%s holds '%.20s'", key,
                  at);
        SIM_CHECK(!seen[id][op]++, "%s: %u.%u was appended twice", key, id, op);
        SIM_CHECK(truth.appended[k][id][op], "%s: %u.%u was never appended", key, id, op);
        at += n;
    }
    for (uint32_t id = 0; id < SIM_TASKS; id++)
        for (uint32_t op = 0; op < 256; op++)
            SIM_CHECK(truth.appended[k][id][op] != 1 || seen[id][op], "%s: %u.%u was acknowledged, and is not there",
                      key, id, op);
}

static enum muster_status see_copy(void *arg, const struct mu_item *item)
{
    struct sim_host *h = arg;
    struct mu_table t = mu_table_kv(sim.hosts[0].seg);
    struct mu_ctx *ctx;
    struct mu_found f;
    static uint8_t value[LOG_MAX * 16];
    struct mu_key k;

    mu_key_make(&k, sim.hosts[0].seg, item->key, item->key_len);
    SIM_CHECK(mu_handle_context(sim.hosts[0].agent, &ctx) == MUSTER_OK &&
                  mu_table_get(&t, ctx, &k, value, sizeof value, &f) == MUSTER_OK,
              "the leader's %.*s: %s", (int)item->key_len, item->key, muster_last_error());
    SIM_CHECK(f.version == item->version && f.len == item->len && !memcmp(value, item->value, f.len),
              "%s holds %.*s of version %" PRIu64 ", %zu bytes; the leader holds version %" PRIu64 ", %zu bytes",
              h->name, (int)item->key_len, item->key, item->version, item->len, f.version, f.len);
    return MUSTER_OK;
}

/* A follower's copies are the leader's values; nothing that went is left. */
static void check_copies(uint32_t host)
{
    struct sim_host *h = &sim.hosts[host];
    struct mu_table t = mu_table_kv(h->seg);
    struct mu_walk walk = {.visit = see_copy, .arg = h};
    struct mu_bucket_info info;
    struct mu_ctx *ctx;

    SIM_CHECK(mu_enter(h->agent, &ctx) == MUSTER_OK, "host %u: %s", host, muster_last_error());
    for (uint32_t b = 0; b < h->seg->num_buckets; b++)
        SIM_CHECK(mu_table_walk(&t, ctx, b, &walk, &info) == MUSTER_OK, "host %u: %s", host, muster_last_error());
    mu_exit(ctx);
}

static bool is_record(void *arg, uint64_t id, uint64_t number)
{
    (void)id;
    (void)number;
    ++*(uint32_t *)arg;
    return false;
}

/* Nobody has anything open, so nothing is kept for calls that were done. */
static void check_records(void)
{
    struct sim_host *h = &sim.hosts[0];
    struct mu_table t = mu_table_kv(h->seg);
    struct mu_ctx *ctx;
    uint32_t count = 0;

    SIM_CHECK(mu_enter(h->agent, &ctx) == MUSTER_OK, "the leader: %s", muster_last_error());
    for (uint32_t b = 0; b < h->seg->num_buckets; b++) {
        struct mu_key k = {.hash = (uint64_t)b << 20};

        mu_table_forget(&t, ctx, &k, is_record, &count);
    }
    mu_exit(ctx);
    SIM_CHECK(!count, "%u records of calls are left", count);
}

static void report(void *arg, const char *sentence)
{
    sim_fail("%s: %s", (const char *)arg, sentence);
}

void sim_work_check(void)
{
    char key[16];
    int64_t value;

    for (uint32_t k = 0; k < COUNTERS; k++) {
        char digits[32] = "";

        snprintf(key, sizeof key, "count/%u", k);
        held(key, digits, sizeof digits - 1);
        check_between(key, strtoll(digits, NULL, 10), truth.counted[k], truth.unsure_counts[k]);
    }
    for (uint32_t k = 0; k < CELLS; k++) {
        snprintf(key, sizeof key, "cell/%u", k);
        value = 0;
        held(key, &value, sizeof value);
        check_between(key, value, truth.swapped[k], truth.unsure_swaps[k]);
    }
    for (uint32_t k = 0; k < NAMES; k++) {
        uint32_t owner;

        snprintf(key, sizeof key, "name/%u", k);
        value = held(key, &owner, sizeof owner) != 0;
        SIM_CHECK(value == (truth.tries[k] > truth.unsure_inserts[k] || value), "%s is not there", key);
        SIM_CHECK(!value || truth.winners[k] || truth.unsure_inserts[k], "%s is there, and nobody won", key);
        SIM_CHECK(value || !truth.winners[k], "%s was won, and is not there", key);
    }
    for (uint32_t k = 0; k < LOGS; k++)
        check_log(k);
    for (uint32_t i = 1; i < sim.num_hosts; i++)
        check_copies(i);
    check_records();
    for (uint32_t i = 0; i < sim.num_hosts; i++) {
        struct muster_audit audit;

        SIM_CHECK(muster_segment_check(sim.hosts[i].seg, report, sim.hosts[i].name, &audit) == MUSTER_OK, "%s: %s",
                  sim.hosts[i].name, muster_last_error());
    }
}
