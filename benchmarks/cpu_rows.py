"""The rows of `cpu.py`: what is computed, by whom else, and which figures it should reach."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import tscript
from tscript import te
from tscript.ir.dtype import DataType
from tscript.ir.semantics import numpy_dtype
from tscript.testing import workloads
from tscript.testing.workloads import Workload

Call = Callable[[], object]
FLOATS: Final = ("float32", "float32", "float32")


@dataclass(frozen=True)
class Goal:
    """At least `least` times NumPy, PyTorch, the better of both (`best`), or a ceiling (`fma`, `copy`, `read`)."""

    over: str
    least: float


@dataclass(frozen=True)
class Case:
    """A function, its arguments (the result last), and the same work by others, whose results have their memory too."""

    func: tscript.tir.PrimFunc
    arrays: list[Any]
    amount: float
    """Floating-point operations of a call, or bytes that it has to move."""
    others: dict[str, Call]
    want: Callable[[], Any]
    tolerance: float = 1e-3


@dataclass(frozen=True)
class Row:
    """A line of the table. `make` takes PyTorch, or None, and whether all should be small."""

    make: Callable[[Any, bool], Case]
    ceiling: str
    goals: tuple[Goal, ...]
    threads: str = "all"
    """Whether it runs on one thread only, `one`, or on each number that is asked for."""


def product(m: int, n: int, k: int, types: tuple[str, str, str], finish: str = "") -> tscript.tir.PrimFunc:
    """A product, with a bias and an activation after it where `finish` names one."""
    a, b = te.placeholder((m, k), types[0], name="A"), te.placeholder((k, n), types[1], name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(types[2]) * b[r, j].astype(types[2]), axis=r), name="C")
    if not finish:
        return te.create_prim_func([a, b, c])
    bias = te.placeholder((n,), name="bias")
    d = te.compute((m, n), lambda i, j: c[i, j] + bias[j], name="D")
    if finish == "relu":
        e = te.compute((m, n), lambda i, j: tscript.tir.max(d[i, j], te.const(0, "float32")), name="E")
    else:
        e = te.compute((m, n), lambda i, j: d[i, j] * 0.5 * (1.0 + te.erf(d[i, j] * 0.70710678)), name="E")
    return te.create_prim_func([a, b, bias, e])


def _small(sizes: Sequence[int]) -> list[int]:
    return [min(s, 24 + s % 8) for s in sizes]


def float_product(m: int, n: int, k: int, torch: Any, small: bool) -> Case:
    """A product in float32."""
    m, n, k = _small((m, n, k)) if small else (m, n, k)
    rng = np.random.default_rng(0)
    a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
    c, d = np.empty((2, m, n), np.float32)
    others: dict[str, Call] = {"numpy": lambda: np.matmul(a, b, out=d)}
    if torch is not None:
        x, y, z = map(torch.from_numpy, (a, b, d))
        others["torch"] = lambda: torch.matmul(x, y, out=z)
    return Case(product(m, n, k, FLOATS), [a, b, c], 2.0 * m * n * k, others, lambda: a @ b)


def finished_product(size: int, finish: str, torch: Any, small: bool) -> Case:
    """A product with a bias and an activation; by the others one after another.

    NumPy has no error function: its GELU is the form with the hyperbolic tangent.
    """
    size = 32 if small else size
    rng = np.random.default_rng(0)
    a, b = rng.random((2, size, size), np.float32) - np.float32(0.5)
    bias, (c, d, e) = rng.random(size, np.float32), np.empty((3, size, size), np.float32)

    def numpy() -> None:
        np.add(np.matmul(a, b, out=d), bias, out=d)
        if finish == "relu":
            np.maximum(d, 0, out=d)
            return
        np.multiply(d, d, out=e)
        np.multiply(np.add(np.multiply(e, np.float32(0.044715), out=e), 1, out=e), d, out=e)
        np.tanh(np.multiply(e, np.float32((2 / math.pi) ** 0.5), out=e), out=e)
        np.multiply(np.multiply(np.add(e, 1, out=e), np.float32(0.5), out=e), d, out=d)

    others: dict[str, Call] = {"numpy": numpy}
    if torch is not None:
        x, y, z, out, final = map(torch.from_numpy, (a, b, bias, d, e))

        def finished() -> object:
            torch.addmm(z, x, y, out=out)
            return torch.relu_(out) if finish == "relu" else torch.ops.aten.gelu.out(out, out=final)

        others["torch"] = finished

    def want() -> Any:
        plain = (a @ b + bias).astype(np.float64)
        if finish == "relu":
            return np.maximum(plain, 0)
        return plain * 0.5 * (1 + np.vectorize(math.erf)(plain * 0.5**0.5))

    func = product(size, size, size, FLOATS, finish)
    return Case(func, [a, b, bias, c], 2.0 * size**3, others, want)


def bfloat16(values: Any) -> Any:
    """The array in bfloat16."""
    return values.astype(np.float32).astype(numpy_dtype(DataType("bfloat16")))


def bf16_product(size: int, torch: Any, small: bool) -> Case:
    """A product of bfloat16, summed up in float32; NumPy takes the operands in float32."""
    size = 64 if small else size
    rng = np.random.default_rng(0)
    a, b = (bfloat16(rng.standard_normal((size, size))) for _ in range(2))
    wide = a.astype(np.float32), b.astype(np.float32)
    c, d = np.empty((2, size, size), np.float32)
    others: dict[str, Call] = {"numpy": lambda: np.matmul(*wide, out=d)}
    if torch is not None:
        x, y = (torch.from_numpy(v.view(np.int16)).view(torch.bfloat16) for v in (a, b))
        z = torch.empty((size, size), dtype=torch.bfloat16)
        others["torch"] = lambda: torch.matmul(x, y, out=z)
    func = product(size, size, size, ("bfloat16", "bfloat16", "float32"))
    return Case(func, [a, b, c], 2.0 * size**3, others, lambda: wide[0] @ wide[1], 0.1)


def byte_product(size: int, torch: Any, small: bool) -> Case:
    """A product of unsigned and signed bytes in int32, for which NumPy needs float64 and PyTorch has its own format."""
    del torch
    size = 64 if small else size
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (size, size)).astype(np.uint8)
    b = rng.integers(-128, 128, (size, size)).astype(np.int8)
    wide = a.astype(np.float64), b.astype(np.float64)
    c, d = np.empty((size, size), np.int32), np.empty((size, size))
    func = product(size, size, size, ("uint8", "int8", "int32"))
    others: dict[str, Call] = {"numpy": lambda: np.matmul(*wide, out=d)}
    return Case(func, [a, b, c], 2.0 * size**3, others, lambda: wide[0] @ wide[1], 0.0)


def batch(torch: Any, small: bool) -> Case:
    """A batch of products."""
    w = workloads.batch_matmul(2, 16, 16, 8) if small else workloads.batch_matmul(12, 128, 128, 64)
    a, b, c = w.arguments()
    d = np.zeros_like(c)
    others: dict[str, Call] = {"numpy": lambda: np.matmul(a, b, out=d)}
    if torch is not None:
        x, y, z = map(torch.from_numpy, (a, b, d))
        others["torch"] = lambda: torch.bmm(x, y, out=z)
    return Case(w.func, [a, b, c], float(w.flop), others, lambda: a @ b)


def convolution(torch: Any, small: bool) -> Case:
    """A convolution of an image whose channels lie together; PyTorch has no form that takes memory for the result."""
    size, channels = (8, 16) if small else (56, 64)
    w = workloads.conv2d(size, channels, channels)
    a, b, c = w.arguments()
    wide = np.zeros((1, size + 2, size + 2, channels), np.float32)

    def numpy() -> Any:
        wide[:, 1:-1, 1:-1] = a
        windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(1, 2))
        return np.tensordot(windows, b, axes=((4, 5, 3), (0, 1, 2)))

    others: dict[str, Call] = {"numpy": numpy}
    if torch is not None:
        image = torch.from_numpy(a).permute(0, 3, 1, 2)
        weights = torch.from_numpy(b).permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        others["torch"] = lambda: torch.nn.functional.conv2d(image, weights, padding=1)
    return Case(w.func, [a, b, c], float(w.flop), others, numpy, 1e-2)


# -- what memory limits -------------------------------------------------------------------------------


def aligned(array: Any) -> Any:
    """A copy that begins at a cache line, as arrays of `tscript.nd` do and large ones of NumPy do not."""
    room = np.empty(array.nbytes + 64, np.uint8)
    first = -room.ctypes.data % 64
    result = room[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def _softmax(x: Any, out: Any) -> None:
    np.subtract(x, x.max(-1, keepdims=True), out=out)
    np.exp(out, out=out)
    np.divide(out, out.sum(-1, keepdims=True), out=out)


def _rms_norm(x: Any, w: Any, out: Any) -> None:
    scale = 1 / np.sqrt(np.einsum("ij,ij->i", x, x)[:, None] / np.float32(x.shape[1]) + np.float32(1e-5))
    np.multiply(x, scale, out=out)
    np.multiply(out, w, out=out)


def _layer_norm(x: Any, gamma: Any, beta: Any, out: Any) -> None:
    np.subtract(x, x.mean(-1, keepdims=True), out=out)
    scale = 1 / np.sqrt(np.einsum("ij,ij->i", out, out)[:, None] / np.float32(x.shape[1]) + np.float32(1e-5))
    np.multiply(out, scale, out=out)
    np.multiply(out, gamma, out=out)
    np.add(out, beta, out=out)


def streamed(
    work: Callable[[bool], Workload], amount: Callable[[list[Any]], float], numpy: Callable[..., object],
    in_torch: Callable[..., object], lined: bool, torch: Any, small: bool,
) -> Case:  # fmt: skip
    """A workload that memory limits; outputs of all contenders are there before, where PyTorch can take them."""
    w = work(small)
    arrays = w.arguments()
    if lined:
        arrays = [aligned(x) for x in arrays]
    *inputs, result = arrays
    theirs = aligned(result) if lined else np.zeros_like(result)
    others: dict[str, Call] = {"numpy": lambda: numpy(*inputs, theirs)}
    if torch is not None:
        tensors = [torch.from_numpy(x) for x in (*inputs, theirs)]
        others["torch"] = lambda: in_torch(torch, *tensors)

    def want() -> Any:
        numpy(*inputs, theirs)
        return theirs

    return Case(w.func, arrays, amount(arrays), others, want)


def _added(x: Any, y: Any, out: Any) -> object:
    return np.add(x, y, out=out)


def _applied(x: Any, y: Any, out: Any) -> object:
    return np.matmul(x, y, out=out)


def _added_by_torch(torch: Any, x: Any, y: Any, out: Any) -> object:
    return torch.add(x, y, out=out)


def _applied_by_torch(torch: Any, x: Any, y: Any, out: Any) -> object:
    return torch.mv(x, y, out=out)


def _transposed_by_torch(torch: Any, x: Any, out: Any) -> object:
    del torch
    return out.copy_(x.t())


def _transposed_by_numpy(x: Any, out: Any) -> None:
    np.copyto(out, x.T)


def _first_and_last(arrays: list[Any]) -> float:
    return float(arrays[0].nbytes + arrays[-1].nbytes)


def _all(arrays: list[Any]) -> float:
    return float(sum(x.nbytes for x in arrays))


def _rows_of(rows: int, small: bool) -> tuple[int, int]:
    return (rows // 64, 256) if small else (rows, 4096)


def _normalised(name: str, goals: tuple[Goal, ...], rows: int = 4096) -> Row:
    """A row for softmax or a norm of rows of 4096."""

    def work(small: bool) -> Workload:
        return getattr(workloads, name)(*_rows_of(rows, small))

    def in_torch(torch: Any, x: Any, *rest: Any) -> object:
        if name == "softmax":
            return torch.softmax(x, 1, out=rest[0])
        if name == "rms_norm":
            return torch.nn.functional.rms_norm(x, x.shape[1:], rest[0], 1e-5)
        return torch.native_layer_norm(x, x.shape[1:], rest[0], rest[1], 1e-5)

    numpy = {"softmax": _softmax, "rms_norm": _rms_norm, "layer_norm": _layer_norm}[name]
    return Row(partial(streamed, work, _first_and_last, numpy, in_torch, False), "copy", goals)


def _transposed(rows: int, columns: int, lined: bool = False) -> Row:
    def work(small: bool) -> Workload:
        return workloads.transpose(rows // 32 + rows % 32, columns // 32 + columns % 32) if small else (
            workloads.transpose(rows, columns)
        )  # fmt: skip

    make = partial(
        streamed, work, _first_and_last, _transposed_by_numpy,
        _transposed_by_torch, lined,
    )  # fmt: skip
    return Row(make, "copy", (Goal("copy", 0.6), Goal("torch", 3.0)))


ADD: Final = Row(
    partial(
        streamed, lambda small: workloads.add(1 << (16 if small else 24)), _all, _added,
        _added_by_torch, False,
    ),
    "copy", (Goal("copy", 0.9),),
)  # fmt: skip
MATVEC: Final = Row(
    partial(
        streamed, lambda small: workloads.matvec(*_rows_of(4096, small)), _all, _applied,
        _applied_by_torch, False,
    ),
    "read", (Goal("read", 0.9),),
)  # fmt: skip


def _product_row(m: int, n: int, k: int, *goals: Goal, threads: str = "all") -> Row:
    return Row(partial(float_product, m, n, k), "fma", goals or (Goal("best", 1.0),), threads)


ROWS: Final[dict[str, Row]] = {
    "matmul_128": _product_row(128, 128, 128, Goal("numpy", 1.4), Goal("torch", 1.1), threads="one"),
    "matmul_1024": _product_row(1024, 1024, 1024),
    "matmul_2048": _product_row(2048, 2048, 2048),
    "matmul_397x509x253": _product_row(397, 509, 253),
    "matmul_1x4096x4096": _product_row(1, 4096, 4096),
    "matmul_4096x8x4096": _product_row(4096, 8, 4096),
    "matmul_bias_relu_512": Row(partial(finished_product, 512, "relu"), "fma", (Goal("best", 1.2),)),
    "matmul_bias_gelu_512": Row(partial(finished_product, 512, "gelu"), "fma", (Goal("best", 1.2),)),
    "matmul_bf16_1024": Row(partial(bf16_product, 1024), "fma", (Goal("torch", 0.9),)),
    "matmul_u8s8_1024": Row(partial(byte_product, 1024), "fma", (Goal("fma", 2.0),)),
    "batch_matmul_12x128x128x64": Row(batch, "fma", (Goal("torch", 1.0),)),
    "conv2d_56x56x64x64": Row(convolution, "fma", (Goal("torch", 0.9),)),
    "softmax_4096": _normalised("softmax", (Goal("torch", 1.2), Goal("copy", 0.8))),
    "softmax_1024x4096": _normalised("softmax", (Goal("torch", 1.1),), 1024),
    "rms_norm_4096": _normalised("rms_norm", (Goal("torch", 3.0), Goal("copy", 0.8))),
    "layer_norm_4096": _normalised("layer_norm", (Goal("copy", 0.8),)),
    "add_16M": ADD,
    "matvec_4096": MATVEC,
    "transpose_4096": _transposed(4096, 4096),
    "transpose_4096_aligned": _transposed(4096, 4096, True),
    "transpose_4095x4097": _transposed(4095, 4097),
}
"""The rows that are races. Products are named by rows, columns and depth."""
