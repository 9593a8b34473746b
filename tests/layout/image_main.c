/*
 * tests/layout/image_main.c: writes a segment with something of every kind in it, and reads such a segment.
 *
 *     image write JOB      make the segment of JOB (in $MUSTER_SHM_DIR), as two tasks; task 1 dies without leaving
 *     image read PATH      read it, read-only, and compare everything with what was written
 *     image mend PATH      the same, then bury the dead task, change every kind of object, audit
 *     image layout         print the layout's text
 *
 * What is written by one compiler's build is read and mended by the other's; and one image is kept in the tree.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm_layout/layout.h"

enum { MUTEX_BYTES = 40 /* of the libc that the kept image was made with */ };

static const size_t sizes[] = {0, 5, 90, 700, 5000, 70000};
enum { VALUES = sizeof sizes / sizeof sizes[0] };
static char bytes[70000], back[70000];

static void need(int ok, const char *what)
{
    if (ok)
        return;
    printf("%s: %s\n", what, muster_last_error());
    exit(1);
}

static void fill(size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)('a' + (seed + i) % 26);
}

static struct muster *join(int task, unsigned flags)
{
    struct muster_options o;
    struct muster *m = NULL;

    muster_options_init(&o);
    o.task_id = task;
    o.incarnation = 100 + (unsigned)task;
    o.flags = flags | MUSTER_JOIN_NO_HEARTBEAT | MUSTER_JOIN_NO_CREATE;
    need(!muster_join(&o, &m), "join");
    return m;
}

/* Task 1 reports an error and ends without leaving. */
static void second_task(void)
{
    pid_t pid = fork();
    int status;

    if (!pid) {
        struct muster *m = join(1, 0);

        need(!muster_kv_set(m, "of/second", MUSTER_NTS, "1", 1, NULL), "set of the second task");
        need(!muster_error_report(m, 1, MUSTER_INTERNAL, "as it is kept"), "report");
        _exit(0);
    }
    need(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the second task");
}

static int write_image(const char *job)
{
    struct muster_segment_config config = {.num_tasks = 2,
                                           .num_slots = 8,
                                           .num_buckets = 64,
                                           .num_events = 8,
                                           .heap_bytes = 1 << 20,
                                           .object_bytes = 1 << 20};
    int32_t self = 0;
    struct muster_segment *seg;
    struct muster *m;
    char key[16];

    need(!muster_segment_create(job, &config, &seg), "create");
    setenv("MUSTER_JOB", job, 1);
    m = join(0, 0);
    for (unsigned i = 0; i < VALUES; i++) {
        fill(sizes[i], i);
        snprintf(key, sizeof key, "value/%u", i);
        need(!muster_kv_set(m, key, MUSTER_NTS, bytes, sizes[i], NULL), key);
    }
    need(!muster_kv_increment(m, "number", MUSTER_NTS, -42, NULL), "increment");
    for (int i = 0; i < 11; i++)
        need(!muster_event_send(m, (unsigned)i, "kept", 4, NULL), "event");
    need(!muster_barrier_wait(m, "alone", 0, &self, 1, 0, 0), "barrier");
    need(muster_barrier_wait(m, "waiting", 0, NULL, 0, 0, 0) == MUSTER_DEADLINE_EXCEEDED, "an unfinished barrier");
    second_task();
    need(!muster_leave(m), "leave");
    muster_segment_close(seg);
    return 0;
}

static void read_values(struct muster *m)
{
    size_t len = 0;
    char key[16];

    for (unsigned i = 0; i < VALUES; i++) {
        fill(sizes[i], i);
        snprintf(key, sizeof key, "value/%u", i);
        need(!muster_kv_try_get(m, key, MUSTER_NTS, back, sizeof back, &len, NULL), key);
        need(len == sizes[i] && !memcmp(bytes, back, len), "a value is not what was written");
    }
    need(!muster_kv_try_get(m, "number", MUSTER_NTS, back, sizeof back, &len, NULL), "number");
    need(len == 3 && !memcmp(back, "-42", 3), "the number is not what was written");
    need(!muster_kv_count(m, "", 0, &len) && len == VALUES + 2, "count");
}

static int see_barrier(void *arg, const struct muster_barrier_info *info)
{
    unsigned *seen = arg;

    if (!strcmp(info->id, "alone"))
        need(info->passed && info->result == MUSTER_OK && info->participants == 1, "the barrier that passed");
    else if (!strcmp(info->id, "waiting"))
        need(!info->passed && info->arrived == 1 && info->participants == 2, "the barrier that waits");
    else
        need(0, "an unknown barrier");
    ++*seen;
    return 0;
}

static void read_rest(struct muster *m)
{
    struct muster_task_info tasks[2];
    struct muster_event e;
    uint64_t position = 3, next;
    unsigned barriers = 0;
    size_t n;

    need(!muster_event_next(m, &next) && next == 11, "the next event");
    for (unsigned i = 3; i < 11; i++) {
        need(!muster_event_read(m, &position, 0, &e, back, sizeof back, NULL), "reading an event");
        need(e.sequence == i && e.type == i && e.task_id == 0 && e.len == 4 && !memcmp(back, "kept", 4), "an event");
    }
    need(!muster_barrier_list(m, see_barrier, &barriers) && barriers == 2, "the barriers");
    need(!muster_task_list(m, tasks, 2, &n, NULL) && n == 2, "the tasks");
    need(tasks[0].state == MUSTER_TASK_DISCONNECTED && tasks[0].incarnation == 100, "task 0");
    need(tasks[1].state == MUSTER_TASK_ERROR && tasks[1].error == MUSTER_INTERNAL &&
             !strcmp(tasks[1].message, "as it is kept"),
         "task 1");
}

static void complain(void *arg, const char *sentence)
{
    (void)arg;
    printf("audit: %s\n", sentence);
}

static void audit(struct muster *m)
{
    struct muster_audit sum;

    need(!muster_segment_check(muster_segment_of(m), complain, NULL, &sum), "audit");
    need(!sum.problems, "the audit found problems");
}

static int read_image(const char *path, int mend)
{
    struct muster *m;
    size_t deaths = 0;
    int64_t sum = 0;

    if (sizeof(pthread_mutex_t) != MUTEX_BYTES) {
        printf("this libc's mutex has %zu bytes, the image was made with %d\n", sizeof(pthread_mutex_t), MUTEX_BYTES);
        return 77;
    }
    setenv("MUSTER_SEGMENT", path, 1);
    m = join(-1, MUSTER_JOIN_READ_ONLY);
    read_values(m);
    read_rest(m);
    audit(m);
    need(!muster_leave(m), "leave");
    if (!mend)
        return 0;
    m = join(-1, MUSTER_JOIN_OBSERVER);
    need(!muster_scavenge(m, &deaths) && deaths == 1, "burying the dead task");
    for (unsigned i = 0; i < VALUES; i++) {
        char key[16];

        snprintf(key, sizeof key, "value/%u", i);
        need(!muster_kv_append(m, key, MUSTER_NTS, "more", 4, NULL), "append");
    }
    need(!muster_kv_increment(m, "number", MUSTER_NTS, 1, &sum) && sum == -41, "increment");
    need(!muster_event_send(m, 1, "new", 3, NULL), "event");
    need(muster_barrier_cancel(m, "waiting", 0) == MUSTER_FAILED_PRECONDITION,
         "a barrier whose waiter is gone has failed");
    need(!muster_task_reset(m, 1), "reset");
    need(!muster_kv_delete(m, "value", MUSTER_NTS, &deaths) && deaths == VALUES, "delete");
    audit(m);
    need(!muster_leave(m), "leave");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "layout"))
        return fputs(mu_layout_text(), stdout) < 0;
    if (argc == 3 && !strcmp(argv[1], "write"))
        return write_image(argv[2]);
    if (argc == 3 && (!strcmp(argv[1], "read") || !strcmp(argv[1], "mend")))
        return read_image(argv[2], argv[1][0] == 'm');
    printf("usage: image write JOB | read PATH | mend PATH | layout\n");
    return 2;
}
