/*
 * bench/peers/mpi_init.c: an MPI program that says when it is behind MPI_Init, for bench/launch.c.
 *
 * Built with mpicc.mpich and with mpicc.openmpi, and started by each one's own launcher and by muster's. A rank that
 * finds itself alone though the launcher started several ends the run: that would be a start for nothing.
 *
 * Usage: LAUNCHER… mpi_init RANKS FILE
 */
#include "../measure.h"

#include <fcntl.h>
#include <mpi.h>

int main(int argc, char **argv)
{
    uint64_t now;
    int rank, size, fd;

    alarm(120);
    MPI_Init(&argc, &argv);
    now = bench_now_ns();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3)
        bench_die("usage: mpi_init RANKS FILE");
    if (size != (int)bench_number(argv[1], 1, 1024))
        bench_die("there are %d ranks, not %s", size, argv[1]);
    fd = open(argv[2], O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, &now, sizeof now, (off_t)rank * 8) != sizeof now)
        bench_die("%s: %s", argv[2], strerror(errno));
    close(fd);
    MPI_Finalize();
    return 0;
}
