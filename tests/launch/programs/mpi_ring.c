/*
 * tests/launch/programs/mpi_ring.c: an MPI program as anybody might write it, which knows nothing of muster: built by
 * mpi_test.sh with the compilers of MPICH and Open MPI, never with ours. Its first argument says what it does.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

/* A number goes once around. */
static void ring(void)
{
    int token = 100;

    if (size == 1)
        return;
    if (rank > 0)
        MPI_Recv(&token, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    token += rank;
    MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Recv(&token, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("ring of %d: %d\n", size, token);
    }
}

static void sum(void)
{
    int all = 0, mine = 1 << rank;

    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == size - 1)
        printf("sum over %d: %d\n", size, all);
}

/* Between two rings, until the file is there. */
static void hold(const char *path)
{
    ring();
    if (rank == 0) {
        printf("held\n");
        fflush(stdout);
        while (access(path, F_OK) != 0)
            usleep(20000); /* sleep: between two looks */
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int *appnum, found;

    if (strcmp(what, "never") == 0)
        return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(what, "abort") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    if (strcmp(what, "leave") == 0 && rank == 1) {
        fflush(stdout);
        _Exit(0);
    }
    if (strcmp(what, "appnum") == 0) {
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found);
        printf("rank %d is of command %d\n", rank, found ? *appnum : -1);
    }
    if (strcmp(what, "hold") == 0)
        hold(argv[2]);
    ring();
    sum();
    MPI_Finalize();
    return 0;
}
