"""Strict type checking of kernels, and of the mistakes it is there to find."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
UNKNOWN = {"reportUnknownParameterType", "reportUnknownVariableType", "reportUnknownMemberType"}

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed"),
    pytest.mark.timeout(120),
]


def problems(folder: Path, files: dict[str, str], **rules: str) -> list[dict[str, Any]]:
    """What the checker, in strict mode with `rules` changed, says about files of these texts."""
    for name, text in files.items():
        (folder / name).write_text(text)
    config = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(ROOT)], **rules}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "-p",
        str(folder),
        *(str(folder / n) for n in files),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return [d for d in found if d["severity"] != "information"]


def told(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{Path(d['file']).name}:{d['range']['start']['line'] + 1}: {d['message']} ({d.get('rule')})" for d in found
    ]


def test_kernels_on_handles_pass_with_every_rule_on(tmp_path: Path) -> None:
    text = (HERE / "handles.py").read_text()
    assert "pyright:" not in text
    assert told(problems(tmp_path, {"handles.py": text})) == []


def test_kernels_on_buffers_pass_with_the_rules_on_their_types_off(tmp_path: Path) -> None:
    text = (HERE / "kernels.py").read_text()
    assert told(problems(tmp_path, {"kernels.py": text}, reportInvalidTypeForm="none")) == []


def test_buffers_in_signatures_break_no_other_rule(tmp_path: Path) -> None:
    text = (HERE / "kernels.py").read_text()
    silenced = "\n".join(line for line in text.splitlines() if not line.startswith("# pyright:"))
    found = problems(tmp_path, {"kernels.py": silenced + "\n"}, reportInvalidTypeForm="none")
    # What the annotation's call gives is unknown to the checker; nothing else may be wrong.
    assert {d["rule"] for d in found} == UNKNOWN


MISTAKES = """\
from tscript.script import ir as I
from tscript.script import tir as T


@T.prim_func
def f(a: T.handle, n: T.int32) -> None:
    A = T.match_buffer(a, (n, 8), "float32")
    for i, j in T.grid(4, 8, 2):
        A[i, j] = T.flot32(0)
    for i in T.serial(8, anotations={}):
        A[i, 0] = T.exp()
    with T.blok("B"):
        A[0, 0] = T.axis.spacial(8, n)
    A.shpae
    T.Cast(32, A[0, 0])


@I.ir_modul
class M:
    pass


f.skript()
"""


def test_mistakes_in_kernels_are_found(tmp_path: Path) -> None:
    found = problems(tmp_path, {"mistakes.py": MISTAKES}, reportInvalidTypeForm="none")
    lines = {d["range"]["start"]["line"] + 1 for d in found}
    assert lines >= {8, 9, 10, 11, 12, 13, 14, 15, 18, 23}, told(found)


def test_types_are_those_of_the_program(tmp_path: Path) -> None:
    text = """\
from typing import assert_type

import tscript
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.tir import Buffer, PrimExpr, PrimFunc, Var


@T.prim_func
def f(a: T.handle, n: T.int32) -> T.int32:
    A = T.match_buffer(a, (n, 8))
    assert_type(A, Buffer)
    assert_type(A[0, n], PrimExpr)
    expr: PrimExpr = n
    assert_type(expr + n, PrimExpr)
    for i, j in T.grid(n, 8):
        assert_type(i, Var)
        assert_type(j * 2 + n, PrimExpr)
    for k in T.grid(n):
        assert_type(k, Var)
    for many in T.grid(1, 2, 3, 4, 5):
        assert_type(many, tuple[Var, ...])
    vi, vj = T.axis.remap("SS", [n, n])
    assert_type(vi, Var)
    assert_type(vj, Var)
    assert_type(T.max(A[0, 0], 0), PrimExpr)
    assert_type(T.float32(1), PrimExpr)
    assert_type(T.int8x4(), Var)
    with T.allocate([4], "int8") as p:
        assert_type(p, Var)
    return n


@I.ir_module
class M:
    @T.prim_func
    def g(a: T.handle) -> None:
        p = T.handle("float32", "shared")
        assert_type(p, Var)

    @T.prim_func(private=True)
    def h(x: T.float32, n: T.int64) -> T.float32:
        if n > 0:
            return T.float32(0)
        return x + 1


assert_type(f, PrimFunc)
checked: tscript.IRModule = M
assert_type(M["g"], PrimFunc)
"""
    assert told(problems(tmp_path, {"program.py": text})) == []
