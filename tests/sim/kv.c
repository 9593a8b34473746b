/*
 * tests/sim/kv.c: the key-value store under every operation, with values in the page, in a block and in parts.
 *
 * Oracle: the history is linearizable, exact to the versions, with the killed ones' operations done or not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv/key.h"
#include "lin.h"
#include "sim.h"

enum style { MIXED, COUNTING, PARTS };
enum { COUNTER = 2 /* the key of numbers */ };
#define BUFFER (1u << 20)

static struct lin_history history;
static enum style style;
static uint32_t ops_each;
static const char *const keys[LIN_KEYS] = {"a", "directory/b", "n"};

static struct lin_op *begin(enum lin_kind kind, uint32_t key)
{
    static const char *const names[] = {"set", "insert", "cas", "append", "add", "delete", "get", "list", "count"};
    struct lin_op *o = &history.ops[history.count];

    if (history.count == LIN_OPS)
        sim_fail("the history is full");
    history.count++;
    memset(o, 0, sizeof *o);
    o->kind = kind;
    o->key = key;
    o->task = sim_self() ? sim_self()->number : 99;
    if (sim_self())
        sim_begin("%s %s", names[kind], keys[key]);
    o->began = sim_stamp();
    return o;
}

static void end(struct lin_op *o, enum muster_status status)
{
    if (sim_self())
        sim_end(status);
    o->status = status;
    o->done = true;
    o->ended = sim_stamp();
}

/* A length in bytes, of whole words: in the page, outside, or in parts. */
static uint32_t draw_length(void)
{
    if (style == PARTS && sim_chance(2))
        return 66000 + 8 * (uint32_t)sim_random(50);
    if (sim_chance(4))
        return 8 * (uint32_t)(60 + sim_random(60));
    return sim_chance(4) ? 0 : 8 * (uint32_t)sim_random(12);
}

static uint64_t make_value(uint64_t *words, uint32_t len, struct lin_value *v)
{
    uint64_t seed = sim_random(UINT64_MAX);

    for (uint32_t i = 0; i < len / 8; i++)
        words[i] = lin_word(seed, i);
    *v = (struct lin_value){.hash = lin_hash(LIN_EMPTY, words, len / 8), .len = len};
    return seed;
}

/* What bytes that were read stand for. */
static struct lin_value understand(uint32_t key, const void *bytes, size_t len, uint64_t version)
{
    struct lin_value v = {.version = version};

    if (key == COUNTER) {
        char text[32] = "", *rest;

        SIM_CHECK(len && len < sizeof text, "a number of %zu bytes", len);
        memcpy(text, bytes, len);
        v.hash = (uint64_t)strtoll(text, &rest, 10);
        SIM_CHECK(!*rest, "not a number: %s", text);
        return v;
    }
    SIM_CHECK(len % 8 == 0, "a value of %zu bytes", len);
    v.hash = LIN_EMPTY;
    for (size_t i = 0; i < len / 8; i++) {
        uint64_t word;

        memcpy(&word, (const char *)bytes + 8 * i, 8);
        v.hash = lin_hash(v.hash, &word, 1);
    }
    v.len = (uint32_t)len;
    return v;
}

/* Three ways of looking: without a slot, with one (which may pin), and into memory that is made for the value. */
static void get(struct muster *m, uint32_t key, void *buffer)
{
    struct lin_op *o = begin(LIN_GET, key);
    size_t len = 0;
    uint64_t version = 0;
    enum muster_status status;
    void *made = NULL;

    if (!sim_self() || sim_chance(2))
        status = muster_kv_try_get(m, keys[key], MUSTER_NTS, buffer, BUFFER, &len, &version);
    else if (sim_chance(2))
        status = muster_kv_get(m, keys[key], MUSTER_NTS, 1, buffer, BUFFER, &len, &version);
    else
        status = muster_kv_get_alloc(m, keys[key], MUSTER_NTS, 1, &made, &len, &version);
    if (status == MUSTER_DEADLINE_EXCEEDED)
        status = MUSTER_NOT_FOUND;
    SIM_CHECK(!status || status == MUSTER_NOT_FOUND, "get: %s", muster_last_error());
    if (!status)
        o->value = understand(key, made ? made : buffer, len, version);
    free(made);
    end(o, status);
}

static void list(struct muster *m)
{
    struct lin_op *o = begin(LIN_LIST, 0);
    struct muster_kv_list *l;
    enum muster_status status = muster_kv_get_dir(m, "", 0, &l);

    SIM_CHECK(!status, "get_dir: %s", muster_last_error());
    for (size_t i = 0; i < l->count; i++)
        for (uint32_t k = 0; k < LIN_KEYS; k++)
            if (!strcmp(l->entries[i].key, keys[k])) {
                SIM_CHECK(!o->list[k].version, "key %s is listed twice", keys[k]);
                o->list[k] = understand(k, l->entries[i].value, l->entries[i].value_len, l->entries[i].version);
            }
    muster_kv_list_free(l);
    end(o, status);
}

static void change(struct muster *m, enum lin_kind kind, uint32_t key, uint64_t *words)
{
    struct lin_op *o = begin(kind, key);
    enum muster_status status;
    uint32_t len = draw_length();
    uint64_t seed;

    if (key == COUNTER) {
        o->value = (struct lin_value){.hash = sim_random(1000)};
        len = (uint32_t)snprintf((char *)words, 32, "%llu", (unsigned long long)o->value.hash);
    } else {
        seed = make_value(words, len, &o->value);
        if (kind == LIN_APPEND)
            o->value.hash = seed;
    }
    if (kind == LIN_SET) {
        status = muster_kv_set(m, keys[key], MUSTER_NTS, words, len, &o->version);
    } else if (kind == LIN_INSERT) {
        status = muster_kv_insert(m, keys[key], MUSTER_NTS, words, len);
    } else if (kind == LIN_APPEND) {
        size_t total = 0;

        status = muster_kv_append(m, keys[key], MUSTER_NTS, words, len, &total);
        o->number = total;
    } else {
        for (uint32_t i = 0; i < history.count; i++) /* what somebody found lately: likely right, likely stale */
            if (history.ops[i].key == key && history.ops[i].done && !sim_chance(4))
                o->expected = history.ops[i].kind == LIN_GET ? history.ops[i].value.version : history.ops[i].version;
        status = muster_kv_compare_and_set(m, keys[key], MUSTER_NTS, o->expected, words, len, &o->version);
    }
    SIM_CHECK(!status || (kind == LIN_INSERT && status == MUSTER_ALREADY_EXISTS) ||
                  (kind == LIN_CAS && status == MUSTER_ABORTED),
              "%s", muster_last_error());
    end(o, status);
}

static void add(struct muster *m)
{
    struct lin_op *o = begin(LIN_ADD, COUNTER);
    int64_t sum = 0;
    enum muster_status status;

    o->by = 1 + (int64_t)sim_random(3);
    status = muster_kv_increment(m, keys[COUNTER], MUSTER_NTS, o->by, &sum);
    SIM_CHECK(!status, "increment: %s", muster_last_error());
    o->number = (uint64_t)sum;
    end(o, status);
}

static void remove_key(struct muster *m, uint32_t key)
{
    struct lin_op *o = begin(LIN_DELETE, key);
    size_t gone = 0;
    bool whole = key == 1 && sim_chance(2); /* the directory that holds nothing else */
    enum muster_status status = muster_kv_delete(m, whole ? "directory" : keys[key], MUSTER_NTS, &gone);

    SIM_CHECK(!status, "delete: %s", muster_last_error());
    o->number = gone;
    end(o, status);
}

static void step(struct muster *m, void *buffer)
{
    uint32_t key = (uint32_t)sim_random(LIN_KEYS), what = (uint32_t)sim_random(20);

    if (style == COUNTING)
        key = COUNTER;
    if (style == PARTS)
        key %= 2;
    if (what < 4) {
        get(m, key, buffer);
    } else if (what < 6 && style != COUNTING) {
        remove_key(m, key);
    } else if (what == 6 && style == MIXED) {
        list(m);
    } else if (what == 7 && style == MIXED) {
        struct lin_op *o = begin(LIN_COUNT, 0);
        size_t n = 0;
        enum muster_status status = muster_kv_count(m, "", 0, &n);

        SIM_CHECK(!status, "count: %s", muster_last_error());
        o->number = n;
        end(o, status);
    } else if (key == COUNTER && (style == COUNTING || what > 12)) {
        add(m);
    } else {
        static const uint8_t kinds[] = {LIN_SET, LIN_SET, LIN_INSERT, LIN_CAS, LIN_CAS, LIN_APPEND};
        enum lin_kind kind = (enum lin_kind)kinds[sim_random(sizeof kinds)];

        change(m, kind == LIN_APPEND && key == COUNTER ? LIN_SET : kind, key, buffer);
    }
}

static void client(struct sim_task *t)
{
    void *buffer = malloc(BUFFER);

    sim_handle(t, -1);
    for (uint32_t i = 0; i < ops_each; i++)
        step(&t->handle, buffer);
    free(buffer);
}

static void start(enum style s, uint32_t tasks, uint32_t ops)
{
    history.count = 0;
    style = s;
    ops_each = ops;
    for (uint32_t k = 0; k < LIN_KEYS; k++) {
        struct mu_table t = mu_table_kv(&sim_segment);
        struct mu_key key;

        mu_kv_key(&sim_segment, keys[k], strlen(keys[k]), &key);
        history.bucket[k] = (uint32_t)(mu_table_bucket(&t, &key) - t.buckets);
    }
    for (int b = 0; b < 2; b++)
        history.commits[b] = MU_WORD_TAG(sim_segment.buckets[b]);
    for (uint32_t i = 0; i < tasks; i++)
        sim_add(client, -1, NULL);
}

static void start_mixed(void)
{
    sim_fate.kills = (uint32_t)sim_random(4);
    start(MIXED, 2 + (uint32_t)sim_random(3), 2 + (uint32_t)sim_random(4));
}

static void start_counting(void)
{
    sim_fate.kills = (uint32_t)sim_random(4);
    start(COUNTING, 2 + (uint32_t)sim_random(3), 3 + (uint32_t)sim_random(4));
}

static void start_parts(void)
{
    start(PARTS, 2 + (uint32_t)sim_random(2), 2 + (uint32_t)sim_random(2));
}

static void finish(void)
{
    struct sim_task self;
    void *buffer = malloc(BUFFER);
    uint64_t now = sim_stamp();

    for (uint32_t i = 0; i < history.count; i++) /* an operation that was cut off happened before its end, or not */
        if (!history.ops[i].done)
            history.ops[i].ended = sim_task(history.ops[i].task)->died ? sim_task(history.ops[i].task)->died : now;
    sim_handle(&self, -1);
    for (uint32_t k = 0; k < LIN_KEYS; k++)
        get(&self.handle, k, buffer);
    list(&self.handle);
    mu_handle_detach_thread(&self.handle);
    sim_totals.histories++;
    if (!lin_check(&history)) {
        lin_print(&history);
        sim_fail("the history is not linearizable");
    }
}

const struct sim_workload sim_kv = {.name = "kv", .config = {.num_buckets = 2}, .start = start_mixed, .finish = finish};
const struct sim_workload sim_counter = {
    .name = "counter", .config = {.num_buckets = 2}, .start = start_counting, .finish = finish};
const struct sim_workload sim_parts = {
    .name = "parts", .config = {.num_buckets = 2, .heap_bytes = 4u << 20}, .start = start_parts, .finish = finish};
