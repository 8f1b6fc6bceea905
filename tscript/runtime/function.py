"""Built functions: Python callables that check their arguments and run machine code."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from tscript.codegen.abi import KernelAbi
from tscript.codegen.statements import with_place
from tscript.ir.dtype import DataType
from tscript.ir.expr import Var
from tscript.ir.semantics import numpy_dtype, wrap
from tscript.ir.stmt import Stmt
from tscript.runtime.address import data_address
from tscript.runtime.fastcall import Builtin, fill_table, is_available
from tscript.runtime.signature import ArrayArgument, Environment, ScalarArgument
from tscript.support.errors import AssertFailed, CallError, DivisionByZero, ExecutionError

_EntryType = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_INT64: Final = DataType("int64")


class FailureRecord(Protocol):
    """What a status of a kernel means."""

    @property
    def kind(self) -> str:
        """assert, division or memory."""
        ...

    @property
    def text(self) -> str:
        """The message."""
        ...

    @property
    def stmt(self) -> Stmt | None:
        """The statement that failed."""
        ...


_FAILURES: Final[dict[str, type[ExecutionError]]] = {"assert": AssertFailed, "division": DivisionByZero}


class CompiledFunction:
    """A kernel in machine code.

    Call it with one argument for each parameter: arrays (`tscript.nd`, NumPy, anything with DLPack or the
    buffer protocol, all without copying) and Python numbers. It returns what the kernel returns, or None.

    Raises CallError for arguments that do not fit the declaration, ExecutionError for a failure inside. `features`
    are the CPU features that the code may use.
    """

    def __init__(
        self,
        abi: KernelAbi,
        address: int,
        failures: Sequence[FailureRecord],
        keep: object,
        call: tuple[int, int] | None = None,
        features: Iterable[str] = (),
    ) -> None:
        self.abi = abi
        self.features = frozenset(features)
        self.failures = tuple(failures)
        self.__name__ = abi.name
        self._entry = _EntryType(address)
        # The machine code must outlive every function that runs it.
        self._keep = keep
        self._arguments: list[ArrayArgument | ScalarArgument] = [
            ScalarArgument(i, p, abi.name) if p.buffer is None else ArrayArgument(i, p, p.buffer, abi)
            for i, p in enumerate(abi.parameters, 1)
        ]
        self._count = len(self._arguments)
        self._slots = ctypes.c_int64 * max(self._count + len(abi.symbols), 1)
        self._has_scalars = any(isinstance(a, ScalarArgument) for a in self._arguments)
        self._may_overlap = abi.no_alias and any(p.written for p in abi.parameters)
        self._builtin: Builtin | None = None
        if call is not None and is_available():
            table = fill_table(call[1], abi)
            self._builtin = Builtin(abi.name, self.signature(), call[0], table)

    def __repr__(self) -> str:
        return f"<compiled {self.signature()}>"

    def signature(self) -> str:
        """Name and parameters: `mm(A: float32[4, 4], n: int32)`."""
        parts = [
            f"{a.name}: {a.text()}" if isinstance(a, ArrayArgument) else f"{a.parameter.name}: {a.dtype!s}"
            for a in self._arguments
        ]
        return f"{self.abi.name}({', '.join(parts)})"

    def __call__(self, *args: Any) -> Any:
        slots, keep = self._prepare(args)
        result = ctypes.c_int64(0)
        status = self._entry(ctypes.addressof(slots), ctypes.addressof(result))
        del keep
        if status:
            raise self._failure(status)
        return None if self.abi.returns is None else _returned(self.abi.returns, result)

    def fastest(self) -> Callable[..., Any]:
        """What to call: a built-in function where there is one, which hands difficult arguments on to this object."""
        return self if self._builtin is None else self._builtin.function(self)

    def raise_failure(self, status: int) -> NoReturn:
        """Raise what a status of the kernel means."""
        raise self._failure(status)

    def bind(self, *args: Any) -> Callable[[], None]:
        """A function without arguments that runs the kernel on `args`, which are checked now, once."""
        slots, keep = self._prepare(args)
        result = ctypes.c_int64(0)
        entry, where, back = self._entry, ctypes.addressof(slots), ctypes.addressof(result)
        alive = (args, keep, slots, result)

        def run() -> None:
            status = entry(where, back)
            if status:
                raise self._failure(status)

        run.alive = alive  # pyright: ignore[reportFunctionMemberAccess]
        return run

    # -- arguments -------------------------------------------------------------------------------

    def _prepare(self, args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        if len(args) != self._count:
            expected = f"{self._count} argument{'' if self._count == 1 else 's'}"
            raise CallError(f"{self.abi.name} takes {expected}, not {len(args)}: {self.signature()}")
        slots = self._slots()
        arrays: list[np.ndarray[Any, Any]] = []
        env: Environment = {}
        owner: dict[Var, str] = {}
        if self._has_scalars:
            self._fill_scalars(args, slots, env, owner)
        is_open = False
        for i, (argument, value) in enumerate(zip(self._arguments, args, strict=True)):
            if isinstance(argument, ScalarArgument):
                continue
            array = argument.as_array(value)
            if not (
                argument.is_simple
                and array.shape == argument.shape
                and array.dtype == argument.numpy_dtype
                and array.flags.carray
            ):
                argument.check(array, env, owner)
                is_open = True
            arrays.append(array)
            slots[i] = data_address(array)
        if is_open:
            self._finish(arrays, slots, env, owner)
        if self._may_overlap:
            self._require_apart(arrays)
        return slots, arrays

    def _fill_scalars(self, args: tuple[Any, ...], slots: Any, env: Environment, owner: dict[Var, str]) -> None:
        for i, (argument, value) in enumerate(zip(self._arguments, args, strict=True)):
            if isinstance(argument, ArrayArgument):
                continue
            content = argument.check(value)
            if argument.dtype.is_float:
                slots[i] = struct.unpack("<q", struct.pack("<d", content))[0]
            else:
                slots[i] = wrap(_INT64, int(content))
                var = argument.parameter.var
                env[var] = int(content)
                owner[var] = f"argument {i + 1}"

    def _finish(self, arrays: list[np.ndarray[Any, Any]], slots: Any, env: Environment, owner: dict[Var, str]) -> None:
        given = iter(arrays)
        for argument in self._arguments:
            if isinstance(argument, ArrayArgument):
                argument.finish(next(given), env, owner)
        for i, symbol in enumerate(self.abi.symbols, self._count):
            slots[i] = env[symbol]

    def _require_apart(self, arrays: list[np.ndarray[Any, Any]]) -> None:
        declared = [a for a in self._arguments if isinstance(a, ArrayArgument)]
        for i, a in enumerate(declared):
            if not a.written:
                continue
            for j, b in enumerate(declared):
                if i == j or (b.written and j < i):
                    continue
                if _is_shared(arrays[i], arrays[j]):
                    raise CallError(
                        f"{a.where}: the kernel writes it, and its memory overlaps {b.short}, while the kernel is "
                        f'declared with "tir.noalias"; pass a copy, or build it without that attribute'
                    )

    def _failure(self, status: int) -> ExecutionError:
        failure = self.failures[status - 1]
        return _FAILURES.get(failure.kind, ExecutionError)(f"{self.abi.name}: {failure_text(failure)}")


_MOST_WORK: Final[Any] = 10_000  # NumPy's types know fewer values than its documentation


def _is_shared(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays have an element in common; rows that interleave do not."""
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=_MOST_WORK))
    except np.exceptions.TooHardError:
        return True


def failure_text(failure: FailureRecord) -> str:
    """What a failure says, and the statement it is about."""
    if failure.kind != "assert":
        return with_place(failure.text, failure.stmt)
    if failure.stmt is None or failure.stmt.span is None:
        return failure.text
    span = failure.stmt.span
    return f"{failure.text}\n  --> {span}\n{span.render()}".rstrip()


def _returned(dtype: DataType, slot: ctypes.c_int64) -> int | float | bool:
    raw = struct.pack("<q", slot.value)
    value = np.frombuffer(raw, numpy_dtype(dtype), 1)[0]
    return float(value) if dtype.is_float else bool(value) if dtype.is_bool else int(value)
