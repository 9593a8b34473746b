/*
 * tests/torture/kv.c: the store under torture: every operation, values from nothing to 2 MiB, each of which knows what
 * it must look like; counters and logs whose every increment and record is accounted for on the board.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torture.h"

static uint8_t buffer[VALUE_MAX + 64];
static uint64_t seen[DIRS][KEYS]; /* versions, in this incarnation */

struct place {
    unsigned dir, key;
    char name[32];
};

static struct place pick(void)
{
    struct place p = {.dir = (unsigned)draw(DIRS), .key = (unsigned)draw(KEYS)};

    snprintf(p.name, sizeof p.name, "t/%u/%u", p.dir, p.key);
    return p;
}

static size_t pick_len(void)
{
    switch (draw(200)) {
    case 0: return draw(VALUE_MAX);
    case 1: return draw(140000);
    case 2:
    case 3: return draw(9000);
    case 4:
    case 5: return draw(16);
    default: return 16 + draw(200);
    }
}

/* A key's versions never go back, not through delete and re-insert either. */
static void saw(const struct place *p, uint64_t version)
{
    if (version < seen[p->dir][p->key])
        violation("key %s went back from version %" PRIu64 " to %" PRIu64, p->name, seen[p->dir][p->key], version);
    seen[p->dir][p->key] = version;
}

static void check(const struct place *p, const uint8_t *value, size_t len)
{
    if (!value_is_whole(value, len))
        violation("key %s is torn (%zu bytes)", p->name, len);
}

static void do_set(void)
{
    struct place p = pick();
    size_t len = pick_len();
    uint64_t version;
    enum muster_status s;

    value_make(buffer, len, draw(UINT64_MAX));
    s = muster_kv_set(m, p.name, MUSTER_NTS, buffer, len, &version);
    expect(s, 0, "set");
    if (!s)
        saw(&p, version);
}

static void do_get(void)
{
    struct place p = pick();
    size_t len = 0;
    uint64_t version;
    enum muster_status s;

    if (draw(100)) {
        /* the large take their time: seldom, so that most deaths are at other things */
        s = muster_kv_try_get(m, p.name, MUSTER_NTS, buffer, draw(10) ? 4096 : sizeof buffer, &len, &version);
        expect(s, OR(NOT_FOUND) | OR(OUT_OF_RANGE), "try_get");
        if (!s)
            check(&p, buffer, len);
    } else {
        void *value;

        s = muster_kv_get_alloc(m, p.name, MUSTER_NTS, muster_after_ns(draw(3000000)), &value, &len, &version);
        expect(s, OR(DEADLINE_EXCEEDED), "get");
        if (!s) {
            check(&p, value, len);
            if (((char *)value)[len])
                violation("key %s is not followed by a NUL", p.name);
            free(value);
        }
    }
    if (!s)
        saw(&p, version);
}

static void do_dir(void)
{
    char dir[16];
    struct muster_kv_list *list;
    enum muster_status s;
    size_t count;

    snprintf(dir, sizeof dir, "t/%u", (unsigned)draw(DIRS));
    if (draw(8) == 0) {
        expect(muster_kv_count(m, dir, MUSTER_NTS, &count), 0, "count");
        return;
    }
    s = muster_kv_get_dir(m, dir, MUSTER_NTS, &list);
    expect(s, OR(ABORTED), "get_dir");
    if (s)
        return;
    for (size_t i = 0; i < list->count; i++) {
        const struct muster_kv_entry *e = &list->entries[i];

        if (!value_is_whole(e->value, e->value_len))
            violation("%s, listed in %s, is torn (%zu bytes)", e->key, dir, e->value_len);
        if (strncmp(e->key, dir, strlen(dir)) != 0 || (i && strcmp(e[-1].key, e->key) >= 0))
            violation("the listing of %s has %s out of place", dir, e->key);
    }
    muster_kv_list_free(list);
}

static void do_delete(void)
{
    struct place p = pick();
    size_t count;

    if (draw(20) == 0)
        snprintf(p.name, sizeof p.name, "t/%u", p.dir);
    expect(muster_kv_delete(m, p.name, MUSTER_NTS, &count), 0, "delete");
}

static void do_compare_and_set(void)
{
    struct place p = pick();
    size_t len = 16 + draw(400);
    uint64_t version = 0;
    enum muster_status s = muster_kv_try_get(m, p.name, MUSTER_NTS, NULL, 0, NULL, &version);

    expect(s, OR(NOT_FOUND) | OR(OUT_OF_RANGE), "try_get");
    if (s == MUSTER_NOT_FOUND)
        version = 0;
    value_make(buffer, len, draw(UINT64_MAX));
    s = muster_kv_compare_and_set(m, p.name, MUSTER_NTS, version, buffer, len, &version);
    expect(s, OR(ABORTED), "compare_and_set");
    if (!s)
        saw(&p, version);
}

static void do_watch(void)
{
    struct place p = pick();
    size_t len = 0;
    uint64_t version, after = seen[p.dir][p.key];
    enum muster_status s = muster_kv_watch(m, p.name, MUSTER_NTS, after, muster_after_ns(draw(3000000)), buffer,
                                           sizeof buffer, &len, &version);

    expect(s, OR(DEADLINE_EXCEEDED) | OR(NOT_FOUND), "watch");
    if (s)
        return;
    check(&p, buffer, len);
    if (version <= after)
        violation("a watch of %s after %" PRIu64 " got %" PRIu64, p.name, after, version);
    saw(&p, version);
}

static void do_increment(void)
{
    unsigned c = (unsigned)draw(COUNTERS);
    struct worker *w = &board->workers[self];
    char key[16];
    int64_t sum = 0;
    enum muster_status s;

    snprintf(key, sizeof key, "c/%u", c);
    atomic_fetch_add(&w->begun[c], 1);
    s = muster_kv_increment(m, key, MUSTER_NTS, 1, &sum);
    if (s == MUSTER_RESOURCE_EXHAUSTED)
        atomic_fetch_sub(&w->begun[c], 1);
    expect(s, 0, "increment");
    if (!s)
        atomic_fetch_add(&w->done[c], 1);
}

/* Records of 16 bytes: worker, number. A log that is full is followed by the next. */
static void do_append(void)
{
    struct worker *w = &board->workers[self];
    uint64_t log = atomic_load(&board->log), number = atomic_fetch_add(&w->next_record, 1);
    uint64_t record[2] = {(uint64_t)self, number};
    char key[32];
    size_t len = 0;
    enum muster_status s;

    snprintf(key, sizeof key, "log/%08" PRIu64, log);
    s = muster_kv_append(m, key, MUSTER_NTS, record, sizeof record, &len);
    expect(s, 0, "append");
    if (s)
        return;
    atomic_fetch_add(&w->logged, 1);
    if (len % sizeof record)
        violation("%s is %zu bytes long", key, len);
    if (len >= LOG_MAX)
        atomic_compare_exchange_strong(&board->log, &log, log + 1);
}

void load_kv(enum load load)
{
    struct place p;
    size_t len;

    switch (load) {
    case LOAD_SET: do_set(); break;
    case LOAD_GET: do_get(); break;
    case LOAD_DIR: do_dir(); break;
    case LOAD_INSERT:
        p = pick();
        len = pick_len();
        value_make(buffer, len, draw(UINT64_MAX));
        expect(muster_kv_insert(m, p.name, MUSTER_NTS, buffer, len), OR(ALREADY_EXISTS), "insert");
        break;
    case LOAD_DELETE: do_delete(); break;
    case LOAD_CAS: do_compare_and_set(); break;
    case LOAD_WATCH: do_watch(); break;
    case LOAD_COUNT: do_increment(); break;
    default: do_append(); break;
    }
}

/* ---- afterwards ---- */

static void verify_counters(struct muster *observer, uint64_t kills)
{
    uint64_t all_begun = 0, all_done = 0;

    for (unsigned c = 0; c < COUNTERS; c++) {
        uint64_t begun = 0, done = 0;
        int64_t value = 0;
        char key[16];

        for (int i = 0; i < WORKERS; i++) {
            begun += atomic_load(&board->workers[i].begun[c]);
            done += atomic_load(&board->workers[i].done[c]);
        }
        snprintf(key, sizeof key, "c/%u", c);
        if (muster_kv_increment(observer, key, MUSTER_NTS, 0, &value) != MUSTER_OK)
            violation("counter %u: %s", c, muster_last_error());
        if ((uint64_t)value < done || (uint64_t)value > begun)
            violation("counter %u is %" PRId64 "; %" PRIu64 " increments were acknowledged, %" PRIu64 " begun", c,
                      value, done, begun);
        all_begun += begun;
        all_done += done;
    }
    if (all_begun - all_done > kills)
        violation("%" PRIu64 " increments got no answer, with %" PRIu64 " kills", all_begun - all_done, kills);
    printf("counters: %" PRIu64 " increments acknowledged, %" PRIu64 " cut off by death: none lost, none doubled\n",
           all_done, all_begun - all_done);
}

static void verify_logs(const struct muster_kv_list *list)
{
    uint64_t *counts[WORKERS], records = 0, logged = 0;

    for (int i = 0; i < WORKERS; i++)
        counts[i] = calloc(atomic_load(&board->workers[i].next_record) + 1, sizeof *counts[i]);
    for (size_t i = 0; i < list->count; i++) {
        const uint8_t *p = list->entries[i].value;

        for (size_t k = 0; k + 16 <= list->entries[i].value_len; k += 16, records++) {
            uint64_t record[2];

            memcpy(record, p + k, sizeof record);
            if (record[0] >= WORKERS || record[1] >= atomic_load(&board->workers[record[0]].next_record))
                violation("%s holds a record that nobody wrote", list->entries[i].key);
            if (counts[record[0]][record[1]]++)
                violation("record %" PRIu64 " of worker %" PRIu64 " is there twice", record[1], record[0]);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        logged += atomic_load(&board->workers[i].logged);
        free(counts[i]);
    }
    if (records < logged)
        violation("%" PRIu64 " records were acknowledged, %" PRIu64 " are there", logged, records);
    printf("logs: %" PRIu64 " records acknowledged, %" PRIu64 " there, each once\n", logged, records);
}

void verify(struct muster *observer, uint64_t kills)
{
    struct muster_kv_list *list;
    size_t bytes = 0;

    verify_counters(observer, kills);
    if (muster_kv_get_dir(observer, "log", MUSTER_NTS, &list) != MUSTER_OK)
        violation("log: %s", muster_last_error());
    verify_logs(list);
    muster_kv_list_free(list);
    if (muster_kv_get_dir(observer, "t", MUSTER_NTS, &list) != MUSTER_OK)
        violation("t: %s", muster_last_error());
    for (size_t i = 0; i < list->count; i++) {
        if (!value_is_whole(list->entries[i].value, list->entries[i].value_len))
            violation("%s is torn", list->entries[i].key);
        bytes += list->entries[i].value_len;
    }
    printf("values: %zu, %zu bytes, all whole\n", list->count, bytes);
    muster_kv_list_free(list);
}
