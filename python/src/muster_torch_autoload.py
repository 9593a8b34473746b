"""What `import torch` calls since PyTorch 2.5 (the entry point torch.backends). It has a module of its own, for whoever
imports torch must not load libmuster unless that is asked for: by MUSTER_TORCH=1, in a task of a job."""
import os


def autoload() -> None:
    if os.environ.get("MUSTER_TORCH") == "1" and os.environ.get("MUSTER_JOB"):
        from muster import torch
        torch.use_for_env()
