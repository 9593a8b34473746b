"""muster.torch.Checkpointer: a model, its optimizer and the generators of random numbers, saved and restored in memory."""
from typing import Any, Dict, Optional

import torch

from muster.checkpoint import Checkpoint, Info, Shard
from muster.errors import InvalidArgument, NotFound


def _shard_of(tensor: Any) -> Optional[Shard]:
    """Of a tensor that is sharded over ranks, in a model or in a checkpoint; None: it is whole."""
    if isinstance(tensor, Shard):
        return tensor
    if not hasattr(tensor, "to_local"):
        return None
    mesh = tensor.device_mesh
    return Shard(tensor.to_local(), tuple(tensor.shape), tuple(tensor.stride()), tuple(tensor.placements), tuple(mesh.shape),
                 tuple(mesh.get_coordinate() or ()))


def _words(tensor: Any) -> str:
    shard = _shard_of(tensor)
    words = "%s[%s]" % (str((shard.local if shard else tensor).dtype)[6:], ",".join(map(str, tensor.shape)))
    if shard:
        words += " as part %s of %s by %s" % (",".join(map(str, shard.at)), "x".join(map(str, shard.mesh)),
                                              ", ".join(map(str, shard.placements)))
    return words


class Checkpointer:
    """Saves and restores what a rank trains: every rank of the job has one, and calls it in the same steps.

        checkpointer = muster.torch.Checkpointer(model, optimizer)
        step = checkpointer.restore()                 # 0: from the beginning
        while step < steps:
            ...
            step += 1
            checkpointer.save(step)

    model      a module, also one that DistributedDataParallel wraps or that fully_shard() has sharded: each rank saves and
               restores its own shards; not FullyShardedDataParallel
    optimizer  or None
    every      save() saves at each such step alone
    name       the checkpoint's; task: a `muster.Task`, without it the one that this process has joined, or now joins
    """

    def __init__(self, model: Any, optimizer: Any = None, every: int = 1, name: str = "model", task: Any = None) -> None:
        from muster.torch import joined
        self.model, self.optimizer, self.every = model, optimizer, every
        self.extra: "Dict[str, Any]" = {}  # of the last restore()
        self.checkpoint = Checkpoint(name, task if task is not None else joined())

    def _state(self, extra: "Dict[str, Any]") -> "Dict[str, Any]":
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer and self.optimizer.state_dict(),
                 "random": torch.get_rng_state(), "extra": extra}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["random_cuda"] = torch.cuda.get_rng_state()
        return state

    def save(self, step: int, timeout: Optional[float] = None, **extra: Any) -> int:
        """The generation that this rank has saved its part of, 0: it is not one of the steps. `extra` is found in
        self.extra by restore()."""
        if step % self.every:
            return 0
        return self.checkpoint.save(self._state(extra), step, timeout)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Until all ranks have saved what this one saved last."""
        self.checkpoint.wait(0, timeout)

    def newest(self) -> Optional[Info]:
        return self.checkpoint.newest()

    def _check(self, saved: "Dict[str, Any]") -> None:
        own = self.model.state_dict()
        for name, tensor in own.items():
            if name not in saved:
                raise NotFound("the checkpoint has no %s of the model" % name)
            other = saved[name]
            if isinstance(tensor, torch.Tensor) and _words(tensor) != _words(other):
                raise InvalidArgument("%s of the model is %s in the checkpoint, not %s" % (name, _words(other), _words(tensor)))
        for name in saved:
            if name not in own:
                raise NotFound("the model has no %s, which is in the checkpoint" % name)

    def restore(self, rank: Optional[int] = None) -> int:
        """Go on from the newest whole generation: its step; 0: there is none, and nothing is changed. `rank`: another
        rank's part, as a job of another size has to say."""
        saved = self.checkpoint.load(rank, copy=False)
        if saved is None:
            return 0
        state = saved.state
        self._check(state["model"])
        meshes = _meshes_of(self.model)
        self.model.load_state_dict({name: _copied(value, meshes) if isinstance(value, Shard) else value
                                    for name, value in state["model"].items()})
        if self.optimizer is not None and state["optimizer"] is not None:
            self.optimizer.load_state_dict(_copied(state["optimizer"], meshes))
        torch.set_rng_state(state["random"].clone())
        if "random_cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["random_cuda"].clone())
        self.extra = _copied(state["extra"], meshes)
        return saved.step

    def close(self) -> None:
        self.checkpoint.close()


def _meshes_of(model: Any) -> "Dict[Any, Any]":
    """The meshes that the model's own tensors are sharded over, each by its shape and this rank's place."""
    shards = [tensor for tensor in model.state_dict().values() if hasattr(tensor, "to_local")]
    return {(tuple(t.device_mesh.shape), tuple(t.device_mesh.get_coordinate() or ())): t.device_mesh for t in shards}


def _sharded(shard: Shard, meshes: "Dict[Any, Any]") -> Any:
    mesh = meshes.get((shard.mesh, shard.at))
    if mesh is None:
        raise InvalidArgument("the checkpoint has a tensor %s, and the model has none that is sharded so" % _words(shard))
    from torch.distributed.tensor import DTensor
    return DTensor.from_local(shard.local.clone().to(mesh.device_type), mesh, shard.placements, run_check=False,
                              shape=torch.Size(shard.shape), stride=shard.stride)


def _copied(state: Any, meshes: "Dict[Any, Any]") -> Any:
    """Optimizers keep the tensors that they are given, and write to them."""
    if isinstance(state, torch.Tensor):
        return state.clone()
    if isinstance(state, Shard):
        return _sharded(state, meshes)
    if isinstance(state, dict):
        return {key: _copied(value, meshes) for key, value in state.items()}
    if isinstance(state, (list, tuple)) and type(state) in (list, tuple):
        return type(state)(_copied(value, meshes) for value in state)
    return state
