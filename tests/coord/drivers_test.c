/*
 * tests/coord/drivers_test.c: one table of requests, and all that can make them: a task's thread and a guest, on the
 * leader's host, where the keys and barriers lie, and on another, whose requests the steps of kv/remote.h,
 * barrier/remote.h and task/alive.h make (segment/steps.h): by the thread's driver, and by the loop's. Nobody can tell
 * on which host it is, whether the connection holds or breaks within each request.
 */
#include "pair.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each makes its requests as the task of this number. */
enum { GUEST = 0, TASK = 1, FAR_GUEST = 2, FAR_TASK = 3, DRIVERS = 4 };

enum { BOTH, GUESTS, TASKS };
enum op { SET, INSERT, GET, TRY, ADD, SWAP, APPEND, DELETE, LIST, COUNT, MEET, CANCEL, ALIVE };

struct row {
    enum op op;
    const char *key;   /* below a directory of the driver's own; behind a '!': as it stands */
    const char *value; /* of MEET and ALIVE: "own", "all", "other", "none" */
    int64_t number;    /* added; the instance; of SWAP: 0 absent, 1 at its version, 2 at another */
    enum muster_status status;
    const char *says; /* of an error; or the value, or the keys */
    int64_t result;   /* the sum, the length, how many */
    int8_t who;       /* BOTH, or one kind: the keys and ids that a wire's clients may have are more */
    uint64_t timeout_ms;
};

static char long_key[2000], longer_key[6000];

static const struct row table[] = {
    {TRY, "k", .status = MUSTER_NOT_FOUND, .says = "k not found"},
    {TRY, "//odd//spelling/", .status = MUSTER_NOT_FOUND},
    {TRY, long_key, .status = MUSTER_NOT_FOUND},
    {TRY, "!", .status = MUSTER_INVALID_ARGUMENT, .who = TASKS},
    {GET, "!a/../b", .status = MUSTER_INVALID_ARGUMENT, .who = TASKS},
    {INSERT, "!", .value = "v", .status = MUSTER_INVALID_ARGUMENT, .who = TASKS},
    {TRY, "!", .status = MUSTER_NOT_FOUND, .who = GUESTS},
    {SET, "!a/../b", .value = "dots", .who = GUESTS},
    {GET, "!a/../b", .says = "dots", .who = GUESTS},
    {TRY, longer_key, .status = MUSTER_NOT_FOUND, .who = GUESTS},
    {SET, longer_key, .value = "long", .who = GUESTS},
    {GET, longer_key, .says = "long", .who = GUESTS},
    {MEET, longer_key, .value = "own", .who = GUESTS},
    {INSERT, "k", .value = "one"},
    {INSERT, "/k/", .value = "two", .status = MUSTER_ALREADY_EXISTS, .says = "/k already exists"},
    {GET, "k", .says = "one"},
    {SET, "k", .value = "two"},
    {TRY, "k", .says = "two"},
    {ADD, "k", .number = 1, .status = MUSTER_FAILED_PRECONDITION, .says = "Failed to parse value \"two\""},
    {ADD, "n", .number = 5, .result = 5},
    {ADD, "n", .number = -7, .result = -2},
    {GET, "n", .says = "-2"},
    {ADD, "n", .number = INT64_MIN, .status = MUSTER_FAILED_PRECONDITION, .says = "leaves # bits"},
    {SWAP, "c", .value = "first", .number = 0},
    {SWAP, "c", .value = "again", .number = 0, .status = MUSTER_ABORTED, .says = "is at version #, not #"},
    {SWAP, "c", .value = "second", .number = 1},
    {SWAP, "c", .value = "third", .number = 2, .status = MUSTER_ABORTED, .says = "is at version #, not #"},
    {SWAP, "never", .value = "there", .number = 2, .status = MUSTER_ABORTED, .says = "is absent"},
    {GET, "c", .says = "second"},
    {APPEND, "c", .value = "+more", .result = 11},
    {APPEND, "new", .value = "x", .result = 1},
    {GET, "c", .says = "second+more"},
    {SET, "d/2/x", .value = "v"},
    {SET, "d/1/x", .value = ""},
    {SET, "e", .value = "v"},
    {LIST, "d", .says = "d/1/x\nd/2/x\n", .result = 2},
    {LIST, "/d/2/", .says = "d/2/x\n", .result = 1},
    {LIST, "none", .says = "", .result = 0},
    {LIST, "!a/../b", .status = MUSTER_INVALID_ARGUMENT, .who = TASKS},
    {COUNT, "", .result = 7, .who = TASKS},
    {COUNT, "", .result = 8, .who = GUESTS}, /* with the longer one */
    {COUNT, "d", .result = 2},
    {COUNT, "none", .result = 0},
    {DELETE, "k", .result = 1},
    {TRY, "k", .status = MUSTER_NOT_FOUND},
    {DELETE, "d", .result = 2},
    {LIST, "/d", .says = "", .result = 0},
    {DELETE, "never/there", .result = 0},
    {DELETE, "!a/./b", .status = MUSTER_INVALID_ARGUMENT, .who = TASKS},
    {DELETE, "!", .who = GUESTS},
    {GET, "e", .says = "v"},
    {MEET, "b", .value = "own", .number = 0},
    {MEET, "b", .value = "own", .number = 0}, /* it has ended */
    {MEET, "b", .value = "own", .number = 7, .status = MUSTER_INTERNAL, .says = "but it is at instance"},
    {MEET, "b", .value = "own", .number = 1},
    {MEET, "b", .value = "other", .number = 2, .status = MUSTER_INVALID_ARGUMENT},
    {MEET, "x", .value = "none", .number = 0, .status = MUSTER_INVALID_ARGUMENT, .says = "not in the cluster"},
    {MEET, "late", .value = "all", .status = MUSTER_DEADLINE_EXCEEDED,
     .says = "Barrier timed out. Id: ", .timeout_ms = 50},
    {MEET, "late", .value = "all", .status = MUSTER_DEADLINE_EXCEEDED, .says = "Barrier timed out. Id: "},
    {CANCEL, "b", .number = 2, .status = MUSTER_FAILED_PRECONDITION, .says = "already been passed"},
    {CANCEL, "b", .number = 9, .status = MUSTER_FAILED_PRECONDITION, .says = "cannot be cancelled"},
    {ALIVE, "", .value = "own", .result = 1},
    {ALIVE, "", .value = "other", .status = MUSTER_INVALID_ARGUMENT},
};
enum { ROWS = sizeof table / sizeof *table };

/* What came of a row: all that its caller is told. */
struct outcome {
    enum muster_status status;
    char text[900], bytes[256];
    int64_t result, counter;
    unsigned payload;
    bool replayed;
};

static void row_key(const struct row *row, int driver, char *key, size_t size)
{
    if (row->key[0] == '!')
        snprintf(key, size, "%s", row->key + 1);
    else
        snprintf(key, size, "w%d/%s", driver, row->key);
}

static size_t row_tasks(const struct row *row, int driver, int32_t tasks[2])
{
    tasks[0] = !strcmp(row->value, "other") ? (driver + 1) % DRIVERS : !strcmp(row->value, "none") ? 99 : driver;
    return strcmp(row->value, "all") != 0;
}

/* ---- by a task's thread ---- */

static enum muster_status list_by_thread(struct muster *m, const char *key, struct cast_reply *reply)
{
    struct muster_kv_list *list;
    enum muster_status status = muster_kv_get_dir(m, key, MUSTER_NTS, &list);

    if (status)
        return status;
    for (size_t i = 0; i < list->count; i++) {
        size_t len = strlen(reply->bytes);

        snprintf(reply->bytes + len, sizeof reply->bytes - len, "%s\n", list->entries[i].key);
    }
    reply->number = list->count;
    muster_kv_list_free(list);
    return MUSTER_OK;
}

static enum muster_status swap_by_thread(struct muster *m, const struct row *row, const char *key)
{
    uint64_t version = 0;
    char old[64];

    if (row->number && !muster_kv_try_get(m, key, MUSTER_NTS, old, sizeof old, NULL, &version) && row->number == 2)
        version += 1000;
    else if (row->number == 2)
        version = 1000;
    return muster_kv_compare_and_set(m, key, MUSTER_NTS, version, row->value, strlen(row->value), &version);
}

static enum muster_status change_by_thread(struct muster *m, const struct row *row, const char *key, int64_t *ret)
{
    size_t len = 0, n = row->value ? strlen(row->value) : 0;
    enum muster_status status;

    switch (row->op) {
    case SET: return muster_kv_set(m, key, MUSTER_NTS, row->value, n, NULL);
    case INSERT: return muster_kv_insert(m, key, MUSTER_NTS, row->value, n);
    case ADD: return muster_kv_increment(m, key, MUSTER_NTS, row->number, ret);
    case SWAP: return swap_by_thread(m, row, key);
    case APPEND: status = muster_kv_append(m, key, MUSTER_NTS, row->value, n, &len); break;
    case COUNT: status = muster_kv_count(m, key, MUSTER_NTS, &len); break;
    default: status = muster_kv_delete(m, key, MUSTER_NTS, &len); break;
    }
    *ret = (int64_t)len;
    return status;
}

/* Within the task's process. */
static void make_by_thread(struct muster *m, const struct cast_act *act, struct cast_reply *reply, int fd)
{
    const struct row *row = &table[act->rank];
    int32_t tasks[2], alive[CAST_MAX];
    char key[6100];
    size_t count = 0, len = 0;
    int64_t result = 0;
    enum muster_status status;

    (void)fd;
    row_key(row, (int)act->mode, key, sizeof key);
    if (row->op >= MEET && row->value)
        count = row_tasks(row, (int)act->mode, tasks);
    switch (row->op) {
    case GET: status = muster_kv_get(m, key, MUSTER_NTS, MUSTER_FOREVER, reply->bytes, 100, &len, NULL); break;
    case TRY: status = muster_kv_try_get(m, key, MUSTER_NTS, reply->bytes, 100, &len, NULL); break;
    case LIST: status = list_by_thread(m, key, reply); break;
    case MEET:
        status = muster_barrier_wait(m, key, (uint64_t)row->number, count ? tasks : NULL, count,
                                     (row->timeout_ms ? row->timeout_ms : 60000) * 1000000, MUSTER_FOREVER);
        break;
    case CANCEL: status = muster_barrier_cancel(m, key, (uint64_t)row->number); break;
    case ALIVE:
        status = muster_task_alive(m, tasks, count, MUSTER_FOREVER, alive, NULL, &len);
        reply->number = len;
        break;
    default:
        status = change_by_thread(m, row, key, &result);
        reply->number = (uint64_t)result;
        break;
    }
    reply->status = (int)status;
}

static void begin_by_thread(const struct row *row, int driver)
{
    cast_tell((uint32_t)driver,
              &(struct cast_act){
                  .kind = CAST_DO, .fn = make_by_thread, .rank = (uint32_t)(row - table), .mode = (uint32_t)driver});
}

static void end_by_thread(int driver, struct outcome *o)
{
    struct cast_reply r = pair_hear((uint32_t)driver);

    o->status = (enum muster_status)r.status;
    snprintf(o->text, sizeof o->text, "%s", r.status ? r.text : "");
    snprintf(o->bytes, sizeof o->bytes, "%s", r.bytes);
    o->result = (int64_t)r.number;
}

/* ---- by the loop ---- */

/* Which version a SWAP is to expect. */
static uint64_t version_by_loop(const struct row *row, int guest)
{
    struct asked *a;
    char key[6100];
    uint64_t version = 0;

    if (row->op == SWAP && row->number) {
        row_key(row, guest, key, sizeof key);
        a = do_try_get(pair_as(guest), key);
        until_answered(a);
        version = a->ask.status ? 0 : (uint64_t)a->ask.version;
    }
    return row->number == 2 ? version + 1000 : version;
}

static struct asked *begin_by_loop(const struct row *row, int guest, uint64_t version)
{
    int32_t tasks[2];
    char key[6100];
    size_t count = 0;

    pair_as(guest);
    row_key(row, guest, key, sizeof key);
    if (row->op >= MEET && row->value)
        count = row_tasks(row, guest, tasks);
    switch (row->op) {
    case SET:
    case INSERT: return do_insert(guest, key, row->value, row->op == SET);
    case GET: return do_get(guest, key);
    case TRY: return do_try_get(guest, key);
    case ADD: return do_increment(guest, key, row->number);
    case SWAP: return do_compare(guest, key, version, row->value);
    case APPEND: return do_append(guest, key, row->value);
    case DELETE: return do_delete(guest, key);
    case LIST: return do_list(guest, key);
    case COUNT: return do_count(guest, key);
    case CANCEL: return do_cancel(guest, key, row->number);
    case ALIVE: return do_alive(guest, tasks, count);
    default:
        return count ? do_meet_some(guest, key, row->number, tasks, count)
                     : do_meet_for(guest, key, row->number, row->timeout_ms ? (int64_t)row->timeout_ms : 60000);
    }
}

static void end_by_loop(const struct row *row, struct asked *a, struct outcome *o)
{
    until_answered(a);
    o->status = a->ask.status;
    o->payload = a->ask.payload;
    snprintf(o->text, sizeof o->text, "%.*s", o->status ? (int)sizeof o->text - 1 : 0, a->text);
    if (row->op == MEET) {
        o->counter = a->ask.counter;
        o->replayed = a->ask.replayed;
    }
    if (o->status)
        return;
    if (row->op == ADD)
        o->result = strtoll(a->value, NULL, 10);
    else if (row->op == GET || row->op == TRY)
        snprintf(o->bytes, sizeof o->bytes, "%.*s", (int)a->len, a->value);
    else if (row->op == LIST)
        snprintf(o->bytes, sizeof o->bytes, "%s", a->keys ? a->keys : "");
    if (row->op == LIST)
        o->result = (int64_t)a->ask.num_entries;
    else if (row->op == ALIVE)
        o->result = (int64_t)a->ask.num_alive;
    else if (row->op == APPEND || row->op == DELETE || row->op == COUNT)
        o->result = a->ask.counter;
}

/* ---- the table ---- */

/* The first line, without numbers: versions, pids and the driver's own. */
static void mask(char *text)
{
    char *to = text;

    for (const char *from = text; *from && *from != '\n'; from++) {
        bool digit = isdigit((unsigned char)*from);

        if (!digit || to == text || to[-1] != '#')
            *to++ = digit ? '#' : *from;
    }
    *to = 0;
}

/* The keys of a listing as the table has them. */
static void strip(char *keys, int driver)
{
    char prefix[16], *at;
    size_t len = (size_t)snprintf(prefix, sizeof prefix, "w%d/", driver);

    while ((at = strstr(keys, prefix)))
        memmove(at, at + len, strlen(at + len) + 1);
}

/* frames: so many of host 1's go through before the connection breaks in the middle; UINT32_MAX: it does not. */
static void make(const struct row *row, int driver, uint32_t frames, struct outcome *o)
{
    bool is_thread = driver == TASK || driver == FAR_TASK;
    uint64_t version = is_thread ? 0 : version_by_loop(row, driver);
    struct asked *a = NULL;

    memset(o, 0, sizeof *o);
    if (frames != UINT32_MAX)
        hosts_cut_after(cast_hosts, 1, frames);
    if (is_thread)
        begin_by_thread(row, driver);
    else
        a = begin_by_loop(row, driver, version);
    counter_turn();
    if (frames != UINT32_MAX)
        hosts_mend(cast_hosts);
    if (is_thread)
        end_by_thread(driver, o);
    else
        end_by_loop(row, a, o);
    mask(o->text);
    strip(o->bytes, driver);
}

static void check(const struct row *row, int driver, const struct outcome *o)
{
    const char *says = row->says ? row->says : "";
    bool said = row->status ? strstr(o->text, says) != NULL : !row->says || !strcmp(o->bytes, says);

    if (o->status != row->status || !said || o->result != (row->status ? o->result : row->result))
        fail_msg("row %d by %d: %s '%s', '%s', %lld", (int)(row - table), driver, muster_status_name(o->status),
                 o->text, o->bytes, (long long)o->result);
}

static void check_alike(const struct row *row, int far, const struct outcome *a, const struct outcome *b)
{
    if (a->status != b->status || strcmp(a->text, b->text) != 0 || strcmp(a->bytes, b->bytes) != 0 ||
        a->payload != b->payload || a->counter != b->counter || a->replayed != b->replayed)
        fail_msg("row %d, where the keys are: '%s' '%s', payload %u, %lld; by %d: '%s' '%s', payload %u, %lld",
                 (int)(row - table), a->text, a->bytes, a->payload, (long long)a->counter, far, b->text, b->bytes,
                 b->payload, (long long)b->counter);
}

static void run_table(bool breaks)
{
    static struct outcome outcomes[DRIVERS][ROWS];

    memset(long_key, 'l', sizeof long_key - 1);
    memset(longer_key, 'L', sizeof longer_key - 1);
    cast_open(&(struct hosts_config){.tasks = {2, 2}});
    cast_enter(TASK, 0);
    cast_enter(FAR_TASK, 0);
    pair_begin(NULL);
    pair_register_all();
    for (int driver = 0; driver < DRIVERS; driver++)
        for (int i = 0; i < ROWS; i++) {
            uint32_t frames = breaks && driver >= FAR_GUEST ? (uint32_t)i % 3 : UINT32_MAX;

            if (table[i].who && (table[i].who == TASKS) != (driver == TASK || driver == FAR_TASK))
                continue;
            make(&table[i], driver, frames, &outcomes[driver][i]);
            check(&table[i], driver, &outcomes[driver][i]);
            if (driver >= FAR_GUEST)
                check_alike(&table[i], driver, &outcomes[driver - 2][i], &outcomes[driver][i]);
        }
    pair_close();
}

PAIR_TEST(nobody_can_tell_on_which_host_it_is)
{
    run_table(false);
}

PAIR_TEST(nor_when_the_connection_breaks_within_each_request)
{
    run_table(true);
}
