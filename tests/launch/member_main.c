/*
 * tests/launch/member_main.c: a task that does as it is told, for the scripts beside it.
 *
 *   member stay [MIB]          join, say so in the key ready/<id>, wait for a key that nobody sets; with MIB, task 1
 *                              first fills so much memory
 *   member exit CODE [TASK]    join, meet in a barrier; then TASK (default: all) exits with CODE without leaving
 *   member report TEXT         join, meet; task 1 reports an error, all wait for it and leave
 *   member flood N             join, send N events, leave
 *   member learn               join, meet; each that is not killed waits for the error and prints who failed
 *   member again TASK N        join; TASK kills itself unless it is its attempt N; meet in a barrier, say so, leave
 * A wait that ends with an error prints the sentence and exits with 7; a failed join exits with 8.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/muster.h>

static struct muster *m;

static void meet(const char *id)
{
    if (muster_barrier_wait(m, id, 0, NULL, 0, 60000000000u, MUSTER_FOREVER) == MUSTER_OK)
        return;
    fprintf(stderr, "member: %s\n", muster_last_error());
    muster_leave(m);
    exit(7);
}

/* Memory that the kernel has to take down at our death. */
static void fill(size_t bytes)
{
    char *memory = malloc(bytes);

    if (!memory)
        exit(9);
    for (size_t i = 0; i < bytes; i += 4096)
        ((volatile char *)memory)[i] = 1;
    if (muster_kv_set(m, "filled", MUSTER_NTS, "", 0, NULL) != MUSTER_OK)
        exit(8);
}

static void learn(void)
{
    struct muster_error error;

    if (muster_error_wait(m, muster_after_ns(60000000000u), &error) != MUSTER_OK) {
        fprintf(stderr, "member: %s\n", muster_last_error());
        exit(7);
    }
    printf("task %d learned of task %d: %s\n", (int)muster_task_id(m), (int)error.task_id, error.message);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "stay";
    char key[64];

    if (muster_join(NULL, &m) != MUSTER_OK) {
        fprintf(stderr, "member: %s\n", muster_last_error());
        return 8;
    }
    snprintf(key, sizeof key, "ready/%d", (int)muster_task_id(m));
    if (muster_kv_set(m, key, MUSTER_NTS, "", 0, NULL) != MUSTER_OK)
        return 8;
    if (strcmp(what, "stay") == 0) {
        if (argc > 2 && muster_task_id(m) == 1)
            fill((size_t)strtol(argv[2], NULL, 10) << 20);
        muster_kv_get(m, "never", MUSTER_NTS, MUSTER_FOREVER, NULL, 0, &(size_t){0}, NULL);
        fprintf(stderr, "member: %s\n", muster_last_error());
        muster_leave(m);
        return 7;
    }
    if (strcmp(what, "flood") == 0) {
        for (long n = strtol(argv[2], NULL, 10); n > 0; n--)
            if (muster_event_send(m, 0, "x", 1, NULL) != MUSTER_OK)
                return 8;
        return muster_leave(m) != MUSTER_OK;
    }
    if (strcmp(what, "again") == 0) {
        if (muster_task_id(m) == strtol(argv[2], NULL, 10) && strcmp(getenv("MUSTER_ATTEMPT"), argv[3]) != 0)
            raise(SIGKILL);
        meet("again");
        puts("passed");
        return muster_leave(m) != MUSTER_OK;
    }
    meet("met");
    if (strcmp(what, "exit") == 0) {
        if (argc < 4 || strtol(argv[3], NULL, 10) == muster_task_id(m))
            exit((int)strtol(argv[2], NULL, 10));
        meet("never");
    } else if (strcmp(what, "report") == 0) {
        if (muster_task_id(m) == 1)
            muster_error_report(m, 1, MUSTER_INTERNAL, argv[2]);
        learn();
    } else if (strcmp(what, "learn") == 0) {
        learn();
    }
    muster_leave(m);
    return 0;
}
