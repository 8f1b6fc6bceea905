"""How tensors are described: placeholder, compute, extern and the axes they use."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from tscript.ir import construct as make
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import ExprLike, IntImm, IterVar, PrimExpr, Range, Reduce, SizeVar, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit, substitute
from tscript.ir.stmt import Evaluate, Stmt
from tscript.support.errors import ScriptError
from tscript.support.wording import kind_of
from tscript.te.report import at_user_line, function_span
from tscript.te.tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor, frozen_attrs

Shape = Sequence[ExprLike] | PrimExpr


class VariadicFunction(Protocol):
    """A function of any number of axes."""

    def __call__(self, *axes: Var) -> Any:
        """The value at `axes`."""
        ...


AxisFunction = (
    Callable[[Var], Any]
    | Callable[[Var, Var], Any]
    | Callable[[Var, Var, Var], Any]
    | Callable[[Var, Var, Var, Var], Any]
    | Callable[[Var, Var, Var, Var, Var], Any]
    | Callable[[Var, Var, Var, Var, Var, Var], Any]
    | VariadicFunction
)
"""A function of the axes of a tensor; the arities are spelled out so that checkers know a lambda's parameters."""
_tag: ContextVar[str] = ContextVar("te_tag", default="")


def var(name: str = "tindex", dtype: str = "int32") -> Var:
    """A scalar parameter."""
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32") -> SizeVar:
    """A scalar parameter that is at least 0, such as an extent."""
    return SizeVar(name, dtype)


def const(value: int | float, dtype: str = "int32") -> PrimExpr:
    """A constant."""
    return make.const(value, dtype)


def _domain(dom: Any) -> Range:
    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (tuple, list)) and len(dom) == 2:  # pyright: ignore[reportUnknownArgumentType]
        return Range(dom[0], dom[1])  # pyright: ignore[reportUnknownArgumentType]
    raise TypeError(f"the domain of an axis is a Range or a pair (begin, end), not {dom!r}")


def reduce_axis(dom: Any, name: str = "rv", thread_tag: str = "") -> IterVar:
    """An axis to reduce over; `dom` is (begin, end), the end excluded, or a Range.

    >>> reduce_axis((0, 8), "k").dom.extent.value
    8
    """
    domain = _domain(dom)
    return IterVar(domain, Var(name, domain.extent.dtype), IterVar.CommReduce, thread_tag)


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> IterVar:
    """A hardware thread index. A text as `dom` is the tag; ValueError without one."""
    if isinstance(dom, str):
        dom, tag = None, dom
    if not tag:
        raise ValueError("a thread axis needs a tag, such as 'threadIdx.x'")
    domain = None if dom is None else _domain(dom)
    return IterVar(domain, Var(name or tag, "int32"), IterVar.ThreadIndex, tag)


@contextmanager
def tag_scope(tag: str) -> Generator[None, None, None]:
    """Give `tag` to every compute inside; also usable as a decorator. ValueError when nested."""
    if _tag.get():
        raise ValueError("a tag_scope around sets the tag already; give one tag, not two")
    token = _tag.set(tag)
    try:
        yield
    finally:
        _tag.reset(token)


def _current_tag(tag: str) -> str:
    scoped = _tag.get()
    if scoped and tag:
        raise ValueError("a tag_scope around sets the tag already; give one tag, not two")
    return scoped or tag


def _extents(shape: Any) -> tuple[PrimExpr, ...]:
    if isinstance(shape, PrimExpr):
        shape = (shape,)
    if not isinstance(shape, (tuple, list)):
        raise TypeError(f"a shape is a tuple, not {shape!r}; write ({shape!r},) for one dimension")
    result: list[PrimExpr] = []
    for s in shape:  # pyright: ignore[reportUnknownVariableType]
        if isinstance(s, float) and not s.is_integer():
            raise ValueError(f"the shape holds {s}; dimensions are whole numbers")
        e = make.convert(int(s) if isinstance(s, float) else s)
        if not e.dtype.is_integer:
            raise TypeError(f"the shape holds {e} of type {e.dtype!s}; dimensions are integers")
        if isinstance(e, IntImm) and e.value < 0:
            raise ValueError(f"the shape holds {e.value}; dimensions are at least 0")
        if str(e.dtype) not in ("int32", "int64"):
            # Axes have the type of their extent, and narrow or unsigned ones would wrap around in subscripts.
            if not isinstance(e, IntImm):
                raise TypeError(f"the shape holds {e} of type {e.dtype!s}; sizes are int32 or int64, so cast it")
            e = make.convert(e.value)
        result.append(e)
    return tuple(result)


def placeholder(shape: Shape, dtype: str | None = None, name: str = "placeholder") -> Tensor:
    """An input tensor; float32 unless told otherwise.

    >>> placeholder((4, 8), name="A").ndim
    2
    """
    return PlaceholderOp(name, "", frozen_attrs(None), _extents(shape), DataType(dtype or "float32")).output(0)


def compute(
    shape: Shape,
    fcompute: AxisFunction,
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Any:
    """A tensor whose element at (i, j, ...) is `fcompute(i, j, ...)`; a tuple of tensors for several results.

    Axes are named after the parameters of `fcompute`. A reduction must be the whole result. Raises
    ScriptError, at the user's line, for a mistake in `fcompute`.

    >>> A = placeholder((4, 8), name="A")
    >>> compute((8, 4), lambda i, j: A[j, i], name="B").name
    'B'
    """
    extents = _extents(shape)
    names = _axis_names(fcompute, len(extents), varargs_names)
    extents = extents[: len(names)]
    axes = tuple(
        IterVar(Range.from_min_extent(make.const(0, e.dtype), e), Var(n, e.dtype), IterVar.DataPar)
        for n, e in zip(names, extents, strict=True)
    )
    with at_user_line(fcompute, f"in the compute `{name}`"):
        result = fcompute(*[a.var for a in axes])
        several = isinstance(result, (list, tuple))
        values: tuple[Any, ...] = tuple(result) if several else (result,)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if not values or any(v is None for v in values):
            raise TypeError("the function returns nothing; it must return the value of an element")
        body = tuple(_scalar(v, name) for v in values)
        reductions = _check_reductions(body)
    op = ComputeOp(name, _current_tag(tag), frozen_attrs(attrs), axes, body, reductions)
    outputs = tuple(op.output(i) for i in range(len(body)))
    return outputs[0] if len(outputs) == 1 else outputs


def _scalar(value: Any, name: str) -> PrimExpr:
    if isinstance(value, Tensor):
        if value.ndim:
            raise ValueError(f"the function returns the whole tensor `{value.name}`; index it with the axes")
        return value()
    scalar = make.convert(value)
    if scalar.dtype.is_handle:
        raise TypeError(f"the function returns {kind_of(value)}; it must return the value of an element, a number")
    return scalar


def _axis_names(fcompute: Callable[..., Any], rank: int, varargs_names: Sequence[str] | None) -> list[str]:
    signature = inspect.signature(fcompute)
    names: list[str] = []
    varargs = False
    for p in signature.parameters.values():
        if p.kind is p.VAR_POSITIONAL:
            varargs = True
        elif p.kind in (p.VAR_KEYWORD, p.KEYWORD_ONLY) or p.default is not p.empty:
            raise ScriptError(
                f"the function of a compute takes axes by position only; `{p.name}` is no plain parameter",
                function_span(fcompute),
                "use a closure or functools.partial for other values",
            )
        else:
            names.append(p.name)
    if not names and not varargs and rank:
        raise ScriptError(
            f"the function takes no axes but the shape has {rank} dimensions",
            function_span(fcompute),
            "give it one parameter for each dimension, or *indices",
        )
    if len(names) > rank:
        raise ScriptError(
            f"the function takes {len(names)} axes ({', '.join(names)}) but the shape has {rank} dimensions",
            function_span(fcompute),
        )
    if varargs:
        extra = rank - len(names)
        if varargs_names is not None and len(varargs_names) != extra:
            raise RuntimeError(f"varargs_names has {len(varargs_names)} names for {extra} axes")
        names += list(varargs_names) if varargs_names is not None else [f"i{k}" for k in range(extra)]
    return names


def _check_reductions(body: tuple[PrimExpr, ...]) -> tuple[IterVar, ...]:
    """The reduction axes; ValueError where a reduction is not a whole result, or several do not match."""
    for e in body:
        found: list[Reduce] = []
        post_order_visit(e, lambda n, found=found: found.append(n) if isinstance(n, Reduce) else None)
        if any(r is not e for r in found):
            raise ValueError(
                "a reduction must be the whole result of a compute; "
                "give it a tensor of its own, and use that tensor here"
            )
    whole = [e for e in body if isinstance(e, Reduce)]
    if not whole:
        return ()
    first = whole[0]
    if len(whole) != len(body):
        raise ValueError("either all results of a compute are reductions, or none")
    for k, r in enumerate(whole):
        if r.combiner is not first.combiner or r.value_index != k:
            raise ValueError("several results must be the values of one reduction, in order")
    return first.axis


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[Sequence[Buffer], Sequence[Buffer]], Any],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Tensors filled by the statement (or call) that `fcompute(ins, outs)` returns for their buffers.

    `shape` is one shape or a list of them; `dtype` one type or a list, and may be left out when all inputs
    have the same. Raises TypeError or ValueError where these do not fit together.
    """
    tensors = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for t in tensors:
        if not isinstance(t, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the inputs of an extern are tensors, not {kind_of(t)}")
    shapes = (
        [_extents(shape)] if isinstance(shape, tuple) or isinstance(shape, PrimExpr) else [_extents(s) for s in shape]
    )
    if dtype is None:
        kinds = list(dict.fromkeys(t.dtype for t in tensors))
        if len(kinds) != 1:
            raise ValueError("the inputs of an extern have several types (or there are none): give dtype=")
        dtypes = [kinds[0]] * len(shapes)
    else:
        dtypes = [DataType(dtype)] * len(shapes) if isinstance(dtype, str) else [DataType(d) for d in dtype]
    if len(dtypes) != len(shapes):
        raise ValueError(f"the extern has {len(shapes)} shapes but {len(dtypes)} types")
    ins = _buffers(in_buffers) or [
        decl_buffer(t.shape, t.dtype, t.op.name, elem_offset=Var("elem_offset")) for t in tensors
    ]
    outs = _buffers(out_buffers) or [
        decl_buffer(s, d, name, elem_offset=Var("elem_offset")) for s, d in zip(shapes, dtypes, strict=True)
    ]
    _require_buffers("in_buffers", ins, [(t.shape, t.dtype) for t in tensors])
    _require_buffers("out_buffers", outs, list(zip(shapes, dtypes, strict=True)))
    with at_user_line(fcompute, f"in the extern `{name}`"):
        body = fcompute(ins, outs)
        if isinstance(body, PrimExpr):
            body = Evaluate(body)
        if not isinstance(body, Stmt):
            raise TypeError(f"the function returns {kind_of(body)}; it must return a statement or a call")
    op = ExternOp(name, _current_tag(tag), frozen_attrs(attrs), tuple(tensors), tuple(ins), tuple(outs), body)
    outputs = tuple(op.output(i) for i in range(len(outs)))
    return outputs[0] if len(outputs) == 1 else outputs


def _buffers(given: Any) -> list[Buffer]:
    if given is None:
        return []
    return [given] if isinstance(given, Buffer) else list(given)


def _require_buffers(what: str, buffers: Sequence[Buffer], wanted: Sequence[tuple[Sequence[PrimExpr], str]]) -> None:
    """Raise ValueError for buffers that are not of the number, types and known sizes of the tensors they stand for."""
    if len(buffers) != len(wanted):
        raise ValueError(f"{what} has {len(buffers)} buffers for {len(wanted)} tensors")
    for b, (shape, dtype) in zip(buffers, wanted, strict=True):
        fits = b.dtype == dtype and len(b.shape) == len(shape)
        sizes = zip(b.shape, shape, strict=True) if fits else ()
        if not fits or any(isinstance(x, IntImm) and isinstance(y, IntImm) and x.value != y.value for x, y in sizes):
            raise ValueError(f"the buffer {b.name} is {_form(b.shape, b.dtype)}, but its tensor {_form(shape, dtype)}")


def _form(shape: Sequence[PrimExpr], dtype: str) -> str:
    return f"{dtype}[{', '.join(str(s.value) if isinstance(s, IntImm) else str(s) for s in shape)}]"


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: PrimFunc, **kwargs: Any) -> Any:
    """Tensors filled by the body of `primfunc`, whose parameters after the inputs are the outputs."""
    buffers = [primfunc.buffer_map[p] for p in primfunc.params if p in primfunc.buffer_map]
    if len(buffers) <= len(input_tensors):
        raise ValueError(
            f"{primfunc.__name__} has {len(buffers)} buffers: too few for {len(input_tensors)} inputs and an output"
        )
    ins, outs = buffers[: len(input_tensors)], buffers[len(input_tensors) :]
    _require_buffers(primfunc.__name__, ins, [(t.shape, t.dtype) for t in input_tensors])

    def body(given: Sequence[Buffer], made: Sequence[Buffer]) -> Stmt:
        swap = dict(zip((*ins, *outs), (*given, *made), strict=True))
        pointers = {old.data: new.data for old, new in swap.items()}
        return substitute(primfunc.body, pointers, swap)  # pyright: ignore[reportArgumentType]

    options: dict[str, Any] = {"name": primfunc.__name__, "dtype": [b.dtype for b in outs], **kwargs}
    return extern([b.shape for b in outs], input_tensors, body, **options)


def scan(*_: Any, **__: Any) -> Any:
    """Not supported: raises TypeError that says what to write instead."""
    raise TypeError(
        "Unsupported Operation: ScanOp. A recurrence is written as a loop in a @T.prim_func "
        "(for t in T.serial(...)), or as te.extern with such a loop"
    )
