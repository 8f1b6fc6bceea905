"""What a kernel expects of each argument, worked out once, and the errors for arguments that are otherwise."""

from __future__ import annotations

from typing import Any, Final, NoReturn, cast

import numpy as np

from tscript.codegen.abi import KernelAbi, Parameter, pointee
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import IntImm, PrimExpr, Var
from tscript.ir.semantics import INT_BINARY, numpy_dtype
from tscript.runtime.address import data_address
from tscript.runtime.ndarray import NDArray, dtype_name
from tscript.runtime.sharing import device_of, is_host, place_name, shared_array
from tscript.support.errors import BuildError, CallError
from tscript.support.wording import kind_of, with_article

DEFAULT_ALIGNMENT: Final = 64
"""What declarations say when they say nothing; NumPy's arrays need not keep to it."""

Environment = dict[Var, int]


def evaluate(e: PrimExpr, env: Environment) -> int:
    """The value of an extent or stride. Raises KeyError for a variable that has none yet."""
    if isinstance(e, IntImm):
        return e.value
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, ex.Cast):
        return evaluate(e.value, env)
    if isinstance(e, ex.ArithExpr):
        return INT_BINARY[type(e).__name__](evaluate(e.a, env), evaluate(e.b, env))
    raise BuildError(f"`{e}` cannot be the size of an argument; use integers, variables, and arithmetic of these")


class ScalarArgument:
    """A number, bool or pointer that a kernel takes."""

    def __init__(self, position: int, parameter: Parameter, kernel: str) -> None:
        self.parameter = parameter
        self.where = f"argument {position} `{parameter.name}` of {kernel}"
        self.dtype: DataType = parameter.var.dtype
        element = pointee(parameter.var)
        self.pointee = None if element is None or element.code == "void" else numpy_dtype(element)
        self.low, self.high = (0, 0) if self.dtype.is_float or self.dtype.is_handle else int_range(self.dtype)

    def check(self, value: Any) -> int | float:
        """The slot's content."""
        dtype = self.dtype
        if dtype.is_handle:
            return self._address(value)
        if isinstance(value, np.generic):
            value = cast(Any, value).item()
        if dtype.is_float:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return self._float(value)
            self._fail(f"expected a number ({dtype!s}), got {_what(value)}")
        if dtype.is_bool:
            if isinstance(value, (bool, int)) and value in (0, 1):
                return int(value)
            self._fail(f"expected a bool, got {_what(value)}")
        if isinstance(value, bool) or not isinstance(value, int):
            hint = f"; use int({self.parameter.name})" if isinstance(value, float) else ""
            self._fail(f"expected an integer ({dtype!s}), got {_what(value)}{hint}")
        if not self.low <= value <= self.high:
            self._fail(f"{value} does not fit in {dtype!s}, which holds {self.low} to {self.high}")
        return value

    def _float(self, value: int | float) -> float:
        try:
            return float(value)
        except OverflowError:
            self._fail(
                f"an integer of {value.bit_length() if isinstance(value, int) else 0} bits is beyond {self.dtype!s}"
            )

    def _address(self, value: Any) -> int:
        if isinstance(value, NDArray):
            value = value.memory()
        if isinstance(value, np.ndarray):
            return self._array_address(cast("np.ndarray[Any, Any]", value))
        if value is None:
            return 0
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        self._fail(f"expected an array or an address, got {_what(value)}")

    def _array_address(self, array: np.ndarray[Any, Any]) -> int:
        if self.pointee is not None and array.dtype != self.pointee:
            self._fail(f"expected an array of {self.pointee}, got {_form(array)}")
        if not array.flags.c_contiguous:
            self._fail(f"expected a compact row-major array; use np.ascontiguousarray({self.parameter.name})")
        if self.parameter.written and not array.flags.writeable:
            self._fail(f"the kernel writes this array, but it is read-only; pass {self.parameter.name}.copy()")
        return data_address(array)

    def _fail(self, text: str) -> NoReturn:
        raise CallError(f"{self.where}: {text}")


class ArrayArgument:
    """An array that a kernel takes."""

    def __init__(self, position: int, parameter: Parameter, buffer: Buffer, abi: KernelAbi) -> None:
        self.name = parameter.name
        self.where = f"argument {position} `{self.name}` of {abi.name}"
        self.short = f"argument {position} `{self.name}`"
        self.buffer = buffer
        self.written = parameter.written
        self.dtype = buffer.dtype
        self.numpy_dtype = numpy_dtype(buffer.dtype)
        self.itemsize = self.numpy_dtype.itemsize
        self.lanes: int = buffer.dtype.lanes
        self.rank = len(buffer.shape) + (self.lanes > 1)
        self.shape = self._constants(buffer.shape, self.lanes)
        self.needs_compact = not buffer.strides
        self.alignment = buffer.data_alignment if buffer.data_alignment != DEFAULT_ALIGNMENT else 1
        self.binds = abi.symbols
        self.is_simple = (
            self.shape is not None
            and self.needs_compact
            and self.alignment == 1
            and isinstance(buffer.elem_offset, IntImm)
        )

    @staticmethod
    def _constants(shape: tuple[PrimExpr, ...], lanes: int) -> tuple[int, ...] | None:
        dims = tuple(s.value for s in shape if isinstance(s, IntImm))
        if len(dims) != len(shape):
            return None
        return dims if lanes == 1 else (*dims, lanes)

    def text(self) -> str:
        """The declaration as users read it: `float32[n, 4]`."""
        return f"{self.dtype!s}[{', '.join(_size_text(s) for s in self.buffer.shape)}]"

    def as_array(self, value: Any) -> np.ndarray[Any, Any]:
        """The argument as a NumPy array that shares its memory."""
        if isinstance(value, NDArray):
            return value.memory()
        if isinstance(value, np.ma.MaskedArray):
            self._fail(f"a masked array has elements that are not there; use {self.name}.filled(...)")
        if isinstance(value, np.ndarray):
            return cast("np.ndarray[Any, Any]", value)
        if isinstance(value, (np.generic, int, float, list, tuple, str)) or value is None:
            self._fail(f"expected {self.text()}, got {_what(value)}; {self._remedy(value)}")
        try:
            place = device_of(value)
        except (TypeError, ValueError, RuntimeError, BufferError) as e:
            self._fail(f"the memory of {kind_of(value)} cannot be shared ({e}); pass a NumPy array")
        if place is not None and not is_host(place):
            self._fail(
                f"expected an array in the memory of the CPU, got one on {place_name(place)}; copy it to the CPU first"
            )
        try:
            return shared_array(value)
        except (TypeError, ValueError, RuntimeError, BufferError) as e:
            if not hasattr(value, "__dlpack__"):
                self._fail(f"expected {self.text()}, got {_what(value)}; pass a NumPy array or a tscript.nd array")
            self._fail(f"the memory of {kind_of(value)} cannot be shared ({e}); pass a NumPy array")

    def _remedy(self, value: Any) -> str:
        if value is None:
            return "pass an array; outputs are arguments too, made for example by tscript.nd.empty"
        return f"use np.array({self.name}, dtype={str(self.dtype.element)!r})"

    def check(self, array: np.ndarray[Any, Any], env: Environment, owner: dict[Var, str]) -> None:
        """Hold the array to the declaration, binding symbolic sizes in `env`. Raises CallError."""
        if array.dtype != self.numpy_dtype:
            self._fail_form(array)
        if array.ndim != self.rank:
            self._fail(
                f"expected {self.rank} dimensions, {self.text()}, got {array.ndim}, {_form(array)}"
                + self._shape_hint(array)
            )
        if self.lanes > 1 and array.shape[-1] != self.lanes:
            self._fail(f"expected {self.text()}, whose last dimension holds {self.lanes} lanes, got {_form(array)}")
        for d, (want, got) in enumerate(zip(self.buffer.shape, array.shape, strict=False)):
            self._match(f"dimension {d}", want, got, array, env, owner)
        self._check_strides(array, env, owner)
        if isinstance(self.buffer.elem_offset, Var):
            self._match("the offset", self.buffer.elem_offset, 0, array, env, owner)
        if self.written and not array.flags.writeable:
            self._fail(f"the kernel writes this array, but it is read-only; pass {self.name}.copy()")
        if self.alignment > 1 and array.size and data_address(array) % self.alignment:
            self._fail(f"expected memory aligned to {self.alignment} bytes; use tscript.nd.array({self.name})")
        if not array.flags.aligned:
            self._fail(f"its elements are not aligned to {self.itemsize} bytes; use {self.name}.copy()")

    def _match(
        self, what: str, want: PrimExpr, got: int, array: np.ndarray[Any, Any], env: Environment, owner: dict[Var, str]
    ) -> None:
        if isinstance(want, Var) and want not in env:
            low, high = int_range(want.dtype)
            if not low <= got <= high:
                self._fail(
                    f"{what} is {got}, but {want.name} is {with_article(want.dtype)}, which holds {low} to {high}; "
                    f"declare it as int64"
                )
            env[want] = got
            owner[want] = self.short
            return
        try:
            value = evaluate(want, env)
        except KeyError:
            # It depends on a variable that a later argument binds; `finish` comes back to it.
            return
        if value == got:
            return
        if isinstance(want, IntImm):
            self._fail_form(array)
        names = ", ".join(f"{v.name} = {env[v]} by {owner[v]}" for v in _variables(want) if v in owner)
        self._fail(f"{what} is {got}, but {_size_text(want)} is {value}" + (f" ({names})" if names else ""))

    def finish(self, array: np.ndarray[Any, Any], env: Environment, owner: dict[Var, str]) -> None:
        """Check what depends on variables bound by later arguments."""
        for d, (want, got) in enumerate(zip(self.buffer.shape, array.shape, strict=False)):
            if not isinstance(want, (IntImm, Var)):
                self._match(f"dimension {d}", want, got, array, env, owner)

    def _check_strides(self, array: np.ndarray[Any, Any], env: Environment, owner: dict[Var, str]) -> None:
        if self.needs_compact:
            if not array.flags.c_contiguous:
                self._fail(
                    f"expected a compact row-major array, got strides {array.strides} in bytes; "
                    f"use np.ascontiguousarray({self.name}), or declare the buffer with symbolic strides"
                )
            return
        for d, want in enumerate(self.buffer.strides):
            size = self.itemsize * self.lanes
            if array.strides[d] % size:
                self._fail(f"stride {d} is {array.strides[d]} bytes, no multiple of an element's {size}")
            if array.shape[d] == 1 and not isinstance(want, Var):
                continue
            self._match(f"stride {d}", want, array.strides[d] // size, array, env, owner)
        if self.lanes > 1 and array.size and array.strides[-1] != self.itemsize:
            self._fail(f"the lanes of {self.text()} must lie side by side")
        if self.written and _may_overlap_itself(array):
            self._fail(f"the kernel writes this array, but elements of it share memory; pass {self.name}.copy()")

    def _fail_form(self, array: np.ndarray[Any, Any]) -> NoReturn:
        if array.dtype != self.numpy_dtype:
            hint = f"; use {self.name}.astype({str(self.dtype.element)!r})"
        else:
            hint = self._shape_hint(array)
        self._fail(f"expected {self.text()}, got {_form(array)}{hint}")

    def _shape_hint(self, array: np.ndarray[Any, Any]) -> str:
        if self.shape is None or array.shape == self.shape:
            return ""
        if array.size == _product(self.shape):
            return f"; it has the right number of elements: {self.name}.reshape({self.shape})"
        return f"; pass an array of shape {self.shape}"

    def _fail(self, text: str) -> NoReturn:
        raise CallError(f"{self.where}: {text}")


def _size_text(e: PrimExpr) -> str:
    return str(e.value) if isinstance(e, IntImm) else e.name if isinstance(e, Var) else str(e)


def _product(shape: tuple[int, ...]) -> int:
    n = 1
    for s in shape:
        n *= s
    return n


def _may_overlap_itself(array: np.ndarray[Any, Any]) -> bool:
    """Whether two elements may share memory; True also for some unusual orders of elements that do not."""
    room = array.itemsize
    for step, extent in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if extent == 0:
            return False
        if extent > 1:
            if step < room:
                return True
            room += step * (extent - 1)
    return False


def _variables(e: PrimExpr) -> list[Var]:
    if isinstance(e, Var):
        return [e]
    if isinstance(e, ex.Cast):
        return _variables(e.value)
    return _variables(e.a) + _variables(e.b) if isinstance(e, ex.BinaryExpr) else []


def _form(array: np.ndarray[Any, Any]) -> str:
    try:
        name = dtype_name(array.dtype)
    except TypeError:
        name = str(array.dtype)
    return f"{name}[{', '.join(map(str, array.shape))}]"


def _what(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.generic):
        return f"the NumPy scalar {value!r}"
    if isinstance(value, (int, float, str)):
        return f"the {type(value).__name__} {value!r}"
    if isinstance(value, (NDArray, np.ndarray)):
        return f"an array of shape {cast(Any, value).shape}"
    return kind_of(value)
