/*
 * events.c: numbered broadcast events: every reader sees all of them, in one order.
 * run: "$MUSTER" run -n 3 -- "$EXAMPLE"
 */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include <muster/muster.h>

enum { EACH = 100 };

static void check(enum muster_status status)
{
    if (status)
        errx(1, "%s: %s", muster_status_name(status), muster_last_error());
}

int main(void)
{
    struct muster *m;
    uint64_t position = 0, hash = 0;
    char key[32], text[64], other[32];
    size_t len;

    check(muster_join(NULL, &m));
    for (int i = 0; i < EACH; i++) {
        snprintf(text, sizeof text, "event %d of task %d", i, muster_task_id(m));
        check(muster_event_send(m, 1, text, strlen(text), NULL));
    }
    /* Read them all, from every sender; and note their order. */
    for (uint32_t i = 0; i < EACH * muster_num_tasks(m); i++) {
        struct muster_event e;

        check(muster_event_read(m, &position, muster_after_ms(10000), &e, text, sizeof text, NULL));
        hash = hash * 31 + (uint64_t)e.task_id;
    }
    snprintf(key, sizeof key, "order/%d", muster_task_id(m));
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    check(muster_kv_set(m, key, MUSTER_NTS, text, MUSTER_NTS, NULL));
    check(muster_kv_get(m, "order/0", MUSTER_NTS, muster_after_ms(10000), other, sizeof other, &len, NULL));
    if (memcmp(text, other, 16))
        errx(1, "two tasks saw different orders");
    printf("task %d saw %llu events in the same order as task 0\n", muster_task_id(m), (unsigned long long)position);
    check(muster_barrier_wait(m, "done", 0, NULL, 0, 0, MUSTER_FOREVER));
    check(muster_leave(m));
    return 0;
}
