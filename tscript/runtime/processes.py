"""Jobs in processes of their own, so that a crash, a hang or a leak costs one job and nothing else."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from multiprocessing import Pipe
from pathlib import Path
from typing import IO, Any, Final

import cloudpickle
import psutil

from tscript.support.errors import TScriptError
from tscript.target.detect import core_count

_pickled: Callable[[Any], bytes] = cloudpickle.dumps  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
_ROOT: Final = str(Path(__file__).resolve().parents[2])
_TAIL: Final = 2000


class WorkerDied(TScriptError):
    """A job ended the process that it ran in."""


class WorkerTimeout(TScriptError, TimeoutError):
    """A job took longer than it may, and was killed with all processes that it had started."""


class WorkerError(TScriptError):
    """A job raised an exception that cannot be sent here; its traceback is the message."""


class ProcessExecutor(Executor):
    """Runs functions in up to `max_workers` processes (as many as there are cores, if None).

    Unlike the executor of the standard library, it survives its jobs: one that crashes, or is still at work after
    `timeout_sec` seconds, fails with `WorkerDied` or `WorkerTimeout`, and a new process takes its place. A process is
    replaced after `max_jobs` jobs, so that memory which jobs leak is bounded. `initializer()` runs first in each
    process. Functions need not be importable. What jobs print goes nowhere, unless `show_output`; the end of what a
    crashed job wrote to standard error is in the message of its error.

    >>> with ProcessExecutor(1) as pool:
    ...     pool.submit(pow, 2, 10).result()
    1024
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        timeout_sec: float | None = None,
        max_jobs: int = 200,
        initializer: Callable[[], object] | None = None,
        show_output: bool = False,
    ) -> None:
        self.max_workers = core_count() if max_workers is None else max_workers
        if self.max_workers < 1 or max_jobs < 1:
            raise ValueError(f"max_workers and max_jobs are at least 1, not {max_workers} and {max_jobs}")
        if timeout_sec is not None and timeout_sec <= 0:
            raise ValueError(f"timeout_sec is above 0, not {timeout_sec}")
        self._timeout = timeout_sec
        self._max_jobs = max_jobs
        self._initializer = initializer
        self._show_output = show_output
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        self._is_shut = False
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn(*args, **kwargs)` in a process; its future result.

        Raises RuntimeError after `shutdown`, and whatever pickling the arguments raises.
        """
        return self._put(_Job(_pickled((fn, args, kwargs)), Future(), self._timeout))

    def submit_within(self, timeout_sec: float | None, fn: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """As `submit`, for a job that has a limit of its own (None: none).

        >>> with ProcessExecutor(1, timeout_sec=0.001) as pool:
        ...     pool.submit_within(60, pow, 2, 10).result()
        1024
        """
        return self._put(_Job(_pickled((fn, args, {})), Future(), timeout_sec))

    def _put(self, job: _Job) -> Future[Any]:
        with self._lock:
            if self._is_shut:
                raise RuntimeError("this executor was shut down; make a new one")
            self._waiting += 1
            if self._waiting > len(self._threads) and len(self._threads) < self.max_workers:
                thread = threading.Thread(target=self._work, name="tscript-worker", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._queue.put(job)
        return job.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs; with `cancel_futures` drop those that wait, with `wait` stay until the others are done."""
        with self._lock:
            self._is_shut = True
            if cancel_futures:
                with contextlib.suppress(queue.Empty):
                    while True:
                        job = self._queue.get_nowait()
                        if job is not None:
                            job.future.cancel()
            for _ in self._threads:
                self._queue.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        """What the thread of one process does: feed it, watch it, replace it."""
        worker: _Worker | None = None
        try:
            while (job := self._queue.get()) is not None:
                if job.future.set_running_or_notify_cancel():
                    worker = self._run(job, worker)
                with self._lock:
                    self._waiting -= 1
        finally:
            if worker is not None:
                worker.close()

    def _run(self, job: _Job, worker: _Worker | None) -> _Worker | None:
        """Have a job done; the process for the next one."""
        try:
            if worker is None:
                worker = _Worker(self._initializer, self._show_output)
            ok, result = worker.ask(job.payload, job.timeout)
        except BaseException as e:
            if worker is not None:
                worker.kill()
            job.future.set_exception(e)
            return None
        if ok:
            job.future.set_result(result)
        else:
            exception, text = result
            job.future.set_exception(_with_trace(exception, text))
        if worker.jobs >= self._max_jobs:
            worker.close()
            return None
        return worker


def _with_trace(exception: BaseException | None, text: str) -> BaseException:
    if exception is None:
        return WorkerError(text)
    exception.__cause__ = WorkerError(f"in the process of the job:\n{text}")
    return exception


class _Job:
    def __init__(self, payload: bytes, future: Future[Any], timeout: float | None) -> None:
        self.payload = payload
        self.future = future
        self.timeout = timeout


class _Worker:
    """One process, with a pipe each way."""

    def __init__(self, initializer: Callable[[], object] | None, show_output: bool) -> None:
        self.jobs = 0
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        theirs_in, self._to = Pipe(duplex=False)
        self._from, theirs_out = Pipe(duplex=False)
        code = (
            f"import sys; sys.path.insert(0, {_ROOT!r}); from tscript.runtime.worker import serve; "
            f"serve({theirs_in.fileno()}, {theirs_out.fileno()})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=None if show_output else subprocess.DEVNULL,
            stderr=None if show_output else self._errors,
            pass_fds=(theirs_in.fileno(), theirs_out.fileno()),
            start_new_session=True,
        )
        theirs_in.close()
        theirs_out.close()
        self._to.send(list(sys.path))
        if initializer is not None:
            ok, result = self.ask(_pickled((initializer, (), {})), None)
            if not ok:
                raise _with_trace(*result)

    def ask(self, payload: bytes, timeout: float | None) -> tuple[bool, Any]:
        """Whether a job succeeded, and its result or what it raised."""
        self.jobs += 1
        try:
            self._to.send_bytes(payload)
            if not self._from.poll(timeout):
                raise WorkerTimeout(f"killed after {timeout:g} seconds")
            return pickle.loads(self._from.recv_bytes())
        except (EOFError, OSError) as e:
            if isinstance(e, WorkerTimeout):
                raise
            raise WorkerDied(self._end()) from e

    def _end(self) -> str:
        """How the process ended, in words."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "the process closed its pipes and went on"
        how = f"exit code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"signal {signal.Signals(-code).name}"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _TAIL))
        said = self._errors.read().decode(errors="replace").strip()
        return f"the process died ({how})" + (f"; it said:\n{said}" if said else "")

    def kill(self) -> None:
        """End the process and all that it started."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    child.kill()
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Let the process end, as it does when its pipe is closed."""
        for connection in (self._to, self._from):
            connection.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()
