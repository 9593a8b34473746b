/*
 * bench/peers/mpi_barrier.c: MPI_Barrier of MPICH or Open MPI, by the same loop and pinning as muster's.
 *
 * Built once with mpicc.mpich and once with mpicc.openmpi; the launcher is told to bind nothing, because each rank
 * pins itself by the policy of all contenders.
 *
 * Usage: mpirun -n N mpi_barrier WHO SECONDS LEAST MOST [METRIC]
 */
#include "../barrier_loop.h"

#include <mpi.h>

static void arrive(void *context)
{
    (void)context;
    if (MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS)
        bench_die("MPI_Barrier failed");
}

static uint64_t share(void *context, uint64_t value)
{
    (void)context;
    MPI_Bcast(&value, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return value;
}

int main(int argc, char **argv)
{
    struct bench_barrier barrier = {.barrier = arrive, .share = share};
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    struct bench_cpus cpus;
    int len;

    alarm(120);
    MPI_Init(&argc, &argv);
    if (argc != 5 && argc != 6)
        bench_die("usage: mpi_barrier WHO SECONDS LEAST MOST [METRIC]");
    barrier.metric = argv[5];
    MPI_Comm_rank(MPI_COMM_WORLD, &barrier.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &barrier.size);
    bench_cpus_read(&cpus);
    bench_pin(&cpus, barrier.rank);
    bench_barrier_run(&barrier, argv[1], bench_number(argv[2], 0.001, 60), (uint64_t)bench_number(argv[3], 16, 1e8),
                      (uint64_t)bench_number(argv[4], 16, 1e8));
    if (barrier.rank == 0) {
        MPI_Get_library_version(version, &len);
        version[strcspn(version, "\n,")] = '\0';
        for (char *tab = version; (tab = strchr(tab, '\t'));)
            *tab = ' ';
        bench_emit_fact(argv[1], "%s", version);
    }
    MPI_Finalize();
    return 0;
}
