"""A backend of joblib: `import muster.joblib`, then `joblib.parallel_config("muster", n_jobs=4)`.

The calls of joblib.Parallel run in the workers of a muster.Executor, made for as long as the Parallel is.
"""
import os
from typing import Any, Callable, Optional

import joblib
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

from muster.executor import Executor, Future


class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    supports_retrieve_callback = True
    default_n_jobs = -1
    _executor: Optional[Executor] = None

    def effective_n_jobs(self, n_jobs: Optional[int]) -> int:
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 has no meaning")
        cpus = len(os.sched_getaffinity(0))
        return max(1, cpus + 1 + n_jobs) if n_jobs is not None and n_jobs < 0 else n_jobs or cpus

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        n_jobs = self.effective_n_jobs(n_jobs)
        self.parallel, self._executor = parallel, Executor(n_jobs)
        return n_jobs

    def submit(self, func: Callable[..., Any], callback: Optional[Callable[[Any], Any]] = None) -> Future:
        assert self._executor is not None
        future = self._executor.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Future) -> Any:
        return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        self.terminate(cancel_futures=True)
        if ensure_ready:
            self.configure(self.parallel.n_jobs, self.parallel)

    def terminate(self, cancel_futures: bool = False) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=cancel_futures)


joblib.register_parallel_backend("muster", Backend)
