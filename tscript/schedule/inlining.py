"""Replacing loads by how the values are computed: subscripts inverted, and what inlining must not break."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tscript.analysis.affine import Digit, DigitString, are_independent, find_digits, tell_all
from tscript.arith import simplify
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.expr import LE, LT, BufferLoad, Call, IterVar, Let, Op, PrimExpr, Ramp, Range, Var
from tscript.ir.functor import pre_order_visit, substitute
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block
from tscript.schedule.errors import refuse
from tscript.schedule.rewrite import path_to
from tscript.schedule.scope import DepKind
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.symbols import loop_ranges


def find_strings(
    indices: Sequence[PrimExpr], axes: Sequence[IterVar], keep_units: bool = False
) -> list[DigitString] | None:
    """Each subscript as a string of digits of axes, if together they determine every axis; else None.

    Axes of extent 1 need not occur. With `keep_units`, one that is a subscript by itself stands for its position.
    """
    domain = {a.var: a.dom for a in axes if a.dom is not None}
    strings: list[DigitString] = []
    left = dict.fromkeys(v for v, r in domain.items() if keep_units and make.is_const_int(r.extent, 1))
    for index in indices:
        found = find_digits(index, domain)
        if found is None or found.scale != 1:
            return None
        if isinstance(index, Var) and index in left:
            del left[index]
            found = replace(found, digits=((Digit(index, 1, 1), 1),))
        strings.append(found)
    if not are_independent(strings):
        return None
    return strings if tell_all(strings, domain) else None


def solve_strings(
    strings: Sequence[DigitString], axes: Sequence[IterVar], positions: Sequence[PrimExpr]
) -> dict[Var, PrimExpr]:
    """The value of each axis variable where the subscripts that `strings` came from have the values `positions`."""
    parts: dict[Var, list[PrimExpr]] = {}
    for string, position in zip(strings, positions, strict=True):
        rest = make.sub(position, make.cast(string.base, position.dtype))
        reach = 1
        for d, scale in string.digits:
            value = make.floordiv(rest, scale)
            reach = scale * d.extent
            if string.whole is not None or (d, scale) != string.digits[-1]:
                value = make.floormod(value, d.extent)
            parts.setdefault(d.var, []).append(_scaled(value, d))
        if string.whole is not None:
            parts.setdefault(string.whole, []).append(make.floordiv(rest, reach))
    values: dict[Var, PrimExpr] = {}
    for axis in axes:
        assert axis.dom is not None
        total: PrimExpr = axis.dom.min
        for part in parts.get(axis.var, ()):
            total = make.add(total, make.cast(part, axis.var.dtype))
        values[axis.var] = total
    return values


def _scaled(value: PrimExpr, digit: Digit) -> PrimExpr:
    return make.mul(value, digit.lower)


def require_pure(block: Block, value: PrimExpr, buffer: Buffer) -> None:
    """Refuse a value that must not be computed elsewhere or more than once."""

    def look(node: object) -> bool:
        if isinstance(node, Call) and not (isinstance(node.op, Op) and node.op.effect in ("pure", "read")):
            refuse(f"what {{0}} stores to `{buffer.name}` calls `{node.op}`, which may have effects", block)
        return True

    pre_order_visit(value, look)


def require_plain_loads(root: Block, buffer: Buffer) -> None:
    """Refuse a buffer that something below `root` uses other than by loads and stores of single elements."""

    def look(node: object) -> bool:
        if isinstance(node, Block):
            for m in node.match_buffers:
                if m.source.buffer is buffer:
                    refuse(f"{{0}} uses `{buffer.name}` through a view", node)
        if node is buffer.data:
            refuse(f"the pointer of `{buffer.name}` is used below {{0}}", root)
        if isinstance(node, BufferLoad) and node.buffer is buffer:
            if node.predicate is not None or any(isinstance(i, Ramp) or i.dtype.lanes != 1 for i in node.indices):
                refuse(f"`{buffer.name}` is loaded as a vector below {{0}}", root)
        return True

    pre_order_visit(root.body, look)


def require_no_overwrite(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> None:
    """Refuse a block that reads what a later block of the scope overwrites."""
    for dep in state.scope(root).src2deps.get(block, ()):
        if dep.kind is DepKind.WAR:
            refuse("{0} reads what {1} overwrites, so it cannot be computed later", block.block, dep.dst.block)


def require_lasting_inputs(state: ScheduleState, block: StmtSRef, root: StmtSRef) -> None:
    """Refuse a block whose inputs, made in loops around it, are made anew before some consumer outside these loops."""
    scope = state.scope(root)
    around = state.loops_of(block)
    for consumer in scope.consumers(block):
        outside = [r for r in around if r not in state.loops_of(consumer)]
        for dep in scope.dst2deps.get(block, ()):
            again = [r for r in outside if state.is_ancestor(r, dep.src)]
            if dep.kind is DepKind.RAW and again and not _moves_with(state, dep.src, block, again):
                refuse(
                    "{0} reads what {1} makes anew in each iteration of {2}, which {3} is outside of",
                    block.block,
                    dep.src.block,
                    again[0].loop,
                    consumer.block,
                )


def _moves_with(state: ScheduleState, writer: StmtSRef, reader: StmtSRef, loops: Sequence[StmtSRef]) -> bool:
    """Whether each iteration of `loops` writes elements of its own to what `reader` reads."""
    domain = loop_ranges(state.loops_of(writer))
    values = dict(zip((a.var for a in writer.block.iter_vars), state.realize_of(writer).iter_values, strict=True))
    read = dict.fromkeys(r.buffer for r in reader.block.reads)
    for w in writer.block.writes:
        if w.buffer not in read:
            continue
        strings = [find_digits(_bound(r, values), domain) for r in w.region]
        known = [s for s in strings if s is not None]
        if len(known) != len(strings) or not are_independent(known):
            return False
        used = {d.var: None for s in known for d, _ in s.digits} | {s.whole: None for s in known if s.whole is not None}
        if any(r.loop.loop_var not in used and not make.is_const_int(r.loop.extent, 1) for r in loops):
            return False
    return True


def _bound(r: Range, values: Mapping[Var, PrimExpr]) -> PrimExpr:
    return substitute(r.min, values)


def require_closed(state: ScheduleState, block: StmtSRef, root: StmtSRef, value: PrimExpr) -> None:
    """Refuse a value that uses variables bound between the block around and the block itself."""
    for step in path_to(root.block.body, state.realize_of(block)):
        for field in ("var", "loop_var"):
            bound = getattr(step, field, None)
            if isinstance(bound, Var) and mentions(value, {bound: None}):
                refuse(f"what {{0}} stores uses `{bound.name}`, which is bound outside of it", block.block)


def has_let(value: PrimExpr) -> bool:
    """Whether an expression binds variables."""
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or isinstance(node, Let)
        return not found

    pre_order_visit(value, look)
    return found


def within(string: DigitString, position: PrimExpr) -> list[PrimExpr]:
    """The conditions for a position to be one that a subscript takes."""
    base = make.cast(string.base, position.dtype)
    end = simplify(make.add(base, make.cast(string.count, position.dtype)))
    return [make.compare(LE, base, position), make.compare(LT, position, end)]
