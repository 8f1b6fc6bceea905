"""Jobs in processes of their own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tscript.runtime.processes import ProcessExecutor, WorkerDied, WorkerError, WorkerTimeout

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills by signal")


def test_results_and_exceptions_come_back():
    def fails():
        raise KeyError("not there")

    with ProcessExecutor(2, timeout_sec=60) as pool:
        assert list(pool.map(lambda x: x * x, range(20))) == [x * x for x in range(20)]
        with pytest.raises(KeyError, match="not there") as caught:
            pool.submit(fails).result()
        assert "in fails" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="was shut down"):
        pool.submit(abs, 1)


def test_an_exception_that_cannot_be_sent_is_told_of():
    def fails():
        class Local(Exception):
            def __init__(self, a, b):
                super().__init__("of its own kind")

        raise Local(1, 2)

    with ProcessExecutor(1, timeout_sec=60) as pool, pytest.raises(WorkerError, match="of its own kind"):
        pool.submit(fails).result()


def test_a_crash_costs_one_job():
    def crash():
        print("about to fall", file=sys.stderr, flush=True)
        ctypes.string_at(0)

    with ProcessExecutor(1, timeout_sec=60) as pool:
        futures = [pool.submit(crash) if k == 1 else pool.submit(abs, -k) for k in range(4)]
        with pytest.raises(WorkerDied, match=r"(?s)signal SIGSEGV.*about to fall"):
            futures[1].result()
        assert [futures[k].result() for k in (0, 2, 3)] == [0, 2, 3]
        with pytest.raises(WorkerDied, match="exit code 3"):
            pool.submit(os._exit, 3).result()


def test_a_hanging_job_is_killed_with_what_it_started(tmp_path):
    note = tmp_path / "pid"

    def hang():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        note.write_text(str(child.pid))
        while True:
            pass

    with ProcessExecutor(1, timeout_sec=3) as pool:
        start = time.monotonic()
        with pytest.raises(WorkerTimeout, match="killed after 3 seconds"):
            pool.submit(hang).result()
        assert time.monotonic() - start < 30
        assert pool.submit(abs, -1).result() == 1
    child = int(note.read_text())
    for _ in range(100):
        if not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the child of the job lives on")


def test_processes_are_replaced_and_prepared():
    def prepare():
        os.environ["PREPARED"] = "yes"

    def look():
        return os.getpid(), os.environ.get("PREPARED")

    with ProcessExecutor(1, timeout_sec=60, max_jobs=2, initializer=prepare) as pool:
        seen = [pool.submit(look).result() for _ in range(4)]
    assert {answer for _, answer in seen} == {"yes"}
    assert len({pid for pid, _ in seen}) > 1
    assert os.getpid() not in {pid for pid, _ in seen}


def test_workers_do_not_outlive_their_owner(tmp_path):
    code = f"""
import os, time
from tscript.runtime.processes import ProcessExecutor
def hang(path):
    open(path, "w").write(str(os.getpid()))
    while True: pass
pool = ProcessExecutor(1)
pool.submit(hang, {str(tmp_path / "pid")!r})
while not os.path.exists({str(tmp_path / "pid")!r}) or not open({str(tmp_path / "pid")!r}).read(): time.sleep(0.01)
os.kill(os.getpid(), {int(signal.SIGKILL)})
"""
    subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the worker lives on")


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="at least 1, not 0"):
        ProcessExecutor(0)
    with pytest.raises(ValueError, match="timeout_sec is above 0"):
        ProcessExecutor(1, timeout_sec=0)


def test_jobs_that_wait_can_be_cancelled():
    pool = ProcessExecutor(1)
    running = pool.submit(time.sleep, 0.5)
    waiting = [pool.submit(abs, 1) for _ in range(3)]
    time.sleep(0.1)
    pool.shutdown(cancel_futures=True)
    assert running.result() is None
    assert all(f.cancelled() for f in waiting)
