"""Loads and stores: where an element lies, whether it exists, and whether the block declared it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tscript.interp.emit import EXPRESSIONS, FIXED, Gen, Region, Val, View, number, paren
from tscript.interp.memory import codec, written_mark
from tscript.interp.scalar import combine, convert, fit, is_literal, scale, terms_of
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import PrimExpr, Var
from tscript.ir.functor import post_order_visit
from tscript.support.errors import InterpError

INT64 = DataType("int64")


# -- views ----------------------------------------------------------------------------------------


def view_of(g: Gen, buffer: Buffer) -> View:
    """How to reach `buffer`; a view of known memory that no statement declared is bound on first use."""
    found = g.views.get(buffer)
    if found is not None and any(s is found.home for s in g.stack):
        return found
    if buffer.data not in g.pointers:
        raise InterpError(f"buffer {buffer.name} is used but nothing allocates it", buffer=buffer.name)
    level = _level_of(g, buffer)
    inner = g.stack[level + 1 :]
    del g.stack[level + 1 :]
    try:
        return declare(g, buffer)
    finally:
        g.stack.extend(inner)


def _level_of(g: Gen, buffer: Buffer) -> int:
    level = g.pointer_levels[buffer.data]

    def visit(e: object) -> None:
        nonlocal level
        if isinstance(e, Var) and e in g.env:
            level = max(level, min(g.env[e].level, g.level))
        elif isinstance(e, (ex.BufferLoad, ex.Call)):
            level = g.level

    for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
        post_order_visit(e, visit)
    return level


def integer_of(g: Gen, e: PrimExpr) -> Val:
    """An extent, stride or offset as a 64-bit integer."""
    return convert(g, e.dtype, INT64, EXPRESSIONS[type(e)](g, e))


def compact_strides(g: Gen, extents: Sequence[Val]) -> tuple[Val, ...]:
    """Row-major strides."""
    steps: list[Val] = []
    step = number(1)
    for extent in reversed(extents):
        steps.append(step)
        step = product(g, step, extent)
    return tuple(reversed(steps))


def product(g: Gen, a: Val, b: Val) -> Val:
    """The product of two sizes or offsets. These do not wrap: they are computed with all their digits."""
    if is_literal(b):
        return exact_sum(g, *scale(a, b.const))
    if is_literal(a):
        return exact_sum(g, *scale(b, a.const))
    level = max(a.level, b.level)
    ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return g.opaque(f"{paren(a)} * {paren(b)}", min(ends), max(ends), level)


def total(g: Gen, parts: Sequence[Val]) -> Val:
    """The sum of sizes or offsets."""
    whole = Val("", terms={}, const=0)
    for p in parts:
        terms, const = combine(whole, p, 1)
        whole = Val("", terms=terms, const=const)
    return exact_sum(g, whole.terms or {}, whole.const)


def exact_sum(g: Gen, terms: dict[Val, int], const: int) -> Val:
    """A sum that does not wrap."""
    lo, hi = sum_range(terms, const)
    return g.render(terms, const, lo, hi)


def sum_range(terms: dict[Val, int], const: int) -> tuple[int, int]:
    """Bounds of a sum."""
    lo = hi = const
    for atom, factor in terms.items():
        ends = (atom.lo * factor, atom.hi * factor)
        lo, hi = lo + min(ends), hi + max(ends)
    return lo, hi


def declare(
    g: Gen,
    buffer: Buffer,
    strides: Sequence[Val] | None = None,
    offset: Val | None = None,
    lows: Sequence[Val] | None = None,
    extents: Sequence[Val] | None = None,
    exact: bool = False,
) -> View:
    """Bind `buffer` to the memory of its pointer, in the innermost scope.

    `strides` (elements) and `offset` replace those of the buffer; `exact` says that the memory is known
    to have the right size.
    """
    pointer = g.pointers[buffer.data]
    kind = g.constant("_type", buffer.dtype.element)
    memory, start = g.name(f"m_{buffer.name}"), g.name(f"o_{buffer.name}")
    g.line(f"{memory}, {start} = _bind({pointer}, {kind})")
    shadow = ""
    if g.options.check_uninitialized:
        shadow = g.name(f"s_{buffer.name}")
        g.line(f"{shadow} = _bind({pointer}, {kind}, True)[0]")
    dims = tuple(extents) if extents is not None else tuple(integer_of(g, s) for s in buffer.shape)
    lanes = buffer.dtype.lanes
    given = strides if strides is not None else [integer_of(g, s) for s in buffer.strides]
    steps = tuple(given) if given or not dims else compact_strides(g, dims)
    steps = tuple(product(g, s, number(lanes)) for s in steps)
    moved = integer_of(g, buffer.elem_offset) if offset is None else offset
    first = number(0) if exact else g.named(start, -(1 << 62), 1 << 62)
    base = total(g, [first, product(g, moved, number(lanes))])
    if lows is None:
        lows = tuple(number(0) for _ in dims)
    if not exact:
        shape, step = (", ".join(v.code for v in vs) + "," * bool(vs) for vs in (dims, steps))
        g.line(f"_require_room({buffer.name!r}, len({memory}), {base.code}, ({shape}), ({step}), {lanes})")
    view = View(buffer, memory, shadow, base, tuple(lows), dims, buffer.shape, steps, len(g.blocks), g.stack[-1])
    g.views[buffer] = view
    return view


# -- bounds ---------------------------------------------------------------------------------------


def difference_range(a: Val, b: Val) -> tuple[int, int]:
    """Bounds of `a - b`."""
    return sum_range(*combine(a, b, -1))


def _stays_below(g: Gen, index: Val, extent: Val, expr: PrimExpr | None) -> bool:
    if index.hi < extent.lo or difference_range(extent, index)[0] > 0:
        return True
    terms, const = terms_of(index)
    if expr is None or const > 0 or len(terms) != 1:
        return False
    atom, factor = next(iter(terms.items()))
    return factor == 1 and g.uppers.get(atom.code) is expr


def _check(g: Gen, view: View, indices: Sequence[Val], shown: Sequence[Val]) -> None:
    """Emit what of the bounds of `view` is not certain. `shown` are the subscripts to report."""
    wrong: list[str] = []
    for d, index in enumerate(indices):
        low, extent = view.lows[d], view.extents[d]
        if is_literal(low) and low.const == 0:
            below = index.lo >= 0
            above = _stays_below(g, index, extent, view.extent_exprs[d])
            top = paren(extent)
        else:
            below = difference_range(index, low)[0] >= 0
            above = difference_range(total(g, [low, extent]), index)[0] > 0
            top = paren(total(g, [low, extent]))
        if not (below and above):
            wrong.append(f"not {paren(low)} <= {paren(index)} < {top}")
    if wrong:
        shape = "".join(f"{v.code}, " for v in view.extents)
        lows = "".join(f"{v.code}, " for v in view.lows)
        where = f"{view.buffer.name!r}, ({_listed(shown)}), ({shape}), ({lows})"
        g.line(f"if {' or '.join(wrong)}: raise _outside_buffer({where})")


def _listed(values: Sequence[Val]) -> str:
    return "".join(f"{v.code}, " for v in values)


# -- declared regions -----------------------------------------------------------------------------


Corners = Sequence[Sequence[Val]]


def _check_regions(g: Gen, view: View, ends: Corners, write: bool) -> None:
    """Emit what is not certain about the enclosing blocks having declared the element (all corners in `ends`)."""
    if not g.options.check_regions:
        return
    names = _all_names(g, view, ends)
    around = g.blocks[names[-1][0].depth :]
    for k, frame in enumerate(around):
        if not frame.checked:
            continue
        regions = frame.writes if write else frame.reads
        if not write and any(f.initialises for f in around[k:]):
            # A reduction reads what its own init wrote; neither it nor the blocks around declare that as a read.
            regions = [*regions, *frame.writes]
        mine = [(r, corners) for r in regions for v, corners in names if r.buffer is v.buffer]
        if any(all(_covers(r, index) for index in corners) for r, corners in mine):
            continue
        if not mine and any(r.buffer.data is v.buffer.data for r in regions for v, _ in names):
            continue  # declared through an alias: which elements that means is not for us to say
        for n, index in enumerate(ends):
            inside = [" and ".join(_inside(g, r, corners[n])) or "True" for r, corners in mine]
            shown = f"{view.buffer.name!r}, ({_listed(index)}), {frame.name!r}, {write}"
            test = f"if not ({' or '.join(inside)}): " if inside else ""
            g.line(f"{test}raise _outside_region({shown})")


def _all_names(g: Gen, view: View, ends: Corners) -> list[tuple[View, Corners]]:
    """The same elements as elements of the view, of the buffer it shows, of the buffer that one shows, ..."""
    names: list[tuple[View, Corners]] = [(view, ends)]
    while view.source is not None:
        skipped = len(view.corner) - len(view.lows)
        head, tail = view.corner[:skipped], view.corner[skipped:]
        ends = [[*head, *(total(g, [low, i]) for low, i in zip(tail, index, strict=True))] for index in ends]
        view = view.source
        names.append((view, ends))
    return names


def _covers(region: Region, index: Sequence[Val]) -> bool:
    for (low, extent), i in zip(region.bounds, index, strict=True):
        if difference_range(i, low)[0] < 0 or difference_range(total_terms(low, extent), i)[0] <= 0:
            return False
    return True


def total_terms(a: Val, b: Val) -> Val:
    """`a + b` for comparison only (it has no source)."""
    terms, const = combine(a, b, 1)
    return Val("", terms=terms, const=const)


def _inside(g: Gen, region: Region, index: Sequence[Val]) -> list[str]:
    tests: list[str] = []
    for (low, extent), i in zip(region.bounds, index, strict=True):
        if is_literal(extent) and extent.const == 1:
            tests.append(f"{paren(i)} == {paren(low)}")
        else:
            tests.append(f"{paren(low)} <= {paren(i)} < {paren(total(g, [low, extent]))}")
    return tests


# -- scalar access --------------------------------------------------------------------------------


def _element(g: Gen, view: View, indices: Sequence[Val], write: bool) -> Val:
    """The offset of an element that was checked."""
    held = [i if i.level != FIXED or i.simple else g.hold(i) for i in indices]
    _check(g, view, held, held)
    _check_regions(g, view, [held], write)
    return offset_of(g, view, held)


def pointer_behind(g: Gen, view: View) -> str:
    """The name of a pointer into the memory that a view shows; which element it is at does not matter."""
    while view.source is not None and view.buffer.data not in g.pointers:
        view = view.source
    return g.pointers[view.buffer.data]


def offset_of(g: Gen, view: View, indices: Sequence[Val]) -> Val:
    """The offset, in scalars, of the element at `indices`."""
    return total(g, [view.base, *(product(g, i, s) for i, s in zip(indices, view.strides, strict=True))])


def _decoder(g: Gen, dtype: DataType) -> Callable[[str], str]:
    narrow = codec(dtype)
    if narrow is not None:
        table = g.constant(f"_values_{dtype!s}", narrow.decode)
        return lambda code: f"{table}[{code}]"
    if dtype.is_bool:
        return lambda code: f"{code} != 0"
    if dtype.bits < 8:
        # Only the low bits of the byte count.
        mask, sign = (1 << dtype.bits) - 1, (1 << (dtype.bits - 1)) * dtype.is_int
        return lambda code: f"(({code} & {mask} ^ {sign}) - {sign})"
    return lambda code: code


def _encoder(g: Gen, dtype: DataType) -> Callable[[str], str]:
    narrow = codec(dtype)
    if narrow is None:
        # The unused bits of a byte are 0, as where NumPy and native code write it.
        few = dtype.bits < 8 and not dtype.is_bool
        return lambda code: f"({code}) & {(1 << dtype.bits) - 1}" if few else code
    g.namespace.setdefault(f"_encode_{dtype!s}", narrow.encode)
    return lambda code: f"_encode_{dtype!s}({code})"


def load(g: Gen, buffer: Buffer, exprs: Sequence[PrimExpr], indices: list[Val], predicate: Val | None) -> Val:
    """The element, or the vector of elements, at `indices`."""
    view = view_of(g, buffer)
    dtype = buffer.dtype.element
    lo, hi = int_range(dtype) if dtype.is_integer or dtype.is_bool else (0, 0)
    decode = _decoder(g, dtype)
    single = buffer.dtype.lanes == 1 and not (exprs and exprs[-1].dtype.lanes > 1)
    if single and predicate is None:
        at = _element(g, view, indices, False)
        if view.shadow:
            at = g.hold(at)
            mark = written_mark(dtype)
            g.line(f"if {view.shadow}[{at.code}] != {mark}: raise _unwritten({buffer.name!r}, ({_listed(indices)}))")
        code = decode(f"{view.memory}[{at.code}]")
        return Val(code, False, lo, hi)
    offsets, flags = _vector_offsets(g, view, exprs, indices, predicate, False)
    if view.shadow:
        live = f"for _o, _p in zip({offsets}, {flags})" if flags else f"for _o in {offsets}"
        g.line(f"{live}:")
        test = f"    if {'_p and ' * bool(flags)}{view.shadow}[_o] != {written_mark(dtype)}: "
        g.line(test + f"raise _unwritten({buffer.name!r}, ({_listed(indices)}))")
    if flags:
        zero = "0.0" if dtype.is_float else "0"
        item = decode(f"{view.memory}[_o]")
        lanes = f"[{item} if _p else {zero} for _o, _p in zip({offsets}, {flags})]"
        return Val(lanes + "[0]" * single, False, min(lo, 0), hi)
    return Val(f"[{decode(f'{view.memory}[_o]')} for _o in {offsets}]", False, lo, hi)


def store(
    g: Gen,
    buffer: Buffer,
    exprs: Sequence[PrimExpr],
    indices: list[Val],
    value: Val,
    predicate: Val | None,
    undefined: bool,
) -> None:
    """Write `value`; with `undefined`, count the element as never written."""
    view = view_of(g, buffer)
    dtype = buffer.dtype.element
    encode = _encoder(g, dtype)
    mark = 0 if undefined else written_mark(dtype)
    single = buffer.dtype.lanes == 1 and not (exprs and exprs[-1].dtype.lanes > 1)
    if single and predicate is None:
        at = _element(g, view, indices, True)
        if view.shadow:
            at = g.hold(at)
        g.line(f"{view.memory}[{at.code}] = {encode(value.code)}")
        if view.shadow:
            g.line(f"{view.shadow}[{at.code}] = {mark}")
        return
    value = g.hold(value)
    offsets, flags = _vector_offsets(g, view, exprs, indices, predicate, True)
    lanes = f"({value.code},)" if single else value.code
    pairs = f"{offsets}, {lanes}" + f", {flags}" * bool(flags)
    g.push()
    g.line(f"{'if _p: ' * bool(flags)}{view.memory}[_o] = {encode('_v')}")
    if view.shadow:
        g.line(f"{'if _p: ' * bool(flags)}{view.shadow}[_o] = {mark}")
    g.pop(f"for _o, _v{', _p' * bool(flags)} in zip({pairs}):")


# -- vector access --------------------------------------------------------------------------------


def _vector_offsets(
    g: Gen, view: View, exprs: Sequence[PrimExpr], indices: list[Val], predicate: Val | None, write: bool
) -> tuple[str, str]:
    """Sources of the offsets of all scalars in lane order, and of a flag for each ("" without a predicate)."""
    width = view.buffer.dtype.lanes
    head = [g.hold(i) for i in indices[:-1]]
    lanes = exprs[-1].dtype.lanes if exprs else 1
    flags = "" if predicate is None else g.hold(predicate).code
    if lanes == 1:
        last = g.hold(indices[-1]) if indices else None
        whole = [*head, last] if last is not None else head
        if flags:
            # An element whose predicate is false is not touched, so it need not exist.
            g.push()
            _element(g, view, whole, write)
            scope = g.stack.pop()
            if scope.lines:
                g.attach(f"if {flags}:", scope)
            start = g.hold(offset_of(g, view, whole))
        else:
            start = g.hold(_element(g, view, whole, write))
        return f"range({start.code}, {_after(start, width)})", f"[{flags}] * {width}" if flags else ""
    points = g.hold(indices[-1])
    ramp = exprs[-1]
    if isinstance(ramp, ex.Ramp) and predicate is None and points.simple:
        stride = ramp.stride.value if isinstance(ramp.stride, ex.IntImm) else None
        first, last_one = f"{points.code}[0]", f"{points.code}[{lanes - 1}]"
        base = EXPRESSIONS[type(ramp.base)](g, ramp.base) if stride is not None else None
        if base is not None and stride is not None:
            # Both ends decide for all lanes, since the lanes of a ramp lie between them.
            ends = [base, fit(g, ramp.dtype.element, *combine(base, number(stride * (lanes - 1)), 1))]
        else:
            ends = [Val(first, True, points.lo, points.hi), Val(last_one, True, points.lo, points.hi)]
        ends = [e if e.level != FIXED or e.simple else g.hold(e) for e in ends]
        corners = [[*head, e] for e in ends]
        for corner in corners:
            _check(g, view, corner, corner)
        _check_regions(g, view, corners, write)
    else:
        g.push()
        lane = Val("_x", True, points.lo, points.hi)
        _check(g, view, [*head, lane], [*head, lane])
        _check_regions(g, view, [[*head, lane]], write)
        if g.stack[-1].lines:
            guard = f" if {flags}[_i]" if flags else ""
            source = f"(_x for _i, _x in enumerate({points.code}){guard})" if flags else points.code
            g.pop(f"for _x in {source}:")
        else:
            g.stack.pop()
    zero = number(0)
    start = g.hold(total(g, [offset_of(g, view, [*head, zero])]))
    step = view.strides[-1]
    each = f"_x * {paren(step)} + {start.code}" if step.code != "1" else f"_x + {start.code}"
    made = g.name("offsets")
    if width > 1:
        g.line(f"{made} = [{each} + _l for _x in {points.code} for _l in range({width})]")
        if flags:
            flags = g.hold(Val(f"[_p for _p in {flags} for _l in range({width})]")).code
    else:
        g.line(f"{made} = [{each} for _x in {points.code}]")
    return made, flags


def _after(start: Val, count: int) -> str:
    return f"{start.code} + {count}"
