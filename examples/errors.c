/*
 * errors.c: one task fails; the others' waits end and name it.
 * run: "$MUSTER" run -n 3 --kill-on-fail=no -- "$EXAMPLE" 2>/dev/null
 */
#include <err.h>
#include <stdio.h>

#include <muster/muster.h>

static void check(enum muster_status status)
{
    if (status)
        errx(1, "%s: %s", muster_status_name(status), muster_last_error());
}

int main(void)
{
    struct muster *m;
    struct muster_error e;
    enum muster_status status;

    check(muster_join(NULL, &m));
    check(muster_barrier_wait(m, "start", 0, NULL, 0, 0, MUSTER_FOREVER));
    if (muster_task_id(m) == 1) {
        /* An error of its own that the program reports, with a code and a sentence. */
        check(muster_error_report(m, 1, MUSTER_RESOURCE_EXHAUSTED, "out of GPU memory at step 17"));
        check(muster_leave(m)); /* it stays in error, for the others to see */
        return 0;
    }
    check(muster_error_wait(m, MUSTER_FOREVER, &e));
    printf("task %d: task %d reported %s: %s\n", muster_task_id(m), e.task_id, muster_status_name(e.code), e.message);
    status = muster_kv_get(m, "result", MUSTER_NTS, MUSTER_FOREVER, NULL, 0, NULL, NULL);
    if (status != MUSTER_UNAVAILABLE)
        errx(1, "a wait went on although a task it may need is in error");
    check(muster_leave(m));
    return e.task_id == 1 ? 0 : 1;
}
