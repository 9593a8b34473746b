/*
 * barrier.c: a named barrier, and a group with its collectives.
 * run: "$MUSTER" run -n 3 -- "$EXAMPLE"
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
    struct muster_group *g;
    double values[2];
    int64_t ranks[64];
    int64_t mine;

    check(muster_join(NULL, &m));

    /* All tasks of the job, at most 10 s after the first arrival. */
    check(muster_barrier_wait(m, "ready", MUSTER_BARRIER_NEXT, NULL, 0, 10000000000u, MUSTER_FOREVER));

    /* For a hot loop: a group. */
    check(muster_group_create(m, "workers", NULL, 0, 0, muster_after_ms(10000), &g));
    for (int i = 0; i < 1000; i++)
        check(muster_group_barrier(g, muster_after_ms(10000)));

    mine = muster_group_rank(g);
    check(muster_group_allgather(g, &mine, sizeof mine, ranks, MUSTER_FOREVER));
    values[0] = 1.0;
    values[1] = (double)mine;
    check(muster_group_allreduce(g, values, 2, MUSTER_TYPE_DOUBLE, MUSTER_OP_SUM, MUSTER_FOREVER));
    if (mine == 0)
        printf("%.0f members; the ranks add up to %.0f\n", values[0], values[1]);
    if (values[0] != muster_group_size(g) || ranks[mine] != mine)
        errx(1, "wrong result");
    muster_group_free(g);
    check(muster_leave(m));
    return 0;
}
