"""Arguments of a run: arrays and numbers checked against the parameters, sizes and strides bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tscript.interp.emit import nodes_below
from tscript.interp.memory import Memory, Pointer
from tscript.ir import expr as ex
from tscript.ir import semantics
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import INT64, DataType, int_range
from tscript.ir.expr import PrimExpr, Var
from tscript.ir.function import PrimFunc
from tscript.ir.stmt import BufferStore, MatchBufferRegion
from tscript.support.errors import CallError
from tscript.support.wording import kind_of, with_article

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Bound:
    """Arguments ready for the generated function."""

    values: list[Any] = field(default_factory=list[Any])
    strided: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])  # by parameter
    finish: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


class Signature:
    """What a function takes. `symbols` are the variables that array shapes and strides give values to."""

    def __init__(self, func: PrimFunc) -> None:
        self.name = func.__name__
        self.params = func.params
        self.buffers: dict[int, Buffer] = {
            i: func.buffer_map[p] for i, p in enumerate(func.params) if p in func.buffer_map
        }
        scalars = {p for p in func.params if not p.dtype.is_handle}
        found: dict[Var, None] = {}
        for b in self.buffers.values():
            for e in (*b.shape, *b.strides, b.elem_offset):
                if isinstance(e, Var) and e not in scalars:
                    found[e] = None
        self.symbols = tuple(found)
        self._addressed = _addressed(func)
        self._written = _written(func)

    def bind(self, args: Sequence[Any], check: bool) -> Bound:
        """Check `args` and take them apart. Raises CallError naming the parameter, what it takes and what it got."""
        if len(args) != len(self.params):
            names = ", ".join(self._label(i) for i in range(len(self.params)))
            count = "1 argument" if len(self.params) == 1 else f"{len(self.params)} arguments"
            raise CallError(f"{self.name} takes {count} ({names}), not {len(args)}")
        bound = Bound()
        env: dict[Var, int | float] = {}
        arrays: dict[int, Array] = {}
        for i, (param, arg) in enumerate(zip(self.params, args, strict=True)):
            if param.dtype.is_handle:
                if (arg is None or isinstance(arg, Pointer)) and i not in self.buffers:
                    bound.values.append(arg)
                    continue
                arrays[i] = self._array(i, arg)
                bound.values.append(None)
            else:
                env[param] = self._scalar(i, param.dtype, arg)
                bound.values.append(env[param])
        for i, array in arrays.items():
            if i in self.buffers:
                self._check_type(i, array)
                self._bind_symbols(i, array, env)
        for i, array in arrays.items():
            bound.values[i] = self._place(i, array, env, bound, check)
        for v in self.symbols:
            bound.values.append(env.get(v, 0))
        return bound

    def _label(self, i: int) -> str:
        return self.buffers[i].name if i in self.buffers else self.params[i].name

    def _where(self, i: int) -> str:
        return f"argument {i + 1} `{self._label(i)}` of {self.name}"

    def _array(self, i: int, arg: Any) -> Array:
        array: Any = arg
        if isinstance(arg, np.ndarray):
            return array
        memory = getattr(arg, "memory", None)
        if callable(memory) and isinstance(memory(), np.ndarray):
            # Arrays of ours have types that neither DLPack nor the buffer protocol of NumPy knows.
            return memory()  # pyright: ignore[reportReturnType]
        try:
            if hasattr(arg, "__array_interface__"):
                return np.asarray(arg)
            if hasattr(arg, "__dlpack__"):
                from_dlpack: Callable[[Any], Array] = np.from_dlpack
                return from_dlpack(arg)
            return np.asarray(memoryview(arg))
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            want = self._wanted(i) if i in self.buffers else "an array"
            remedy = "pass an array; outputs are arguments too" if arg is None else self._as_array_text(i)
            raise CallError(f"{self._where(i)} takes {want}, not {kind_of(arg)}; {remedy}") from error

    def _as_array_text(self, i: int) -> str:
        name = self._label(i)
        if i not in self.buffers:
            return f"use np.array({name})"
        return f"use np.array({name}, dtype={str(self.buffers[i].dtype.element)!r})"

    def _wanted(self, i: int) -> str:
        b = self.buffers[i]
        shape = ", ".join(_text(s) for s in b.shape) + "," * (len(b.shape) == 1)
        return f"{with_article(b.dtype)} array of shape ({shape})"

    def _scalar(self, i: int, dtype: DataType, arg: Any) -> int | float:
        if dtype.lanes != 1:
            raise CallError(f"{self._where(i)} is {with_article(dtype)}; vectors cannot be passed from Python")
        item = getattr(arg, "item", None)
        value: Any = item() if callable(item) and getattr(arg, "ndim", None) == 0 else arg
        if dtype.is_float and isinstance(value, (int, float)) and not isinstance(value, bool):
            try:
                return semantics.round_float(dtype, float(value))
            except OverflowError:
                raise CallError(f"{self._where(i)} takes {with_article(dtype)}, which cannot hold {value}") from None
        if dtype.is_float or not isinstance(value, int) or (isinstance(value, bool) and not dtype.is_bool):
            remedy = f"; use int({self._label(i)})" if isinstance(value, float) and dtype.is_integer else ""
            raise CallError(
                f"{self._where(i)} takes {with_article(dtype)}, not {arg!r} of type {type(arg).__name__}{remedy}"
            )
        low, high = int_range(dtype)
        if not low <= value <= high:
            raise CallError(f"{self._where(i)} takes {with_article(dtype)}, which holds {low} to {high}; got {value}")
        return int(value)

    def _check_type(self, i: int, array: Array) -> None:
        b = self.buffers[i]
        want = semantics.numpy_dtype(b.dtype)
        if array.dtype != want:
            raise CallError(
                f"{self._where(i)} takes {self._wanted(i)}; got an array of dtype {array.dtype!s}; "
                f"use {b.name}.astype({str(b.dtype.element)!r})"
            )
        if b.data in self._written and not array.flags.writeable:
            raise CallError(
                f"{self._where(i)}: the kernel writes this array, but it is read-only; pass {b.name}.copy()"
            )
        rank = len(b.shape) + (b.dtype.lanes > 1)
        if array.ndim != rank:
            raise CallError(
                f"{self._where(i)} takes {self._wanted(i)}, {rank} dimensions; got shape {array.shape}"
                + self._reshaped(i, array)
            )
        if b.dtype.lanes > 1 and (array.shape[-1] != b.dtype.lanes or array.strides[-1] != array.itemsize):
            raise CallError(
                f"{self._where(i)} takes {self._wanted(i)}: the last dimension of the array holds the "
                f"{b.dtype.lanes} lanes of each element, side by side; got shape {array.shape}"
            )

    def _reshaped(self, i: int, array: Array) -> str:
        """What to do about an array of another shape that has the right number of elements."""
        b = self.buffers[i]
        shape = tuple(e.value for e in b.shape if isinstance(e, ex.IntImm))
        if len(shape) != len(b.shape) or b.dtype.lanes > 1 or math.prod(shape) != array.size:
            return ""
        return f"; it has the right number of elements: {b.name}.reshape({shape})"

    def _bind_symbols(self, i: int, array: Array, env: dict[Var, int | float]) -> None:
        b = self.buffers[i]
        for e, extent in zip(b.shape, array.shape, strict=False):
            if isinstance(e, Var) and e not in env:
                if extent > int_range(e.dtype)[1]:
                    raise CallError(f"{self._where(i)}: extent {extent} does not fit in {e.name} ({e.dtype!s})")
                env[e] = extent
        width = array.itemsize * b.dtype.lanes
        for e, stride in zip(b.strides, array.strides, strict=False):
            if isinstance(e, Var) and e not in env:
                env[e] = stride // width
        if isinstance(b.elem_offset, Var) and b.elem_offset not in env:
            env[b.elem_offset] = 0

    def _place(self, i: int, array: Array, env: dict[Var, int | float], bound: Bound, check: bool) -> Pointer:
        b = self.buffers.get(i)
        if b is None:
            if not array.flags.c_contiguous:
                raise CallError(
                    f"{self._where(i)} is an address; it takes a contiguous array only; "
                    f"use np.ascontiguousarray({self._label(i)})"
                )
            memory, start = Memory.of_array(array, check)
            return Pointer(memory, start)
        shape = array.shape[: len(b.shape)]
        for d, (e, extent) in enumerate(zip(b.shape, shape, strict=True)):
            want = self._value(i, e, env)
            if want != extent:
                known = f"{_text(e)} = {want}" if not isinstance(e, ex.IntImm) else str(want)
                raise CallError(
                    f"{self._where(i)} takes {self._wanted(i)}: dimension {d} must be {known}; got shape {array.shape}"
                    + self._reshaped(i, array)
                )
        width = array.itemsize * b.dtype.lanes
        steps = array.strides[: len(b.shape)]
        if any(s % width for s, n in zip(steps, shape, strict=True) if n > 1) or array.ctypes.data % array.itemsize:
            array = self._copied(array, bound)
            steps = array.strides[: len(b.shape)]
        strides = tuple(s // width for s in steps)
        wanted = [self._value(i, e, env) for e in b.strides] if b.strides else _compact(shape)
        fits = array.size == 0 or all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True))
        if not fits:
            if b.strides:
                raise CallError(f"{self._where(i)} takes strides {tuple(wanted)} (elements); got {strides}")
            if b.data in self._addressed:
                raise CallError(
                    f"{self._where(i)} must be contiguous, because the program uses its address; "
                    f"got strides {strides}; use np.ascontiguousarray({b.name})"
                )
            bound.strided[i] = strides
        memory, start = Memory.of_array(array, check)
        return Pointer(memory, start - self._value(i, b.elem_offset, env) * width)

    def _copied(self, array: Array, bound: Bound) -> Array:
        """A contiguous copy of an array whose elements lie between element boundaries; stores go back at the end."""
        copy = np.ascontiguousarray(array)
        if array.flags.writeable:
            bound.finish.append(lambda: np.copyto(array, copy))
        else:
            copy.flags.writeable = False
        return copy

    def _value(self, i: int, e: PrimExpr, env: dict[Var, int | float]) -> int:
        try:
            return evaluate(e, env)
        except KeyError:
            raise CallError(
                f"{self._where(i)}: {_text(e)} has no value; no array has it as an extent of its own, "
                "so pass it as a parameter"
            ) from None


def _text(e: PrimExpr) -> str:
    """A short text of an extent, without the printer."""
    if isinstance(e, ex.IntImm):
        return str(e.value)
    if isinstance(e, Var):
        return e.name
    signs: dict[type[PrimExpr], str] = {ex.Add: "+", ex.Sub: "-", ex.Mul: "*", ex.FloorDiv: "//", ex.FloorMod: "%"}
    if isinstance(e, ex.BinaryExpr) and type(e) in signs:
        return f"({_text(e.a)} {signs[type(e)]} {_text(e.b)})"
    return _text(e.value) if isinstance(e, ex.Cast) else type(e).__name__


def evaluate(e: PrimExpr, env: dict[Var, int | float]) -> int:
    """The value of an integer expression; KeyError for an unknown variable."""
    if isinstance(e, ex.IntImm):
        return e.value
    if isinstance(e, Var):
        return int(env[e])
    if isinstance(e, ex.Cast):
        return int(semantics.convert_value(INT64, e.dtype, evaluate(e.value, env)))
    if isinstance(e, ex.ArithExpr):
        return int(semantics.arith(type(e).__name__, e.dtype, evaluate(e.a, env), evaluate(e.b, env)))
    raise CallError(f"an extent of a parameter is {kind_of(e)}; extents are integer arithmetic")


def _compact(shape: Sequence[int]) -> list[int]:
    steps: list[int] = []
    step = 1
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return steps[::-1]


def _written(func: PrimFunc) -> set[Var]:
    """Data variables that `func` stores to, itself or through views of regions."""
    written: set[Var] = set()
    source_of: dict[Var, Var] = {}
    for n in nodes_below(func.body):
        if isinstance(n, BufferStore):
            written.add(n.buffer.data)
        elif isinstance(n, MatchBufferRegion):
            source_of[n.buffer.data] = n.source.buffer.data
        elif isinstance(n, ex.Call) and isinstance(n.op, ex.Op) and n.op.name == "tir.tvm_access_ptr":
            data, mask = n.args[1], n.args[4]
            if isinstance(data, Var) and isinstance(mask, ex.IntImm) and mask.value & 2:
                written.add(data)
    for view in [v for v in source_of if v in written]:
        at: Var | None = view
        while (at := source_of.get(at)) is not None:
            written.add(at)
    return written


def _addressed(func: PrimFunc) -> set[Var]:
    """Data variables that `func` uses other than by subscripts of the parameter they belong to."""
    own = {b.data: b for b in func.buffer_map.values()}
    used: set[Var] = set()
    for n in nodes_below(func.body):
        if isinstance(n, Var) and n in own:
            used.add(n)
        elif isinstance(n, Buffer) and n.data in own and own[n.data] is not n:
            used.add(n.data)
    return used
