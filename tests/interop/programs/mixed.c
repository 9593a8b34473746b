/* A task in C, and with -DWITH_MPI one of MPI: it reads what PyTorch has set, answers, and comes to the barrier of all.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#define ME "mpi"
#else
#define ME "c"
#endif

static void check(enum muster_status status)
{
    if (status) {
        fprintf(stderr, "%s: %s\n", ME, muster_last_error());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct muster *m;
    char text[64], line[256];
    size_t len;
    int sum = 1, n;

#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
#endif
    check(argc > 1 && argv[1] && sum == 1 ? MUSTER_OK : MUSTER_INVALID_ARGUMENT);
    check(muster_join(NULL, &m));
    check(muster_kv_get(m, argv[1], MUSTER_NTS, muster_after_ms(60000), text, sizeof text - 1, &len, NULL));
    text[len] = '\0';
    check(muster_kv_set(m, "tcpstore/:" ME, MUSTER_NTS, "from " ME, MUSTER_NTS, NULL));
    check(muster_barrier_wait(m, "all", MUSTER_BARRIER_NEXT, NULL, 0, 60000000000, MUSTER_FOREVER));
    n = snprintf(line, sizeof line, "process %d of 3: %s read \"%s\" and passed the barrier\n", muster_task_id(m), ME,
                 text);
    check(write(1, line, (size_t)n) == n ? MUSTER_OK : MUSTER_INTERNAL);
    check(muster_leave(m));
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return 0;
}
