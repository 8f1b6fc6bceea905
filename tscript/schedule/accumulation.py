"""How a reduction block accumulates: into which elements, from what start, by which reduction of which terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tscript.analysis.affine import DigitString, are_independent, find_digits, tell_all
from tscript.ir import construct as make
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import BOOL
from tscript.ir.expr import BufferLoad, IntImm, IterVar, PrimExpr, Range, Var
from tscript.ir.functor import pre_order_visit, substitute
from tscript.ir.occurrences import mentions
from tscript.ir.stmt import Block, BufferStore, IfThenElse, LetStmt, SeqStmt, Stmt, seq
from tscript.schedule.errors import refuse
from tscript.schedule.inlining import require_pure
from tscript.te.reducers import Match, known_reducers, match_reducer


@dataclass(frozen=True)
class Accumulation:
    """The update of a reduction block: one element of each of `buffers`, all at `position`, is combined with a term.

    `starts` are the values of the init, `values` the new values (in terms of loads of the old ones), given only where
    `condition` holds. `groups` are the places of the elements that each of `matches` is about.
    """

    buffers: tuple[Buffer, ...]
    position: tuple[PrimExpr, ...]
    starts: tuple[PrimExpr, ...]
    values: tuple[PrimExpr, ...]
    condition: PrimExpr
    groups: tuple[tuple[int, ...], ...]
    matches: tuple[Match, ...]

    @property
    def terms(self) -> list[PrimExpr]:
        """What each element is combined with."""
        return self._spread([list(m.terms) for m in self.matches])

    @property
    def neutral(self) -> list[PrimExpr]:
        """Terms that change nothing."""
        parts: list[list[PrimExpr]] = []
        for group, match in zip(self.groups, self.matches, strict=True):
            starts = [self.starts[k] for k in group]
            parts.append(starts if match.may_start_twice(starts) else match.identity())
        return self._spread(parts)

    def combined(self, elements: Sequence[PrimExpr], terms: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The values that combine other elements with other terms."""
        parts: list[list[PrimExpr]] = []
        for group, match in zip(self.groups, self.matches, strict=True):
            parts.append(match.combined([elements[k] for k in group], [terms[k] for k in group]))
        return self._spread(parts)

    def _spread(self, parts: list[list[PrimExpr]]) -> list[PrimExpr]:
        by_place = {k: v for group, values in zip(self.groups, parts, strict=True) for k, v in zip(group, values)}  # noqa: B905
        return [by_place[k] for k in range(len(self.buffers))]


def require_accumulation(block: Block, from_identity: bool = True) -> Accumulation:
    """How a block accumulates; refused where its init and body are no known reduction, with what is in the way.

    With `from_identity`, also where it starts from something that counts.
    """
    starts = _stores(block, block.init, "the init")
    body, values, condition = _resolved(block)
    written = dict.fromkeys(store.buffer for store in body)
    if len(starts) != len(body) or any(store.buffer not in written for store in starts):
        refuse(
            "the init and the body of {0} do not store to the same buffers: "
            f"{_names(s.buffer for s in starts)} and {_names(written)}",
            block,
        )
    by_buffer = {store.buffer: store.value for store in starts}
    position = body[0].indices
    for store in (*body, *starts):
        _require_position(block, store, position, body[0].buffer)
    for part in (*values, condition, *by_buffer.values()):
        require_pure(block, part, body[0].buffer)
    _require_own_elements(block, written, position, [*values])
    for part in (condition, *by_buffer.values(), *position):
        if loads_any(part, written):
            refuse(f"`{part}` in {{0}} depends on what {{0}} accumulates", block)
    elements = [BufferLoad(b, position) for b in written]
    groups, matches = _matched(block, elements, values)
    found = Accumulation(
        tuple(written), position, tuple(by_buffer[b] for b in written), tuple(values), condition, groups, matches
    )
    if from_identity:
        _require_identity(block, found)
    return found


def _names(buffers: Iterable[Buffer]) -> str:
    return ", ".join(f"`{b.name}`" for b in buffers)


def _stores(block: Block, stmt: Stmt | None, what: str) -> list[BufferStore]:
    """The stores that a statement consists of, to different buffers, one element each."""
    if stmt is None:
        refuse("{0} has no T.init(), so it does not say what its sums start from", block)
    found: list[BufferStore] = []
    for part in stmt.seq if isinstance(stmt, SeqStmt) else (stmt,):
        if not isinstance(part, BufferStore) or part.predicate is not None or part.value.dtype.lanes != 1:
            refuse(f"{what} of {{0}} has more in it than stores of single elements", block)
        found.append(part)
    buffers = [s.buffer for s in found]
    if len(dict.fromkeys(buffers)) != len(buffers):
        refuse(f"{what} of {{0}} stores to one buffer several times", block)
    return found


def _resolved(block: Block) -> tuple[list[BufferStore], list[PrimExpr], PrimExpr]:
    """The stores of the body, their values without the names that statements around give, and when they are made."""
    known: dict[Var, PrimExpr] = {}
    condition: PrimExpr = IntImm(BOOL, 1)
    stmt = block.body
    while True:
        if isinstance(stmt, LetStmt):
            known[stmt.var] = substitute(stmt.value, known)
            stmt = stmt.body
        elif isinstance(stmt, IfThenElse) and stmt.else_case is None:
            condition = make.and_(condition, substitute(stmt.condition, known))
            stmt = stmt.then_case
        else:
            break
    stores = _stores(block, stmt, "the body")
    before: dict[Buffer, None] = {}
    for store in stores:
        # What a `let` names was computed before the stores, what stands in a store after those before it.
        if loads_any(store.value, before):
            refuse(
                f"`{store.value}` in {{0}} reads what the store before it has changed",
                block,
                hint="name the new values first, as in `v: T.int32 = ...`, then store them",
            )
        before[store.buffer] = None
    indices = [tuple(substitute(i, known) for i in s.indices) for s in stores]
    stores = [s.replace(indices=i) for s, i in zip(stores, indices, strict=True)]
    return stores, [substitute(s.value, known) for s in stores], condition


def _require_position(block: Block, store: BufferStore, position: Sequence[PrimExpr], first: Buffer) -> None:
    same_shape = len(store.buffer.shape) == len(first.shape) and all(
        a is b for a, b in zip(store.buffer.shape, first.shape, strict=True)
    )
    if not same_shape:
        refuse(f"`{first.name}` and `{store.buffer.name}`, which {{0}} accumulates into, differ in shape", block)
    if any(a is not b for a, b in zip(store.indices, position, strict=True)):
        refuse(f"{{0}} stores to different positions of `{first.name}` and `{store.buffer.name}`", block)
    for m in block.match_buffers:
        if m.buffer is store.buffer:
            refuse(f"{{0}} accumulates into `{store.buffer.name}`, which is a view of `{m.source.buffer.name}`", block)
    for b in block.alloc_buffers:
        if b is store.buffer:
            refuse(f"{{0}} accumulates into `{b.name}`, which it allocates itself", block)


def loads_any(e: PrimExpr, buffers: Mapping[Buffer, None]) -> bool:
    """Whether an expression reads one of `buffers`."""
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or (isinstance(node, BufferLoad) and node.buffer in buffers)
        return not found

    pre_order_visit(e, look)
    return found


def _require_own_elements(
    block: Block, written: Mapping[Buffer, None], position: Sequence[PrimExpr], values: Sequence[PrimExpr]
) -> None:
    """Refuse subscripts that depend on more than spatial axes, or by which two instances share an element."""
    reduced = {a.var: None for a in block.iter_vars if a.iter_type != IterVar.DataPar}
    first = next(iter(written))
    for index in position:
        if mentions(index, reduced) or _has_load(index):
            refuse(f"the subscript `{index}` of `{first.name}` in {{0}} depends on more than its spatial axes", block)
    for value in values:

        def look(node: object) -> bool:
            if isinstance(node, BufferLoad) and node.buffer in written:
                if any(a is not b for a, b in zip(node.indices, position, strict=True)):
                    refuse(f"{{0}} reads `{node}` while it accumulates into other elements of the buffer", block)
            return True

        pre_order_visit(value, look)
    axes = {a.var: a.dom for a in block.iter_vars if a.iter_type == IterVar.DataPar and a.dom is not None}
    if not determines(position, axes):
        shown = ", ".join(str(i) for i in position)
        refuse(f"the subscripts in `{first.name}[{shown}]` do not tell the spatial axes of {{0}} apart", block)


def _has_load(e: PrimExpr) -> bool:
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or isinstance(node, BufferLoad)
        return not found

    pre_order_visit(e, look)
    return found


def determines(position: Sequence[PrimExpr], axes: Mapping[Var, Range]) -> bool:
    """Whether different values of the axes give different positions, as far as can be seen."""
    chosen: list[DigitString] = []
    for index in position:
        found = find_digits(index, axes)
        if found is not None and are_independent([*chosen, found]):
            chosen.append(found)
    return tell_all(chosen, axes)


def _matched(
    block: Block, elements: Sequence[BufferLoad], values: Sequence[PrimExpr]
) -> tuple[tuple[tuple[int, ...], ...], tuple[Match, ...]]:
    """The reductions that the new values are: one of all elements, or one of each."""
    together = match_reducer(elements, values)
    if together is not None:
        return (tuple(range(len(elements))),), (together,)
    matches: list[Match] = []
    for element, value in zip(elements, values, strict=True):
        others = {e.buffer: None for e in elements if e is not element}
        found = None if loads_any(value, others) else match_reducer([element], [value])
        if found is None:
            names = ", ".join(dict.fromkeys(k.name for k in known_reducers(tuple(e.dtype for e in elements)))) or "none"
            shown = "; ".join(f"{e} = {v}".replace("{", "{{").replace("}", "}}") for e, v in zip(elements, values))  # noqa: B905
            types = ", ".join(str(e.dtype) for e in elements)
            refuse(
                f"the update of {{0}} is no known reduction: `{shown}`",
                block,
                hint=f"known for {types} are: {names}; others are made known by "
                "te.register_reducer, in every process that schedules the program",
            )
        matches.append(found)
    return tuple((k,) for k in range(len(elements))), tuple(matches)


def _require_identity(block: Block, found: Accumulation) -> None:
    for group, match in zip(found.groups, found.matches, strict=True):
        starts = [found.starts[k] for k in group]
        if not match.may_start_twice(starts):
            shown = ", ".join(str(s) for s in starts)
            wanted = ", ".join(str(i) for i in match.identity())
            refuse(
                f"{{0}} starts from `{shown}`, which is not the identity `{wanted}` of its reduction "
                f"({match.reducer.name}): each partial result would start from it, and it would count several times",
                block,
                hint=f"start from `{wanted}` and combine with `{shown}` in a block of its own",
            )


def storing(buffers: Sequence[Buffer], values: Sequence[PrimExpr], position: Sequence[PrimExpr]) -> Stmt:
    """Stores of values at one position; of several, all are computed from the old values first."""
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], tuple(position))
    names = [Var("v_" + b.name.replace(".", "_"), b.dtype) for b in buffers]
    body = seq(*[BufferStore(b, v, tuple(position)) for b, v in zip(buffers, names, strict=True)])
    for v, value in zip(reversed(names), reversed(list(values)), strict=True):
        body = LetStmt(v, value, body)
    return body


def initial(buffers: Sequence[Buffer], starts: Sequence[PrimExpr], position: Sequence[PrimExpr]) -> Stmt:
    """The init that sets elements of buffers, at one position, to what they start from."""
    return seq(*[BufferStore(b, s, tuple(position)) for b, s in zip(buffers, starts, strict=True)])


__all__ = ["Accumulation", "determines", "initial", "loads_any", "require_accumulation", "storing"]
