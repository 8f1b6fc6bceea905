"""What went wrong and where: the errors generated code raises, and the place they get afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tscript.interp.emit import Site
from tscript.ir import stmt as st
from tscript.support.errors import InternalError, InterpError, UnknownMeaning


def _element(buffer: str, indices: Sequence[int]) -> str:
    return f"{buffer}[{', '.join(str(i) for i in indices)}]"


def outside_buffer(buffer: str, indices: tuple[int, ...], shape: tuple[int, ...], lows: tuple[int, ...]) -> InterpError:
    """A subscript beyond its dimension."""
    bad = next(d for d, i in enumerate(indices) if not lows[d] <= i < lows[d] + shape[d])
    return InterpError(
        f"{_element(buffer, indices)} is out of bounds: subscript {bad} is {indices[bad]}, "
        f"dimension {bad} of {buffer} goes from {lows[bad]} to {lows[bad] + shape[bad] - 1} (shape {tuple(shape)})",
        buffer=buffer,
        indices=tuple(indices),
    )


def outside_region(buffer: str, indices: tuple[int, ...], block: str, write: bool) -> InterpError:
    """An access that the block did not declare."""
    kind, listed = ("written", "T.writes") if write else ("read", "T.reads")
    return InterpError(
        f"{_element(buffer, indices)} is {kind} outside the {listed} region of block {block!r}; "
        f"declare the element in {listed} or correct the subscripts",
        buffer=buffer,
        indices=tuple(indices),
    )


def loop_too_long(name: str, dtype: str, last: int) -> InterpError:
    """A loop variable that does not hold its last value."""
    return InterpError(f"the loop over {name} runs up to {last}, which its type {dtype} cannot hold; use a wider type")


def outside_domain(block: str, axis: str, value: int, low: int, end: int) -> InterpError:
    """A binding value beyond the domain of its axis."""
    return InterpError(
        f"axis {axis} of block {block!r} is bound to {value}, outside its domain {low} to {end - 1}; "
        "correct the binding or guard the block with T.where"
    )


def unwritten(buffer: str, indices: tuple[int, ...]) -> InterpError:
    """A read of memory that nothing wrote."""
    return InterpError(
        f"{_element(buffer, indices)} is read but was never written; initialise it first",
        buffer=buffer,
        indices=tuple(indices),
    )


def region_outside(buffer: str, lows: tuple[int, ...], extents: tuple[int, ...]) -> InterpError:
    """A view of elements that do not exist."""
    parts = ", ".join(f"{low}:{low + n}" for low, n in zip(lows, extents, strict=True))
    return InterpError(f"the region {buffer}[{parts}] of a match_buffer is out of bounds", buffer=buffer, indices=lows)


def view_mismatch(buffer: str, what: str, want: object, actual: object) -> InterpError:
    """A view that does not fit what it shows."""
    return InterpError(f"match_buffer {buffer}: {what} must be {want}, but the region has {actual}", buffer=buffer)


def assertion_fails(message: str) -> InterpError:
    """An assertion of the program."""
    return InterpError(f"assertion failed: {message}")


def assumption_fails() -> InterpError:
    """A `T.assume` that is not so."""
    return InterpError("the condition of T.assume does not hold")


def unsupported(name: str) -> Any:
    """An intrinsic without a meaning here."""
    raise UnknownMeaning(
        f"intrinsic {name} has no meaning in the interpreter; it belongs to a later stage or to hardware"
    )


def require_room(name: str, room: int, base: int, shape: tuple[int, ...], strides: tuple[int, ...], lanes: int) -> None:
    """Raise InterpError unless all elements of a buffer lie within its memory of `room` elements."""
    if any(n <= 0 for n in shape):
        return
    low = base + sum(min(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True))
    high = base + sum(max(0, (n - 1) * s) for n, s in zip(shape, strides, strict=True)) + lanes - 1
    if low < 0 or high >= room:
        raise InterpError(
            f"buffer {name} of shape {shape} takes elements {low} to {high} of its memory, which has {room}",
            buffer=name,
        )


_DECLARATION = re.compile(r"\w+(, \w+)+ = T\.|\w+ = T\.(Buffer\(|handle\(|\w+\(\)$)")


def statement_text(stmt: st.Stmt | None) -> str | None:
    """The program text of a statement: its own line, without what is inside and without declarations."""
    if stmt is None:
        return None
    if isinstance(stmt, st.BlockRealize):
        stmt = stmt.block
    if isinstance(stmt, st.Block):
        return f'with T.block("{stmt.name_hint}"):'
    try:
        lines = [line.strip() for line in stmt.script().splitlines() if line.strip() and not line.startswith("#")]
    except InternalError:
        return f"{type(stmt).__name__}"
    heads: dict[type[st.Stmt], str | tuple[str, str]] = {
        st.For: "for ",
        st.IfThenElse: "if ",
        st.While: "while ",
        st.AssertStmt: ("assert ", "with T.Assert"),
    }
    head = heads.get(type(stmt))
    if head is not None:
        return next((line for line in lines if line.startswith(head)), lines[0])
    if isinstance(stmt, st.LetStmt):
        name = stmt.var.name
        starts = (f"{name}: ", f"{name} = ", "with T.LetStmt")
        return next((line for line in lines if line.startswith(starts)), lines[0])
    if isinstance(stmt, (st.BufferStore, st.Evaluate)):
        return lines[-1]
    return next((line for line in lines if not _DECLARATION.match(line)), lines[0] if lines else None)


def locate(error: InterpError, trace: TracebackType | None, filename: str, sites: Sequence[Site | None]) -> None:
    """Give `error` the statement and the loop values of the innermost generated line in `trace`."""
    values: dict[str, Any] = {}
    site: Site | None = None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_filename == filename:
            values.update(frame.f_locals)
            if 0 < trace.tb_lineno <= len(sites):
                site = sites[trace.tb_lineno - 1] or site
        trace = trace.tb_next
    if site is None or error.statement is not None:
        return
    error.statement = statement_text(site.stmt)
    error.span = error.span or site.span
    for name, code in site.loops:
        value = values.get(code, code)
        shown, n = name, 0
        while shown in error.loop_values:
            n += 1
            shown = f"{name}_{n}"
        if isinstance(value, int):
            error.loop_values[shown] = value
        elif value.strip("()").lstrip("-").isdigit():
            error.loop_values[shown] = int(value.strip("()"))
