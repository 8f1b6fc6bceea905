"""`python -m tscript trace`: the steps of a saved schedule, or of a trace and the program it is for."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tscript.cli.loading import LoadError, Program, execute, load_file, pick
from tscript.ir.function import IRModule, PrimFunc
from tscript.parser import default_vars
from tscript.printer.changes import changed_parts, changes_text
from tscript.printer.colours import ansi
from tscript.schedule.saved import Saved, json_of, read_saved
from tscript.schedule.schedule import Schedule
from tscript.schedule.steps import REFUSALS, TraceStep, costs_of, report
from tscript.schedule.trace import Trace
from tscript.schedule.viewer import page, viewer
from tscript.support.errors import TScriptError
from tscript.target import Target

_FUNCTION: Final = "apply_trace"


@dataclass(frozen=True)
class Request:
    """What to show of which trace: `step` only that one, `costs` a table, `html` a page to write."""

    path: Path
    workload: tuple[Path, str | None] | None = None
    step: int | None = None
    costs: bool = False
    html: Path | None = None
    target: str | None = None


def run_trace(request: Request) -> int:
    """Show the steps; the status is 1 when a step was refused, and those before it are shown.

    LoadError for files that cannot be read, and for a target that does not exist.
    """
    if request.target is not None:
        try:
            Target(request.target)
        except ValueError as error:
            raise LoadError(f"--target: {error}") from error
    begin, apply = _read(request)
    sch = begin()
    refused = ""
    try:
        apply(sch)
    except REFUSALS as error:
        if sch.trace is None or (isinstance(error, TScriptError) and not sch.trace.insts):
            raise
        refused = str(error) or type(error).__name__
    assert sch.trace is not None
    steps = sch.trace.steps()
    if request.html is not None:
        _write(request, steps, sch.trace)
    else:
        _print(request, steps)
    if refused:
        print(f"error: after step {len(steps) - 1} the trace cannot go on: {refused}", file=sys.stderr)
    return 1 if refused else 0


# -- what is shown --------------------------------------------------------------------------------


def _write(request: Request, steps: list[TraceStep], trace: Trace) -> None:
    assert request.html is not None
    body = viewer(steps, costs_of(steps, request.target), trace.script())
    try:
        request.html.write_text(page(body, request.path.name), encoding="utf-8")
    except OSError as error:
        raise LoadError(f"cannot write {request.html}: {error.strerror or error}") from error
    print(f"{request.html}: {len(steps) - 1} steps")


def _print(request: Request, steps: list[TraceStep]) -> None:
    colours = sys.stdout.isatty()
    if request.step is not None:
        if not 0 <= request.step < len(steps):
            raise LoadError(f"there is no step {request.step}; the steps are 0 (the start) to {len(steps) - 1}")
        _print_step(steps, request.step, colours)
    elif not request.costs:
        for k in range(1, len(steps)):
            print(_head(steps, k, colours))
            changes = changed_parts(steps[k - 1].mod.script(), steps[k].mod.script(), colours=colours)
            print(changes or "  (the printed program stays the same)")
            print()
    if request.costs:
        print(report(steps, costs_of(steps, request.target), colours))


def _print_step(steps: list[TraceStep], k: int, colours: bool) -> None:
    after = steps[k].mod.script()
    if k:
        print(_head(steps, k, colours))
        print(changes_text(steps[k - 1].mod.script(), after, colours))
    else:
        print(ansi(after) if colours else after)


def _head(steps: list[TraceStep], k: int, colours: bool) -> str:
    calls = "\n".join(steps[k].calls)
    return f"[{k}/{len(steps) - 1}] {ansi(calls) if colours else calls}"


# -- what is read ---------------------------------------------------------------------------------

Begin = Callable[[], Schedule]
Apply = Callable[[Schedule], Any]


def _read(request: Request) -> tuple[Begin, Apply]:
    """How to begin the schedule, and how to do its steps."""
    path = request.path
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise LoadError(f"cannot read {path}: {reason}") from error
    given = None if request.workload is None else _workload(*request.workload)
    if text.lstrip()[:1] in ("{", "["):
        return _from_json(path, text, given)
    return _from_python(path, text, given)


def _from_json(path: Path, text: str, given: Program | None) -> tuple[Begin, Apply]:
    try:
        found = json_of(text)
        saved = read_saved(text) if isinstance(found, dict) else Saved(IRModule({}), found, True)
    except ValueError as error:
        raise LoadError(f"{path}: {error}") from error
    if given is None and not isinstance(found, dict):
        raise LoadError(f"{path} holds a trace but no program; name one with --workload FILE[:NAME]")
    program = given if given is not None else saved.workload
    return (
        lambda: Schedule(program, enable_check=saved.checks),
        lambda sch: Trace.apply_json_to_schedule(saved.trace, sch),
    )


def _from_python(path: Path, text: str, given: Program | None) -> tuple[Begin, Apply]:
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        raise LoadError(f"{path}:{error.lineno}:{error.offset}: {error.msg}") from error
    if not any(isinstance(node, ast.FunctionDef) and node.name == _FUNCTION for node in tree.body):
        raise LoadError(f"{path} is no trace: neither JSON, nor Python that defines {_FUNCTION}(sch)")
    if any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.walk(tree)):
        names = vars(execute(path))
    else:
        # Printed text: these are the names that it uses.
        names = {**default_vars, "tir": default_vars["tvm"].tir, "__name__": path.stem}
        exec(compile(tree, str(path), "exec"), names)
    program = given
    if program is None:
        kernels = {n: v for n, v in names.items() if isinstance(v, (PrimFunc, IRModule))}
        program = _only(kernels, path, "; name one with --workload FILE[:NAME]")
    apply: Any = names[_FUNCTION]
    return lambda: Schedule(program), lambda sch: _call(apply, sch, path)


def _call(function: Callable[[Schedule], Any], sch: Schedule, path: Path) -> None:
    try:
        function(sch)
    except REFUSALS:
        raise
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise LoadError(f"{where}: {type(error).__name__}: {error}") from error


def _workload(path: Path, name: str | None) -> Program:
    programs = load_file(path)
    return _only(programs, path, "; name one, as FILE:NAME") if name is None else pick(programs, name, path)


def _only(programs: dict[str, Program], path: Path, advice: str) -> Program:
    if len(programs) != 1:
        raise LoadError(f"{path} defines {', '.join(programs) or 'no program'}{advice}")
    return next(iter(programs.values()))


__all__ = ["Request", "run_trace"]
