"""An installation of Apache TVM in a process of its own, asked by lines of JSON, and programs in its spelling."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Any

import tscript


class PeerProcess:
    """A process that answers each line of JSON with another. Raises RuntimeError where it ends before it answers."""

    def __init__(self, command: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory()  # away from this source tree and its names
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self._folder.name
        )

    def ask(self, request: Any) -> Any:
        """The answer to a request."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # its end says why
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the peer ended with status {self._process.wait()}; see its message above")
        return json.loads(answer)

    def close(self) -> None:
        """End the process, in the middle of its work if need be."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it ended by itself
            self._process.stdin.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._folder.cleanup()


def later_spelling(text: str) -> str:
    r"""A program as TVM 0.25 spells it.

    >>> later_spelling('@T.prim_func\\ndef k(): ...\\n')
    '@T.prim_func(s_tir=True)\\ndef k(): ...'
    """
    text = text.replace("@T.prim_func", "@T.prim_func(s_tir=True)")
    return text.replace("T.block(", "T.sblock(").replace("T.alloc_buffer(", "T.sblock_alloc_buffer(").strip()


def later_program(func: tscript.tir.PrimFunc) -> str:
    """A function as TVM 0.25 reads it, without attributes, which it calls by other names."""
    lines = [line for line in func.script().splitlines() if "func_attr" not in line and "import" not in line]
    return "# from tvm.script import tirx as T\n" + later_spelling("\n".join(lines))
