/*
 * tests/launch/counts_main.c: a task that writes, counts and meets in rounds, and at the end checks that nothing of it
 * was lost and nothing was made twice: counts FOLDER.
 *
 * In each round: one more in the key all; own/TASK becomes the round, and object/TASK/PARITY an object of it; a barrier
 * of all tasks; then what every task had written before it must be there, and the next task's object be whole. Then
 * task 0 decides whether there is another round: until FOLDER/stop is there. It says in FOLDER/round how far they are.
 * Status 0: all was right; 7: a call failed; 1: something is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

#define PATIENCE_NS 120000000000u
enum { OBJECT = 300000 }; /* bytes, each of which is the round */

static struct muster *m;

static void expect(int is_so, const char *what, int round)
{
    if (is_so)
        return;
    fprintf(stderr, "counts: task %d, round %d: %s\n", (int)muster_task_id(m), round, what);
    exit(1);
}

static void need(enum muster_status status, int round)
{
    if (status == MUSTER_OK)
        return;
    fprintf(stderr, "counts: task %d, round %d: %s\n", (int)muster_task_id(m), round, muster_last_error());
    exit(7);
}

static void say_round(const char *folder, int round)
{
    char path[4096], draft[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/round", folder);
    snprintf(draft, sizeof draft, "%s/round.new", folder);
    file = fopen(draft, "w");
    expect(file && fprintf(file, "%d\n", round) > 0 && fclose(file) == 0 && rename(draft, path) == 0, "its file",
           round);
}

static int number_at(const char *key, int round)
{
    char text[32] = "";
    size_t len = 0;

    need(muster_kv_get(m, key, MUSTER_NTS, muster_after_ns(PATIENCE_NS), text, sizeof text - 1, &len, NULL), round);
    text[len < sizeof text ? len : 0] = 0;
    return (int)strtol(text, NULL, 10);
}

static void write_number(const char *key, int number)
{
    char text[32];

    snprintf(text, sizeof text, "%d", number);
    need(muster_kv_set(m, key, MUSTER_NTS, text, MUSTER_NTS, NULL), number);
}

static muster_object object_put(int round)
{
    struct muster_object_room room;
    muster_object object;
    char key[64], text[32];

    need(muster_object_create(m, OBJECT, 0, muster_after_ns(PATIENCE_NS), &object, &room), round);
    memset(room.data, round, OBJECT);
    need(muster_object_seal(m, object), round);
    snprintf(key, sizeof key, "object/%d/%d", (int)muster_task_id(m), round % 2);
    snprintf(text, sizeof text, "%llu", (unsigned long long)object);
    need(muster_kv_set(m, key, MUSTER_NTS, text, MUSTER_NTS, NULL), round);
    return object;
}

/* The other task holds it until all have come to the next barrier. */
static void object_check(int task, int round)
{
    struct muster_object_view view;
    char key[64], text[32] = "";
    muster_object object;
    const char *bytes;
    size_t len = 0;

    snprintf(key, sizeof key, "object/%d/%d", task, round % 2); /* it may be a round ahead by now */
    need(muster_kv_get(m, key, MUSTER_NTS, muster_after_ns(PATIENCE_NS), text, sizeof text - 1, &len, NULL), round);
    object = strtoull(text, NULL, 10);
    need(muster_object_get(m, &object, 1, muster_after_ns(PATIENCE_NS), &view, NULL), round);
    bytes = view.data;
    expect(view.len == OBJECT && bytes[0] == (char)round && memcmp(bytes, bytes + 1, OBJECT - 1) == 0,
           "another's object is not what it made", round);
    muster_object_unview(m, &view, 1);
}

/* 1: it was the last. */
static int do_round(const char *folder, int round, int tasks)
{
    static muster_object before;
    int id = (int)muster_task_id(m);
    muster_object object = object_put(round);
    char key[64], stop[4096];
    int64_t all = 0;

    need(muster_kv_increment(m, "all", MUSTER_NTS, 1, &all), round);
    expect(all > (int64_t)(round - 1) * tasks && all <= (int64_t)round * tasks, "a count of another round", round);
    snprintf(key, sizeof key, "own/%d", id);
    write_number(key, round);
    snprintf(key, sizeof key, "round/%d", round);
    need(muster_barrier_wait(m, key, 0, NULL, 0, PATIENCE_NS, MUSTER_FOREVER), round);
    if (before)
        need(muster_object_drop(m, &before, 1), round);
    before = object;
    object_check((id + 1) % tasks, round);
    for (int i = 0; i < tasks; i++) {
        snprintf(key, sizeof key, "own/%d", i);
        expect(number_at(key, round) >= round, "what another wrote before the barrier is not there", round);
    }
    snprintf(key, sizeof key, "then/%d", round);
    if (id == 0) {
        say_round(folder, round);
        snprintf(stop, sizeof stop, "%s/stop", folder);
        write_number(key, access(stop, F_OK) == 0);
    }
    return number_at(key, round);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : ".";
    int64_t all = 0;
    int round = 0, tasks;

    if (muster_join(NULL, &m) != MUSTER_OK) {
        fprintf(stderr, "counts: %s\n", muster_last_error());
        return 8;
    }
    tasks = (int)strtol(getenv("MUSTER_NUM_TASKS"), NULL, 10);
    while (!do_round(folder, ++round, tasks))
        ;
    need(muster_kv_increment(m, "all", MUSTER_NTS, 0, &all), round);
    expect(all == (int64_t)round * tasks, "not every round was counted once", round);
    printf("task %d: %lld\n", (int)muster_task_id(m), (long long)all);
    fflush(stdout);
    /* another may look at the last object still, which goes with this task */
    need(muster_barrier_wait(m, "over", 0, NULL, 0, PATIENCE_NS, MUSTER_FOREVER), round);
    return muster_leave(m) != MUSTER_OK;
}
