"""What a process of a `ProcessExecutor` does: take a job, answer, take the next."""

from __future__ import annotations

import ctypes
import pickle
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


def serve(jobs: int, answers: int) -> None:
    """Answer jobs until their pipe is closed. The first message is the search path for modules.

    A job is a pickled `(function, arguments, keywords)`; an answer is `(True, result)` or `(False, (exception or None,
    traceback))`, pickled.
    """
    # A worker that is busy when its owner dies must not live on, and Ctrl-C is for the owner to handle.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = Connection(jobs, writable=False), Connection(answers, readable=False)
    sys.path[:] = source.recv()
    while True:
        try:
            payload = source.recv_bytes()
        except (EOFError, OSError):
            return
        sink.send_bytes(_answer(payload))


def _answer(payload: bytes) -> bytes:
    try:
        function, args, keywords = pickle.loads(payload)
        return pickle.dumps((True, function(*args, **keywords)))
    except BaseException as e:  # whatever it is, it is the answer
        text = traceback.format_exc()
        sys.stderr.flush()
        return pickle.dumps((False, (_sendable(e), text)))


def _sendable(e: BaseException) -> Any:
    """The exception, if it comes through pickling unharmed."""
    try:
        back = pickle.loads(pickle.dumps(e))
    except Exception:
        return None
    return e if type(back) is type(e) else None
