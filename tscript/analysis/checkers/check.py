"""All checks over functions and modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tscript.analysis.checkers.out_of_bounds import find_out_of_bounds
from tscript.analysis.checkers.proofs import Proofs
from tscript.analysis.checkers.races import find_races
from tscript.analysis.checkers.report import Finding, Report
from tscript.analysis.checkers.sites import Survey
from tscript.analysis.checkers.survey import survey
from tscript.analysis.checkers.uninitialized import find_in_parameter, find_uninitialized, updated_parameters
from tscript.ir.buffer import Buffer
from tscript.ir.empty_reductions import with_empty_inits
from tscript.ir.function import IRModule, PrimFunc
from tscript.support.wording import kind_of

Program = TypeVar("Program", PrimFunc, IRModule)
Check = Callable[[PrimFunc, Survey, Proofs], list[Finding]]

_CHECKS: dict[str, Check] = {
    "out-of-bounds": find_out_of_bounds,
    "uninitialized": find_uninitialized,
    "race": find_races,
}


def check(program: PrimFunc | IRModule, *, kinds: tuple[str, ...] | None = None, outputs: Sequence[str] = ()) -> Report:
    """What is wrong with a program, or may be: accesses out of bounds, reads of unwritten memory, races.

    `program` is a function or a module (`sch.mod`, a class under `@I.ir_module`), with blocks or as plain loops,
    scheduled or not. `kinds` picks checks out of "out-of-bounds", "uninitialized" and "race"; all of them without it.
    Arrays that callers pass count as written, but for those named in `outputs`, which hold nothing yet. Sizes in shapes
    of parameters may be any positive number; what the program asserts or assumes is taken to hold. Nothing is run.
    Raises TypeError for anything else, ValueError for another kind, and for outputs that are no parameters.

    A finding is "proven" when there are sizes and an iteration for which it happens (its `witness`), "possible" when
    it could not be shown not to happen, as where a subscript is read from memory. What cannot be seen at all, such as
    the use of a pointer by an external function, is said in the `notes` of the report; as is which parameters are read
    before they are written, which is right for what is updated in place, and a forgotten T.init() for a mere output.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def pair_sums(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    ...     for i in range(16):
    ...         B[i] = A[i] + A[i + 1]
    >>> report = check(pair_sums)
    >>> report
    <Report: 1 proven, 0 possible>
    >>> print(report[0].message)
    A[16] is outside A, whose dimension 0 has extent 16
    >>> report[0].witness
    {'i': 15}
    """
    for kind in kinds or ():
        if kind not in _CHECKS:
            raise ValueError(f"there is no check {kind!r}; choose from {', '.join(map(repr, _CHECKS))}")
    findings: list[Finding] = []
    notes: list[str] = []
    _require_parameters(functions_of(program), outputs)
    for func in functions_of(program):
        # What runs over an empty reduction is no block's first instance: it is put in place as for running.
        func = with_empty_inits(func)
        found = survey(func)
        proofs = Proofs(func)
        for kind, find in _CHECKS.items():
            if kinds is None or kind in kinds:
                findings += find(func, found, proofs)
        notes += _notes(func, found)
        for buffer in updated_parameters(func, found) if kinds is None or "uninitialized" in kinds else ():
            early = find_in_parameter(func, found, proofs, buffer)
            if buffer.name in outputs:
                findings += early
            elif early:
                notes.append(_update_note(func, buffer))
    return Report(findings, notes)


def _require_parameters(functions: Sequence[PrimFunc], names: Sequence[str]) -> None:
    known = {b.name: None for f in functions for b in f.buffer_map.values()}
    for name in names:
        if name not in known:
            raise ValueError(f"there is no parameter {name!r} to be an output; the arrays are {', '.join(known)}")


def _update_note(func: PrimFunc, buffer: Buffer) -> str:
    return (
        f"{buffer.name} in {func.__name__} is read before it is written, so it is taken to be updated in place; "
        f'if it is an output only, check(..., outputs=("{buffer.name}",)) says where'
    )


def _notes(func: PrimFunc, found: Survey) -> list[str]:
    names = {s.memory.data: s.memory.name for s in found.sites}
    return [
        f"{names.get(data, data.name)} in {func.__name__}: {how}, so what happens there is unknown"
        for data, how in found.escaped.items()
    ]


def functions_of(program: PrimFunc | IRModule) -> list[PrimFunc]:
    """The functions of a program. Raises TypeError for what is none."""
    if isinstance(program, PrimFunc):
        return [program]
    if isinstance(program, IRModule):  # pyright: ignore[reportUnnecessaryIsInstance]
        return list(program.functions.values())
    raise TypeError(f"a PrimFunc or an IRModule can be checked, not {kind_of(program)}; of a schedule, give `sch.mod`")


class OOBChecker:
    """The pass of this name: gives a module back as it is, or raises CheckError for accesses out of bounds.

    With `strict`, accesses that could not be shown to be right are refused too.

    >>> from tscript.script import tir as T
    >>> @T.prim_func
    ... def copy(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    ...     for i in range(16):
    ...         B[i] = A[i]
    >>> OOBChecker()(copy) is copy
    True
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict

    def __call__(self, program: Program) -> Program:
        """`program`, if nothing is found. Raises CheckError."""
        check(program, kinds=("out-of-bounds",)).require_none(self.strict)
        return program
