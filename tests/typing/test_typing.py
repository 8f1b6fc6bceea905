"""Strict type checking of kernels, and of the mistakes it is there to find."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tscript

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
UNKNOWN = {"reportUnknownParameterType", "reportUnknownVariableType", "reportUnknownMemberType"}

pytestmark = pytest.mark.timeout(120)


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


PROGRAM = """\
from typing import assert_type

import tscript
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.script import tirx
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
assert_type(tirx.max(1, 2), PrimExpr)
checked: tscript.IRModule = M
assert_type(M["g"], PrimFunc)
"""


def _silenced(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("# pyright:")) + "\n"


ANNOTATED = (HERE / "annotated.py").read_text()
HANDLES = (HERE / "handles.py").read_text()
KERNELS = (HERE / "kernels.py").read_text()
CALL_FORM = {"reportInvalidTypeForm": "none"}
# folder: (text of its one file, rules that are changed)
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "annotated": (ANNOTATED, {}),
    "handles": (HANDLES, {}),
    "kernels": (KERNELS, CALL_FORM),
    "silenced": (_silenced(KERNELS), CALL_FORM),
    "strict": (_silenced(KERNELS), {}),
    "mistakes": (MISTAKES, CALL_FORM),
    "program": (PROGRAM, {}),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What the checker, in strict mode, says about each case. One run, since most of its time is starting."""
    if importlib.util.find_spec("basedpyright") is None:
        pytest.skip("basedpyright is not installed")
    root = tmp_path_factory.mktemp("typing")
    for name, (text, _) in CASES.items():
        (root / name).mkdir()
        (root / name / f"{name}_case.py").write_text(text)
    config = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT)],  # for the files of the package itself
        "executionEnvironments": [
            {"root": name, "extraPaths": [str(ROOT)], **rules} for name, (_, rules) in CASES.items()
        ],
    }
    (root / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(root), "--pythonpath", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    result = json.loads(done.stdout)
    assert result["summary"]["filesAnalyzed"] == len(CASES)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CASES}
    for d in result["generalDiagnostics"]:
        if d["severity"] != "information":
            found[Path(d["file"]).parent.name].append(d)
    return found


def told(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{Path(d['file']).name}:{d['range']['start']['line'] + 1}: {d['message']} ({d.get('rule')})" for d in found
    ]


def test_kernels_on_handles_pass_with_every_rule_on(reports: dict[str, list[dict[str, Any]]]) -> None:
    assert "pyright:" not in HANDLES
    assert told(reports["handles"]) == []


def test_kernels_on_annotated_buffers_pass_with_every_rule_on(reports: dict[str, list[dict[str, Any]]]) -> None:
    assert "pyright:" not in ANNOTATED
    assert told(reports["annotated"]) == []


def test_the_call_form_breaks_no_rule_but_those_that_are_off(reports: dict[str, list[dict[str, Any]]]) -> None:
    assert {d["rule"] for d in reports["strict"]} == UNKNOWN | set(CALL_FORM)


def test_kernels_on_buffers_pass_with_the_rules_on_their_types_off(reports: dict[str, list[dict[str, Any]]]) -> None:
    assert told(reports["kernels"]) == []


def test_buffers_in_signatures_break_no_other_rule(reports: dict[str, list[dict[str, Any]]]) -> None:
    # What the annotation's call gives is unknown to the checker; nothing else may be wrong.
    assert {d["rule"] for d in reports["silenced"]} == UNKNOWN


def test_mistakes_in_kernels_are_found(reports: dict[str, list[dict[str, Any]]]) -> None:
    lines = {d["range"]["start"]["line"] + 1 for d in reports["mistakes"]}
    assert lines >= {8, 9, 10, 11, 12, 13, 14, 15, 18, 23}, told(reports["mistakes"])


def test_types_are_those_of_the_program(reports: dict[str, list[dict[str, Any]]]) -> None:
    assert told(reports["program"]) == []


@pytest.mark.parametrize("name", ["annotated", "handles", "kernels"])
def test_the_kernels_are_read_and_print_what_reads_back(name: str) -> None:
    spec = importlib.util.spec_from_file_location(f"typing_{name}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    programs = [v for v in vars(module).values() if isinstance(v, (tscript.IRModule, tscript.tir.PrimFunc))]
    assert len(programs) >= 4
    for program in programs:
        text = program.script()
        again = tscript.script.from_source(text)
        tscript.ir.assert_structural_equal(again, program)
        assert again.script() == text
