"""A kernel typed at the prompt of Python."""

import os
import pty
import select
import sys
import time
from pathlib import Path

import pytest

from tscript.script import tir as T

TYPED = [
    "from tscript.script import tir as T, ir as I",
    "@T.prim_func",
    'def f(C: T.Buffer((4,), "int32")):',
    "    C[0] = 40 + 2",
    "",
    "'C[0] = 42' in f.script() and 'f read'",
    "@I.ir_module",
    "class M:",
    "    @T.prim_func",
    '    def g(C: T.Buffer((4,), "int32")):',
    "        C[1] = 7",
    "",
    "'C[1] = 7' in M.script() and 'M read'",
    "exit()",
]


def run_prompt(lines: list[str], home: Path) -> str:
    """What a terminal shows while the lines are typed at the prompt."""
    package = Path(T.__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(package), "HOME": str(home), "TERM": "dumb"}
    # pty.fork warns, from Python 3.12 on, where threads run; the child does nothing but exec.
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-q"], env)
    shown = b""
    deadline = time.monotonic() + 40
    pending = list(lines)
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.05)
        if ready:
            try:
                data = os.read(terminal, 4096)
            except OSError:
                break
            if not data:
                break
            shown += data
        elif pending and shown.rstrip(b" ").endswith((b">>>", b"...")):
            os.write(terminal, pending.pop(0).encode() + b"\n")
    os.close(terminal)
    os.waitpid(pid, 0)
    return shown.decode(errors="replace")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")
def test_functions_and_classes_typed_at_the_prompt_are_read(tmp_path: Path) -> None:
    if sys.version_info < (3, 13):
        pytest.importorskip("readline")
    shown = run_prompt(TYPED, tmp_path)
    assert "\n'f read'" in shown.replace("\r", "") and "\n'M read'" in shown.replace("\r", ""), shown
