"""A program of mpi4py, as anybody might write it: mpi.py WHAT. It knows nothing of muster."""
import os
import sys

WHAT = sys.argv[1]
if WHAT == "early" and os.environ["RANK"] == "1":
    sys.exit(0)  # before MPI_Init, which the import calls

from mpi4py import MPI

world = MPI.COMM_WORLD
if WHAT == "window":
    window = MPI.Win.Allocate_shared(8 if world.rank == 0 else 0, 8, comm=world)
    memory = window.Shared_query(0)[0]
    if world.rank == 0:
        memory[0] = 42
    world.Barrier()
    assert memory[0] == 42
total = world.allreduce(1 << world.rank)
assert total == (1 << world.size) - 1, total
if WHAT == "abort" and world.rank == world.size - 1:
    world.Abort(7)
if WHAT == "abort":
    world.recv(source=world.size - 1)
sys.stdout.write("process %d of %d: %s\n" % (world.rank, world.size, MPI.Get_library_version().split("\n")[0].split(",")[0]))
sys.stdout.flush()
