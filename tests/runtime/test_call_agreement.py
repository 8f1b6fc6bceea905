"""The two ways of checking arguments, machine code and Python, take the same and do the same with it."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tscript
from tscript import nd
from tscript.runtime import CompiledFunction
from tscript.script import ir as I
from tscript.script import tir as T
from tscript.support.errors import CallError


@I.ir_module
class Kernels:
    @T.prim_func
    def fixed(A: T.Buffer((2, 3), "float32"), x: T.int8, B: T.Buffer((2, 3), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(2, 3):
            B[i, j] = A[i, j] + T.Cast("float32", x)

    @T.prim_func
    def sized(a: T.handle, b: T.handle, n: T.int32) -> T.int32:
        T.func_attr({"tir.noalias": True})
        m = T.int16()
        A = T.match_buffer(a, (m, n), "float32")
        B = T.match_buffer(b, (m * n + m,), "float32")
        for i in range(m * n + m):
            B[i] = T.Cast("float32", n)
        T.ret(m * 1000 + n)

    @T.prim_func
    def strided(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int64()
        s, t, u, v = T.int64(), T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, 3), "float32", strides=(s, t))
        B = T.match_buffer(b, (n, 3), "float32", strides=(u, v))
        for i, j in T.grid(n, 3):
            B[i, j] = A[i, j] * T.float32(2)

    @T.prim_func
    def pairs(a: T.handle, flag: T.bool, w: T.float64, u: T.uint16) -> T.float64:
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32x2", align=16)
        for i in range(n):
            A[i] = T.Broadcast(T.Cast("float32", u), 2)
        T.ret(T.if_then_else(flag, w, -w))

    @T.prim_func
    def short(a: T.handle, B: T.Buffer((), "bfloat16")):
        A = T.match_buffer(a, (2, 3), "bfloat16", strides=(8, 1))
        B[()] = A[1, 2]


@pytest.fixture(scope="module")
def lib() -> tscript.runtime.Module:
    return tscript.build(Kernels)


NUMBERS = [
    0, 1, 2, 3, -1, 127, 128, -128, -129, 255, 65535, 65536, 2**31 - 1, 2**31, 2**63, 2**70, True, False, 1.0, 2.5,
    float("nan"), None, "3", np.int8(3), np.int64(3), np.float32(2), np.bool_(True), np.array(3), 3 + 0j, b"3", [3],
]  # fmt: skip
DTYPES = ["float32", "float32", "float32", "float64", ">f4", "int32", ml_dtypes.bfloat16, ml_dtypes.bfloat16, "M8[s]"]


class Arrays:
    """Random arrays, all of them parts of one piece of memory, so that some overlap."""

    def __init__(self, generator: random.Random) -> None:
        self.g = generator
        self.memory = np.zeros(8192, np.uint8)

    def compact(self, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        made = np.ndarray(shape, dtype, self.memory, self.g.choice([0, 0, 4, 16, 64, 512, 1024, 2048, 4096]))
        return made

    def laid(self, shape: tuple[int, ...], dtype: Any = np.float32, steps: tuple[int, ...] | None = None) -> np.ndarray:
        """Anyhow: rows that interleave, overlap, run backwards, start between elements."""
        size = np.dtype(dtype).itemsize
        if steps is None:
            steps = tuple(
                self.g.choice([size, 0, 2 * size, 3 * size, 4 * size, 8 * size, -size, -3 * size, 6]) for _ in shape
            )
        return np.ndarray(shape, dtype, self.memory, self.g.choice([1024, 1028, 1032, 1088, 2048, 1026]), steps)

    def shape(self) -> tuple[int, ...]:
        usual = [(2, 3), (3, 3), (2, 3, 2), (3,), (9,), (8,), (2,), (0, 3), (0,), (), (1, 3), (4, 2), (2, 2), (6,)]
        return self.g.choice(usual)

    def odd(self) -> Any:
        """What mostly does not fit."""
        g = self.g
        made = (self.laid if g.random() < 0.3 else self.compact)(self.shape(), g.choice(DTYPES))
        return g.choice([made, made, made, np.ma.masked_array(made), g.choice(NUMBERS)])

    def changed(self, value: Any) -> Any:
        """Nearly the same argument."""
        g = self.g
        if not isinstance(value, np.ndarray):
            return g.choice(NUMBERS)
        frozen = value.view()
        frozen.flags.writeable = False
        ways = [frozen, value.T, value[..., ::-1] if value.ndim else value, value[1:] if value.ndim else value,
                value.astype(np.float64), value.view(np.matrix) if value.ndim == 2 else value, self.odd()]  # fmt: skip
        return g.choice(ways)


def fitting(name: str, arrays: Arrays) -> list[Any]:
    """Arguments that the kernel takes, unless memory lies badly."""
    g = arrays.g
    if name == "fixed":
        return [arrays.compact((2, 3)), g.choice([-128, 5, 127]), arrays.compact((2, 3))]
    if name == "sized":
        m, n = g.randrange(5), g.randrange(5)
        return [arrays.compact((m, n)), arrays.compact((m * n + m,)), n]
    if name == "strided":
        n = g.randrange(5)
        rows = [None, (12, 4), (24, 4), (24, 8), (4, 4 * n), (-12, 4), (48, 16)]
        return [arrays.laid((n, 3), steps=g.choice(rows)), arrays.laid((n, 3), steps=g.choice(rows))]
    if name == "pairs":
        return [
            arrays.compact((g.randrange(5), 2)),
            g.choice([True, False]),
            g.choice([1.5, -0.0]),
            g.choice([0, 65535]),
        ]
    steps = g.choice([(16, 2), (16, 2), (16, 4), (6, 2)])
    return [arrays.laid((2, 3), ml_dtypes.bfloat16, steps), arrays.compact((), ml_dtypes.bfloat16)]


def wrapped(value: Any) -> Any:
    """The same memory as one of our arrays, where there is a type for it."""
    if isinstance(value, np.ndarray) and value.dtype in (np.float32, np.float64, ml_dtypes.bfloat16):
        return nd.NDArray(value, tscript.ir.DataType(value.dtype.name), tscript.cpu())
    return value


def outcome(call: Any, args: list[Any], memory: np.ndarray) -> tuple[Any, bytes]:
    memory[:] = np.arange(len(memory)) % 60
    try:
        result: Any = call(*args)
    except CallError as e:
        result = str(e)
    return result, memory.tobytes()


@pytest.mark.parametrize("name", ["fixed", "sized", "strided", "pairs", "short"])
def test_machine_code_and_python_agree_on_random_arguments(lib, name: str) -> None:
    generator = random.Random(name)
    arrays = Arrays(generator)
    fast = lib[name]
    slow: CompiledFunction = getattr(fast, "__self__")  # noqa: B009
    ran = refused = 0
    for _ in range(2500):
        args = fitting(name, arrays)
        for _ in range(generator.choice([0, 0, 1, 1, 2])):
            i = generator.randrange(len(args))
            args[i] = arrays.changed(args[i])
        if generator.random() < 0.3:
            args = [*map(wrapped, args)]
        if generator.random() < 0.01:
            args = args[:-1]
        ours, theirs = outcome(fast, args, arrays.memory), outcome(slow, args, arrays.memory)
        assert repr(ours[0]) == repr(theirs[0]) and ours[1] == theirs[1]
        is_refused = isinstance(ours[0], str)
        refused += is_refused
        ran += not is_refused
    assert ran > 200 and refused > 200
