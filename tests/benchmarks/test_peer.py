"""The process that benchmarks ask for TVM's figures."""

from __future__ import annotations

import sys
import time

import psutil
import pytest


@pytest.fixture(scope="module")
def peer(benchmark_module):
    """The module of the process."""
    return benchmark_module("peer")


def started(peer, program: str):
    return peer.PeerProcess([sys.executable, "-c", program])


ECHO = "import sys\nfor line in sys.stdin:\n    print(line, end='', flush=True)\n"


def test_requests_are_answered(peer):
    process = started(peer, ECHO)
    assert process.ask({"a": [1, 2.5]}) == {"a": [1, 2.5]} and process.ask(3) == 3
    process.close()


def test_a_process_that_ends_says_so(peer):
    process = started(peer, "raise SystemExit(3)")
    with pytest.raises(RuntimeError, match="ended with status 3"):
        process.ask({})
    process.close()


def test_a_busy_process_is_ended(peer):
    process = started(peer, "import os, sys, time\nprint(os.getpid(), flush=True)\nwhile True: time.sleep(1)\n")
    number = process.ask({})
    start = time.monotonic()
    process.close()
    assert not psutil.pid_exists(number)
    assert time.monotonic() - start < 60
