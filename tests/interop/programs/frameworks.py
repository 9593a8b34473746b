"""One of several frameworks finds its rank, and how many there are, as its programs do: frameworks.py NAME.

Each says 'process R of N: ' and by what it has found that; torch's numbers are compared with the framework's.
"""
import os
import sys
import warnings

warnings.simplefilter("ignore")
RANK, SIZE = int(os.environ["MUSTER_TASK_ID"]), int(os.environ["MUSTER_NUM_TASKS"])


def say(rank, size, what):
    assert (rank, size) == (RANK, SIZE), "%s of %s, not %d of %d: %s" % (rank, size, RANK, SIZE, what)
    print("process %d of %d: %s" % (rank, size, what), flush=True)


def sum_of_ranks():
    """By torch.distributed, which is initialised: all have met."""
    import torch
    import torch.distributed as dist
    value = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(value)
    assert value.item() == SIZE * (SIZE - 1) / 2
    return dist.get_rank(), dist.get_world_size()


def lightning():
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, _):
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    trainer = lightning.Trainer(
        strategy="ddp", accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
        max_steps=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=4))
    assert sum_of_ranks() == (trainer.global_rank, trainer.world_size) and trainer.global_step == 2
    say(trainer.global_rank, trainer.world_size, "Trainer(strategy='ddp'), " + type(trainer.strategy.cluster_environment).__name__)


def fabric():
    from lightning.fabric import Fabric
    it = Fabric(strategy="ddp", accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]))
    it.launch()
    assert it.all_gather(it.global_rank).tolist() == list(range(SIZE))
    say(it.global_rank, it.world_size, "Fabric(strategy='ddp'), " + type(it.strategy.cluster_environment).__name__)


def accelerate():
    import torch
    from accelerate import Accelerator
    it = Accelerator(cpu=True)
    assert it.gather(torch.tensor([it.process_index])).tolist() == list(range(SIZE))
    assert it.local_process_index == int(os.environ["LOCAL_RANK"])
    say(it.process_index, it.num_processes, "Accelerator(), " + it.distributed_type.value)


def deepspeed():
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed
    deepspeed.ops.__compatible_ops__.clear()  # it would compile some first, for minutes
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=True, verbose=False)
    assert sum_of_ranks() == (deepspeed.comm.get_rank(), deepspeed.comm.get_world_size())
    assert deepspeed.comm.get_local_rank() == int(os.environ["LOCAL_RANK"])
    say(deepspeed.comm.get_rank(), deepspeed.comm.get_world_size(), "init_distributed()")


def megatron():
    from megatron.core import _rank_utils, _slurm_utils
    assert not _slurm_utils.is_slurm_job()
    import torch.distributed as dist
    found = _rank_utils.safe_get_rank(), _rank_utils.safe_get_world_size()
    dist.init_process_group("gloo")
    assert sum_of_ranks() == found
    say(*found, "safe_get_rank(), safe_get_world_size()")


def dask():
    """Rank 0 schedules, rank 1 goes on here, the others work; all have met in MPI."""
    import dask_mpi
    from dask_mpi.execute import send_close_signal
    from distributed import Client
    from mpi4py import MPI
    if dask_mpi.initialize(dashboard=False, exit=False):  # with exit=True it ends by atexit, which Python 3.12 refuses
        with Client() as client:
            client.wait_for_workers(SIZE - 2)
            assert client.gather(client.map(abs, [-1, -2, -3])) == [1, 2, 3]
        send_close_signal()
    say(MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size(), "initialize(), of MPI.COMM_WORLD")


def hydra():
    import hydra as it
    import torch.distributed as dist

    @it.main(version_base=None, config_path=None)
    def main(_):
        dist.init_process_group("gloo")
        say(*sum_of_ranks(), "hydra.main(), job " + it.core.hydra_config.HydraConfig.get().job.name)

    import hydra.core.hydra_config
    sys.argv[1:] = ["hydra.run.dir=.", "hydra.output_subdir=null", "hydra/job_logging=disabled", "hydra/hydra_logging=disabled"]
    main()


def record():
    """The last rank raises, under PyTorch's @record; the others fail because of that."""
    import torch.distributed as dist
    from torch.distributed.elastic.multiprocessing.errors import record as recorded

    @recorded
    def main():
        assert dist.is_torchelastic_launched()
        dist.init_process_group("gloo")
        say(*sum_of_ranks(), "is_torchelastic_launched()")
        if RANK == SIZE - 1:
            raise ArithmeticError("the loss is nan")
        dist.barrier()

    main()


globals()[sys.argv[1]]()
