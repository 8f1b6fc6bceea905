"""The names under which users find everything."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tscript
from tscript import tir
from tscript.ir.expr import Var
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.script import tirx

ROOT = Path(tscript.__file__).parents[1]


def stub_of(module: Any) -> ast.Module:
    return ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())


def stub_names(module: Any) -> set[str]:
    names: set[str] = set()
    for node in stub_of(module).body:
        if isinstance(node, ast.ImportFrom):
            if node.names[0].name == "*":
                names.update(importlib.import_module(str(node.module)).__all__)
            else:
                names.update(a.asname for a in node.names if a.asname == a.name)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(t.id for t in node.targets if isinstance(t, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {n for n in names if not n.startswith("_")}


def public(module: Any) -> set[str]:
    return {n for n in vars(module) if not n.startswith("_") and n != "annotations"}


@pytest.mark.parametrize("module", [T, I], ids=["T", "I"])
def test_stub_has_the_names_of_the_module(module: Any) -> None:
    assert stub_names(module) == public(module)


def test_stub_functions_have_the_parameters_of_the_real_ones() -> None:
    skipped = {"prim_func", "macro", "grid", "buffer_decl"}
    compared = 0
    for node in stub_of(T).body:
        # A private one helps with types and is nowhere else.
        if isinstance(node, ast.FunctionDef) and node.name not in skipped and not node.name.startswith("_"):
            a = node.args
            written = [p.arg for p in (*a.posonlyargs, *a.args)] + [p.arg for p in a.kwonlyargs]
            real = [
                p.name
                for p in inspect.signature(getattr(T, node.name)).parameters.values()
                if p.kind != p.VAR_POSITIONAL
            ]
            assert written == real, node.name
            compared += 1
    assert compared > 30


def test_tirx_offers_the_same_functions() -> None:
    assert {n: getattr(tirx, n) for n in public(tirx)} == {n: getattr(T, n) for n in public(T)}
    assert tirx.float32x3(0.0).dtype == T.float32x3(0.0).dtype == "float32x3"


def test_a_misspelt_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="T has no 'flot32'"):
        T.flot32
    with pytest.raises(AttributeError, match="no attribute 'biuld'"):
        tscript.biuld


def test_star_import_of_tir_gives_what_it_lists() -> None:
    for name in tir.__all__:
        assert hasattr(tir, name), name
    assert not hasattr(tir, "Scedule")
    assert set(tir.op.__all__) <= set(tir.__all__)


def test_tir_has_node_classes_where_T_has_functions() -> None:
    n = tir.Var("n", "int32")
    assert isinstance(n + 1, tir.Add)
    assert isinstance(T.Add(n, 0), tir.Add)
    assert isinstance(tir.Select(n > 0, n, n), tir.Select)
    assert tir.op.exp is T.exp
    assert tir.const(1, "int8").dtype == "int8"


def test_all_and_any_join_conditions() -> None:
    a, b, c = (Var(n, "bool") for n in "abc")
    assert tir.all(a, b, c) is tir.And(tir.And(a, b), c)
    assert tir.any(a, b) is tir.Or(a, b)
    assert tir.all() is tir.const(True)
    assert tir.any() is tir.const(False)


def test_module_paths_of_tvm_work() -> None:
    from tscript.ir.module import IRModule
    from tscript.tir.stmt_functor import post_order_visit

    assert IRModule is tscript.IRModule is tscript.ir.IRModule is I.IRModule
    assert post_order_visit is tir.stmt_functor.post_order_visit
    assert tscript.script.ir_module is I.ir_module
    assert tscript.error.DiagnosticError is tscript.DiagnosticError is tscript.error.ScriptError


def test_names_are_loaded_when_asked_for() -> None:
    code = """
import sys, tscript
for name in tscript.__all__:
    assert getattr(tscript, name) is not None, name
import tscript.lower.pipeline
assert callable(tscript.lower) and callable(tscript.build) and tscript.nd.array is sys.modules["tscript.nd"].array
from tscript.lower import pipeline
assert {n for n in dir(tscript) if not n.startswith("__")} == set(tscript.__all__) - {"__version__"}
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=ROOT, check=True)


def test_text_may_use_the_usual_names() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    n = T.meta_var(tscript.tir.const(2))
    A[n] = tir.exp(A[0])
"""
    assert "T.exp(A[0])" in tscript.script.from_source(text).script()


def test_ir_transform_replaces_before_and_after() -> None:
    x, y = Var("x"), Var("y")
    assert tir.stmt_functor.ir_transform(x + 1, None, lambda v: y, ["tir.Var"]) is y + 1
    e = (x + 1) * (x + 1)
    assert tir.stmt_functor.ir_transform(e, lambda n: y, None, ["Add"]) is y * y
    seen: list[str] = []
    kept = tir.stmt_functor.ir_transform(e, None, lambda n: seen.append(type(n).__name__))
    assert kept is e and seen == ["Var", "IntImm", "Add", "Mul"]
    with pytest.raises(ValueError, match="no node class 'Loop'"):
        tir.stmt_functor.ir_transform(e, None, None, ["tir.Loop"])


def test_import_loads_no_compiler() -> None:
    heavy = "('llvmlite', 'cupy', 'xgboost', 'rich', 'tscript.driver', 'tscript.codegen', 'tscript.schedule')"
    code = f"import sys, tscript; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_import_is_fast(tmp_path: Path) -> None:
    code = "import time, numpy; t = time.process_time(); import tscript; print(time.process_time() - t)"
    command = [sys.executable, "-X", f"pycache_prefix={tmp_path}", "-c", code]
    env = {"PATH": "", "PYTHONPATH": str(ROOT)}
    # The first run compiles the sources. Processor time, since other work on the machine is not the import's.
    times = [
        float(subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout) for _ in range(4)
    ]
    assert min(times[1:]) < 0.150
