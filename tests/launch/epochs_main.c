/*
 * tests/launch/epochs_main.c: a task that waits for each epoch of its job, for the scripts beside it.
 *
 *   epochs [REFUSED]     in each epoch say so, build the epoch's group, and meet in it again and again, until the
 * members find that the epoch is over; end when the key stop is set. Task REFUSED exits with 3 at once A wait that ends
 * with another error than the epoch's end prints the sentence and exits with 7; a failed join with 8.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <muster/muster.h>

enum { GO_ON, CHANGES, STOPS };

static struct muster *m;

/* What all members agree on, so that all leave the steps behind the same one. */
static int64_t agree(struct muster_group *group, const struct muster_membership *now)
{
    char value[8];
    size_t len;
    int64_t what = muster_membership_changed(m, now) ? CHANGES : GO_ON;

    if (muster_kv_try_get(m, "stop", MUSTER_NTS, value, sizeof value, &len, NULL) == MUSTER_OK)
        what = STOPS;
    if (muster_group_allreduce(group, &what, 1, MUSTER_TYPE_INT64, MUSTER_OP_MAX, MUSTER_FOREVER) != MUSTER_OK)
        return CHANGES;
    return what;
}

static int64_t steps(const struct muster_membership *now)
{
    struct muster_group *group;
    enum muster_status status = muster_group_of_epoch(m, now, "steps", 64, MUSTER_FOREVER, &group);
    int64_t what = GO_ON;

    if (status == MUSTER_UNAVAILABLE)
        return CHANGES;
    if (status) {
        fprintf(stderr, "epochs: %s\n", muster_last_error());
        exit(7);
    }
    if (muster_group_rank(group) != (uint32_t)now->rank || muster_group_size(group) != now->size) {
        fprintf(stderr, "epochs: the group is another than the epoch's\n");
        exit(7);
    }
    printf("%" PRIu64 " %d/%u task %d pid %d\n", now->epoch, (int)now->rank, now->size, (int)muster_task_id(m),
           (int)getpid());
    fflush(stdout);
    while (what == GO_ON)
        what = agree(group, now);
    muster_group_free(group);
    return what;
}

int main(int argc, char **argv)
{
    struct muster_membership now = {0};
    const char *own = getenv("MUSTER_TASK_ID");

    if (argc > 1 && own && strcmp(argv[1], own) == 0)
        return 3;
    if (muster_join(NULL, &m) != MUSTER_OK) {
        fprintf(stderr, "epochs: %s\n", muster_last_error());
        return 8;
    }
    do {
        if (muster_membership_next(m, &now, MUSTER_FOREVER) != MUSTER_OK) {
            fprintf(stderr, "epochs: %s\n", muster_last_error());
            return 7;
        }
    } while (now.rank >= 0 && steps(&now) != STOPS);
    return muster_leave(m) == MUSTER_OK ? 0 : 8;
}
