"""Translation of blocks: axis bindings and domains, predicate, views, memory, init, declared regions."""

from __future__ import annotations

from collections.abc import Sequence

from tscript.interp.access import (
    INT64,
    difference_range,
    integer_of,
    offset_of,
    pointer_behind,
    product,
    total,
    view_of,
)
from tscript.interp.emit import (
    FIXED,
    STATEMENTS,
    BlockFrame,
    Gen,
    Region,
    Val,
    View,
    handles,
    nodes_below,
    number,
    paren,
)
from tscript.interp.exprs import root
from tscript.interp.scalar import convert, is_literal, terms_of
from tscript.interp.stmts import allocate_buffer
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.expr import BufferLoad, Call, IterVar, PrimExpr, Var
from tscript.support.errors import InterpError


@handles(STATEMENTS, st.BlockRealize)
def _block_realize(g: Gen, s: st.BlockRealize) -> None:
    block = s.block
    values = [root(g, v) for v in s.iter_values]
    predicate = root(g, s.predicate)
    always = is_literal(predicate) and predicate.const != 0
    before = g.loops
    if not always:
        g.push()
    for axis, value, e in zip(block.iter_vars, values, s.iter_values, strict=True):
        _bind_axis(g, block, axis, convert(g, e.dtype, axis.var.dtype, value))
    site = g.enter(block if block.span is not None else s)
    _body(g, block)
    g.site = site
    g.loops = before
    if not always:
        g.pop(f"if {predicate.code}:")


@handles(STATEMENTS, st.Block)
def _block(g: Gen, s: st.Block) -> None:
    if s.iter_vars:
        raise InterpError(f"block {s.name_hint!r} has axes that nothing binds; run it inside a BlockRealize")
    _body(g, s)


def _bind_axis(g: Gen, block: st.Block, axis: IterVar, value: Val) -> None:
    """Give an axis its value; check that it lies in the domain unless that is certain."""
    name = g.name(axis.var.name)
    proven = True
    low = extent = end = number(0)
    if axis.dom is not None:
        low, extent = root(g, axis.dom.min), root(g, axis.dom.extent)
        end = total(g, [low, extent])
        proven = difference_range(value, low)[0] >= 0 and (
            difference_range(end, value)[0] > 0 or _is_loop_of(g, value, low, axis.dom.extent)
        )
    if value.simple and value.level != FIXED and proven:
        g.env[axis.var] = value
        name = value.code
    else:
        g.line(f"{name} = {value.code}")
        if proven and value.level != FIXED:
            # Kept as a sum of loop variables, so that parts of subscripts move to outer loops.
            g.env[axis.var] = Val(name, True, value.lo, value.hi, g.level, value.terms, value.const)
        else:
            low_bound, high_bound = value.lo, value.hi
            if not proven and axis.dom is not None:
                low_bound, high_bound = max(low_bound, low.lo), min(high_bound, low.hi + extent.hi - 1)
            g.env[axis.var] = g.named(name, low_bound, max(low_bound, high_bound))
    g.loops = (*g.loops, (axis.var.name, name))
    if axis.dom is not None and is_literal(low) and low.const == 0:
        g.uppers.setdefault(name, axis.dom.extent)
    if not proven:
        site = g.enter(block)
        g.line(
            f"if not {paren(low)} <= {name} < {paren(end)}: "
            f"raise _outside_domain({block.name_hint!r}, {axis.var.name!r}, {name}, {low.code}, {end.code})"
        )
        g.site = site


def _is_loop_of(g: Gen, value: Val, low: Val, extent: PrimExpr) -> bool:
    terms, const = terms_of(value)
    if const or len(terms) != 1 or not (is_literal(low) and low.const == 0):
        return False
    atom, factor = next(iter(terms.items()))
    return factor == 1 and g.uppers.get(atom.code) is extent


def _body(g: Gen, block: st.Block) -> None:
    private, env = len(g.private), g.env
    # What views bind ends with the block: the same block may stand in several places.
    g.env = dict(env)
    named = bool(block.iter_vars or block.reads or block.writes)
    writes = [_region(g, r) for r in block.writes]
    reads = [_region(g, r) for r in block.reads]
    g.blocks.append(BlockFrame(block.name_hint, len(g.blocks), reads, writes, named, block.init is not None))
    for match in block.match_buffers:
        _match(g, match, block.body)
    for buffer in block.alloc_buffers:
        allocate_buffer(g, buffer)
    if block.init is not None:
        _init(g, block, block.init)
    g.stmt(block.body)
    g.blocks.pop()
    g.env = env
    del g.private[private:]


def _init(g: Gen, block: st.Block, init: st.Stmt) -> None:
    tests: list[str] = []
    for axis in block.iter_vars:
        if axis.iter_type != IterVar.CommReduce or axis.dom is None:
            continue
        v, low = g.env[axis.var], root(g, axis.dom.min)
        if difference_range(v, low) != (0, 0):
            tests.append(f"{paren(v)} == {paren(low)}")
    if tests:
        g.push()
    g.stmt(init)
    if tests:
        g.pop(f"if {' and '.join(tests)}:")


def _region(g: Gen, region: st.BufferRegion) -> Region:
    bounds: list[tuple[Val, Val]] = []
    for r, size in zip(region.region, region.buffer.shape, strict=True):
        # A bound that is read from memory may have changed by the time of the access.
        if _reads_memory(r.min) or _reads_memory(r.extent):
            bounds.append((number(0), integer_of(g, size)))
        else:
            low, extent = root(g, r.min), root(g, r.extent)
            bounds.append((convert(g, r.min.dtype, INT64, low), convert(g, r.extent.dtype, INT64, extent)))
    return Region(region.buffer, tuple(bounds))


def _reads_memory(e: PrimExpr) -> bool:
    def reads(n: object) -> bool:
        return isinstance(n, BufferLoad) or (isinstance(n, Call) and getattr(n.op, "effect", "update") != "pure")

    return any(reads(n) for n in nodes_below(e))


# -- views of regions -----------------------------------------------------------------------------


def _match(g: Gen, match: st.MatchBufferRegion, body: st.Stmt) -> None:
    """Bind a view: its element (i, j) is element (lower end + i, lower end + j) of the source."""
    target, source = match.buffer, match.source.buffer
    if target.dtype is not source.dtype:
        raise InterpError(
            f"view {target.name} is {target.dtype!s} but shows {source.dtype!s} elements of {source.name}"
        )
    view = view_of(g, source)
    lows = [_steady(g, integer_of(g, r.min)) for r in match.source.region]
    extents = [_steady(g, integer_of(g, r.extent)) for r in match.source.region]
    _check_inside(g, view, lows, extents)
    skipped = len(source.shape) - len(target.shape)
    if skipped < 0:
        raise InterpError(f"view {target.name} has more dimensions than the region of {source.name} it shows")
    for d in range(skipped):
        _require_equal(g, target, f"dimension {d} of the region, which the view drops", extents[d], number(1))
    for d, want in enumerate(target.shape):
        _bind_or_require(g, target, f"shape[{d}]", want, extents[skipped + d])
    lanes = target.dtype.lanes
    base = g.hold(offset_of(g, view, lows))
    steps = view.strides[skipped:]
    for d, want in enumerate(target.strides):
        if not (is_literal(extents[skipped + d]) and extents[skipped + d].const == 1):
            _bind_or_require(g, target, f"strides[{d}]", want, _divided(g, steps[d], lanes))
        elif isinstance(want, Var) and want not in g.env:
            g.env[want] = _divided(g, steps[d], lanes)
    first = _bind_offset(g, target, base)
    if _needs_pointer(body, target):
        pointer = g.name(f"p_{target.name}")
        kind = g.constant("_type", target.dtype.element)
        g.line(f"{pointer} = _address({pointer_behind(g, view)}, {first.code}, {kind})")
        g.pointers[target.data], g.pointer_levels[target.data] = pointer, g.level
    dims = tuple(extents[skipped:])
    zeros = tuple(number(0) for _ in dims)
    g.views[target] = View(
        target,
        view.memory,
        view.shadow,
        base,
        zeros,
        dims,
        target.shape,
        steps,
        len(g.blocks),
        g.stack[-1],
        view,
        tuple(lows),
    )


def _steady(g: Gen, v: Val) -> Val:
    return v if v.level != FIXED or v.simple else g.hold(v)


def _divided(g: Gen, v: Val, by: int) -> Val:
    return v if by == 1 else g.opaque(f"{paren(v)} // {by}", v.lo // by, v.hi // by, v.level)


def _needs_pointer(body: st.Stmt, target: Buffer) -> bool:
    """Whether `body` uses the address of the view other than by subscripts."""
    return any(
        n is target.data or (isinstance(n, Buffer) and n is not target and n.data is target.data)
        for n in nodes_below(body)
    )


def _bind_offset(g: Gen, target: Buffer, base: Val) -> Val:
    """Bind the offset of a view whose first element is number `base` of its memory.

    Returns the number of the element its pointer is at: the first of the memory where the program asks for
    the offset, else where the given offset leads to the first element of the view.
    """
    lanes = target.dtype.lanes
    want, actual = target.elem_offset, _divided(g, base, lanes)
    if target.offset_factor > 1:
        g.line(
            f"if {paren(actual)} % {target.offset_factor}: "
            f"raise _view_mismatch({target.name!r}, 'elem_offset', "
            f"'a multiple of {target.offset_factor}', {actual.code})"
        )
    if isinstance(want, Var) and want not in g.env:
        g.env[want] = convert(g, INT64, want.dtype, actual)
        return number(0)
    return total(g, [base, product(g, integer_of(g, want), number(-lanes))])


def _bind_or_require(g: Gen, target: Buffer, what: str, want: PrimExpr, actual: Val) -> None:
    if isinstance(want, Var) and (want not in g.env or g.env[want].code == actual.code):
        g.env[want] = convert(g, INT64, want.dtype, actual)
        return
    _require_equal(g, target, what, actual, integer_of(g, want))


def _require_equal(g: Gen, target: Buffer, what: str, actual: Val, want: Val) -> None:
    if difference_range(actual, want) != (0, 0):
        g.line(
            f"if {paren(actual)} != {paren(want)}: "
            f"raise _view_mismatch({target.name!r}, {what!r}, {want.code}, {actual.code})"
        )


def _check_inside(g: Gen, view: View, lows: Sequence[Val], extents: Sequence[Val]) -> None:
    """The region a view shows must lie within its source."""
    tests: list[str] = []
    for low, extent, size in zip(lows, extents, view.extents, strict=True):
        end = total(g, [low, extent])
        if low.lo < 0:
            tests.append(f"{paren(low)} < 0")
        if difference_range(size, end)[0] < 0:
            tests.append(f"{paren(end)} > {paren(size)}")
    if tests:
        corner = "".join(f"{v.code}, " for v in lows)
        sizes = "".join(f"{v.code}, " for v in extents)
        g.line(f"if {' or '.join(tests)}: raise _region_outside({view.buffer.name!r}, ({corner}), ({sizes}))")
