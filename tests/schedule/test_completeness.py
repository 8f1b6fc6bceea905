"""Every primitive is whole: bound, documented with an example, tested both ways, stored in traces, and fuzzed."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from tscript.schedule import InstructionKind, Schedule
from tscript.schedule.primitive import METHODS
from tscript.testing import random_schedule

HERE = Path(__file__).parent

# It takes nothing and refuses nothing.
WITHOUT_REJECTION = frozenset({"enter_postproc"})


def _calls(node: ast.AST) -> set[str]:
    """The names of the methods that are called, or named as text, somewhere in a piece of source."""
    found: set[str] = set()
    for n in ast.walk(node):
        if isinstance(n, ast.Attribute):
            found.add(n.attr)
        elif isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value in METHODS:
            found.add(n.value)
    return found


def _functions() -> list[tuple[set[str], set[str]]]:
    """For each test of a schedule: the plain names that it uses, and the methods that it calls, with its helpers."""
    result: list[tuple[set[str], set[str]]] = []
    for path in sorted([*HERE.glob("test_*.py"), *HERE.parent.glob("tensor_intrin/test_*.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        helpers = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        for name, node in helpers.items():
            if not name.startswith("test_"):
                continue
            pending, seen = [node], dict[str, ast.FunctionDef]()
            names: set[str] = set()
            calls: set[str] = set()
            while pending:
                at = pending.pop()
                if at.name in seen:
                    continue
                seen[at.name] = at
                used = {n.id for n in ast.walk(at) if isinstance(n, ast.Name)}
                names |= used
                calls |= _calls(at)
                pending += [helpers[u] for u in used if u in helpers]
            result.append((names, calls | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}))
    return result


TESTS = _functions()
REFUSING = {"rejects", "raises"}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_it_is_a_method_with_a_trace_form(name: str) -> None:
    primitive = METHODS[name]
    assert getattr(Schedule, name) is primitive
    assert InstructionKind.get(primitive.kind.name) is primitive.kind
    assert primitive.kind.method == name
    parameters = list(primitive.signature.parameters)
    # Each recorded argument is a parameter, under the same name, so that printed and stored steps can be called.
    assert {a.name for a in primitive.kind.args} <= set(parameters)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_it_is_documented_with_an_example(name: str) -> None:
    text = inspect.getdoc(METHODS[name]) or ""
    assert len(text.splitlines()[0]) > 20
    assert ">>> " in text


@pytest.mark.parametrize("name", sorted(METHODS))
def test_it_is_accepted_and_refused_in_tests(name: str) -> None:
    own = [(names, calls) for names, calls in TESTS if name in calls]
    accepted = any("check_schedule" in names or not names & REFUSING for names, _ in own)
    refused = any("rejects" in names or ("pytest" in names and "raises" in calls) for names, calls in own)
    assert accepted
    assert refused or name in WITHOUT_REJECTION


@pytest.mark.parametrize("name", sorted(METHODS))
def test_random_schedules_draw_it(name: str) -> None:
    source = ast.parse(inspect.getsource(random_schedule))
    assert name in _calls(source)


# What is asked of a schedule or done around steps, and is no step of a trace itself.
AROUND_STEPS = ["can_decompose_padding", "checkpoint", "load", "unchecked", "undo", "verify"]


@pytest.mark.parametrize("name", AROUND_STEPS)
def test_what_goes_around_steps_is_documented_and_tested(name: str) -> None:
    assert name not in METHODS
    text = inspect.getdoc(getattr(Schedule, name)) or ""
    assert ">>> " in text
    own = [(names, calls) for names, calls in TESTS if name in calls]
    assert any("raises" not in calls for _, calls in own)
    # What answers a question says no, and the others refuse.
    assert len(own) > 1 and (name.startswith("can_") or any("raises" in calls for _, calls in own))


def test_nothing_is_listed_that_does_not_exist() -> None:
    assert WITHOUT_REJECTION <= set(METHODS)
