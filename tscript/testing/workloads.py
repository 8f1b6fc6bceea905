"""Workloads that people run, as tensor expressions, each with what NumPy says of it.

w = softmax(64, 256)
arrays = w.arguments(seed=0)
... run w.func on arrays ...
w.check(arrays)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tscript import te
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.expr import IntImm, PrimExpr
from tscript.ir.function import PrimFunc
from tscript.ir.semantics import numpy_dtype
from tscript.te.index_dtype import with_index_dtype

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Workload:
    """A function, and how to make its arguments and check its results.

    `reference` takes the input arrays, in order, and returns the outputs, which are the last parameters.
    """

    name: str
    func: PrimFunc
    reference: Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
    outputs: int = 1
    rtol: float = 1e-4
    flop: int = 0
    scales: dict[int, float] = field(default_factory=dict[int, float])

    def arguments(self, seed: int = 0) -> list[Array]:
        """Random inputs, and outputs that hold what no result is (NaN or -1)."""
        rng = np.random.default_rng(seed)
        params = [self.func.buffer_map[p] for p in self.func.params]
        result: list[Array] = []
        for k, buffer in enumerate(params):
            shape = tuple(int(s) for s in buffer.shape if isinstance(s, IntImm))
            kind = numpy_dtype(buffer.dtype)
            if k >= len(params) - self.outputs:
                result.append(np.full(shape, np.nan if buffer.dtype.is_float else 99).astype(kind))
            elif buffer.dtype.is_float:
                result.append((rng.normal(size=shape) * self.scales.get(k, 1.0)).astype(np.float32).astype(kind))
            else:
                result.append(rng.integers(0, 100, shape).astype(kind))
        return result

    def with_index_dtype(self, dtype: str) -> Workload:
        """The same with loops, shapes and subscripts of another type."""
        return replace(self, name=f"{self.name}_{dtype}_indices", func=with_index_dtype(self.func, dtype))

    def check(self, arrays: Sequence[Array]) -> None:
        """AssertionError unless the outputs in `arrays` are what the reference computes of the inputs."""
        inputs, outputs = arrays[: -self.outputs], arrays[-self.outputs :]
        results: tuple[Array, ...]
        reference: Callable[..., Any] = self.reference
        expected: Any = reference(*inputs)
        results = expected if isinstance(expected, tuple) else (expected,)  # pyright: ignore[reportUnknownVariableType]
        for got, want in zip(outputs, results, strict=True):
            scale = float(np.max(np.abs(np.asarray(want, np.float64)))) if np.size(want) else 1.0
            np.testing.assert_allclose(
                np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=self.rtol, atol=self.rtol * scale
            )


def matmul(n: int, m: int, k: int, dtype: str = "float32", out_dtype: str | None = None) -> Workload:
    """C = A @ B of shapes (n, k), (k, m)."""
    out = out_dtype or dtype
    a, b = te.placeholder((n, k), dtype, "A"), te.placeholder((k, m), dtype, "B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((n, m), lambda i, j: te.sum(make.cast(a[i, r], out) * make.cast(b[r, j], out), axis=r), name="C")
    kind = np.float64 if numpy_dtype(c.dtype).kind in "fV" else numpy_dtype(c.dtype)
    return Workload(
        f"matmul_{n}x{m}x{k}_{dtype}",
        te.create_prim_func([a, b, c]),
        lambda x, y: x.astype(kind) @ y.astype(kind),
        rtol=1e-4 if dtype in ("float32", "float64") else 5e-2,
        flop=2 * n * m * k,
    )


def batch_matmul(batch: int, n: int, m: int, k: int) -> Workload:
    """C[b] = A[b] @ B[b]."""
    a, b = te.placeholder((batch, n, k), name="A"), te.placeholder((batch, k, m), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((batch, n, m), lambda s, i, j: te.sum(a[s, i, r] * b[s, r, j], axis=r), name="C")
    return Workload("batch_matmul", te.create_prim_func([a, b, c]), lambda x, y: x @ y, flop=2 * batch * n * m * k)


def matvec(n: int, k: int) -> Workload:
    """y = A @ x."""
    a, x = te.placeholder((n, k), name="A"), te.placeholder((k,), name="x")
    r = te.reduce_axis((0, k), "k")
    y = te.compute((n,), lambda i: te.sum(a[i, r] * x[r], axis=r), name="y")
    return Workload("matvec", te.create_prim_func([a, x, y]), lambda p, q: p @ q, flop=2 * n * k)


def transpose(n: int, m: int) -> Workload:
    """B = A transposed."""
    a = te.placeholder((n, m), name="A")
    b = te.compute((m, n), lambda i, j: a[j, i], name="B")
    return Workload("transpose", te.create_prim_func([a, b]), lambda x: x.T)


def add(n: int) -> Workload:
    """C = A + B."""
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    return Workload("add", te.create_prim_func([a, b, c]), lambda x, y: x + y, flop=n)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def softmax(n: int, m: int) -> Workload:
    """Softmax along the last dimension."""
    a = te.placeholder((n, m), name="A")
    k1, k2 = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "k")
    top = te.compute((n,), lambda i: te.max(a[i, k1], axis=k1), name="T_max")
    e = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="T_exp")
    total = te.compute((n,), lambda i: te.sum(e[i, k2], axis=k2), name="T_sum")
    out = te.compute((n, m), lambda i, j: e[i, j] / total[i], name="T_softmax")
    return Workload("softmax", te.create_prim_func([a, out]), _softmax, flop=4 * n * m)


def layer_norm(n: int, m: int, epsilon: float = 1e-5) -> Workload:
    """LayerNorm along the last dimension, with scale and shift."""
    x = te.placeholder((n, m), name="X")
    gamma, beta = te.placeholder((m,), name="gamma"), te.placeholder((m,), name="beta")
    k1, k2 = te.reduce_axis((0, m), "k"), te.reduce_axis((0, m), "k")
    mean = te.compute((n,), lambda i: te.sum(x[i, k1], axis=k1), name="total")
    centred = te.compute((n, m), lambda i, j: x[i, j] - mean[i] / float(m), name="centred")
    var = te.compute((n,), lambda i: te.sum(centred[i, k2] * centred[i, k2], axis=k2), name="square")
    out = te.compute(
        (n, m), lambda i, j: centred[i, j] * te.rsqrt(var[i] / float(m) + epsilon) * gamma[j] + beta[j], name="Y"
    )

    def reference(v: Array, g: Array, b: Array) -> Array:
        return (v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + epsilon) * g + b

    return Workload("layer_norm", te.create_prim_func([x, gamma, beta, out]), reference, flop=8 * n * m)


def rms_norm(n: int, m: int, dtype: str = "float32", epsilon: float = 1e-5) -> Workload:
    """RMSNorm along the last dimension; sums in float32 whatever the type."""
    x, w = te.placeholder((n, m), dtype, "X"), te.placeholder((m,), dtype, "W")
    k = te.reduce_axis((0, m), "k")

    def wide(e: PrimExpr) -> PrimExpr:
        return make.cast(e, "float32")

    square = te.compute((n,), lambda i: te.sum(wide(x[i, k]) * wide(x[i, k]), axis=k), name="square")
    rrms = te.compute((n,), lambda i: te.rsqrt(square[i] / float(m) + epsilon), name="rrms")
    y = te.compute((n, m), lambda i, j: make.cast(wide(x[i, j]) * rrms[i] * wide(w[j]), dtype), name="Y")

    def reference(v: Array, g: Array) -> Array:
        v = v.astype(np.float64)
        return v / np.sqrt((v * v).mean(-1, keepdims=True) + epsilon) * g.astype(np.float64)

    rtol = 1e-4 if dtype == "float32" else 1e-2
    return Workload("rms_norm", te.create_prim_func([x, w, y]), reference, rtol=rtol, flop=4 * n * m)


def conv2d(size: int, channels: int, filters: int, kernel: int = 3, padding: int = 1) -> Workload:
    """2-D convolution of one NHWC image (size, size, channels) with HWIO weights, stride 1."""
    out = size + 2 * padding - kernel + 1
    x = te.placeholder((1, size, size, channels), name="X")
    w = te.placeholder((kernel, kernel, channels, filters), name="W")

    def pad(n: PrimExpr, h: PrimExpr, v: PrimExpr, c: PrimExpr) -> PrimExpr:
        inside = te.all(h >= padding, h < size + padding, v >= padding, v < size + padding)
        return te.if_then_else(inside, x[n, h - padding, v - padding, c], 0.0)

    padded = te.compute((1, size + 2 * padding, size + 2 * padding, channels), pad, name="pad")
    rh, rw = te.reduce_axis((0, kernel), "rh"), te.reduce_axis((0, kernel), "rw")
    rc = te.reduce_axis((0, channels), "rc")
    y = te.compute(
        (1, out, out, filters),
        lambda n, h, v, f: te.sum(padded[n, h + rh, v + rw, rc] * w[rh, rw, rc, f], axis=[rh, rw, rc]),
        name="conv",
    )

    def reference(image: Array, weights: Array) -> Array:
        wide = np.pad(image, ((0, 0), (padding, padding), (padding, padding), (0, 0))).astype(np.float64)
        windows = np.lib.stride_tricks.sliding_window_view(wide, (kernel, kernel), axis=(1, 2))
        return np.einsum("nhvckl,klcf->nhvf", windows, weights.astype(np.float64))

    flop = 2 * out * out * filters * channels * kernel * kernel
    return Workload("conv2d", te.create_prim_func([x, w, y]), reference, flop=flop)


def argmax(n: int, m: int) -> Workload:
    """Position and value of the largest element of each row; of equal ones, the first."""
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")

    def better(x: Sequence[PrimExpr], y: Sequence[PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
        left = te.any(x[1] > y[1], te.all(make.compare(ex.EQ, x[1], y[1]), x[0] < y[0]))
        return ex.Select(left, x[0], y[0]), ex.Select(left, x[1], y[1])

    def identity(index: str, value: str) -> tuple[PrimExpr, PrimExpr]:
        return te.max_value(index), te.min_value(value)

    best = te.comm_reducer(better, identity, name="argmax")
    position, value = te.compute((n,), lambda i: best((k.var, a[i, k]), axis=k), name="best")
    func = te.create_prim_func([a, position, value])
    return Workload("argmax", func, lambda x: (x.argmax(-1), x.max(-1)), outputs=2)


def attention(length: int, width: int) -> Workload:
    """softmax(Q K^T / sqrt(width)) V of one head, as a chain of computes."""
    q, key, v = (te.placeholder((length, width), name=n) for n in ("Q", "K", "V"))
    d, j1, j2, j3 = te.reduce_axis((0, width), "d"), *[te.reduce_axis((0, length), "j") for _ in range(3)]
    scale = 1.0 / math.sqrt(width)
    scores = te.compute((length, length), lambda i, j: te.sum(q[i, d] * key[j, d], axis=d), name="scores")
    scaled = te.compute((length, length), lambda i, j: scores[i, j] * scale, name="scaled")
    top = te.compute((length,), lambda i: te.max(scaled[i, j1], axis=j1), name="top")
    e = te.compute((length, length), lambda i, j: te.exp(scaled[i, j] - top[i]), name="weight")
    total = te.compute((length,), lambda i: te.sum(e[i, j2], axis=j2), name="total")
    mixed = te.compute((length, width), lambda i, c: te.sum(e[i, j3] * v[j3, c], axis=j3), name="mixed")
    out = te.compute((length, width), lambda i, c: mixed[i, c] / total[i], name="O")

    def reference(x: Array, y: Array, z: Array) -> Array:
        return _softmax(x @ y.T * scale) @ z

    flop = 4 * length * length * width
    return Workload("attention", te.create_prim_func([q, key, v, out]), reference, flop=flop)


def small_workloads() -> list[Workload]:
    """One of each, small enough for the interpreter."""
    return [
        matmul(8, 12, 6),
        matmul(6, 5, 7, "float16", "float32"),
        matmul(6, 5, 7, "int8", "int32"),
        batch_matmul(2, 4, 5, 6),
        matvec(9, 7),
        transpose(5, 8),
        add(33),
        softmax(5, 9),
        layer_norm(4, 10),
        rms_norm(4, 10),
        rms_norm(4, 10, "float16"),
        rms_norm(4, 10, "bfloat16"),
        conv2d(6, 3, 4),
        argmax(5, 11),
        attention(6, 4),
    ]


def biased_matmul(n: int, m: int, k: int) -> Workload:
    """A @ B + bias: a sum that may begin at the bias."""
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    bias = te.placeholder((m,), name="bias")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] + bias[j], name="D")
    return Workload(
        "biased_matmul", te.create_prim_func([a, b, bias, d]), lambda x, y, z: x @ y + z, flop=2 * n * m * k
    )


def blur(n: int, m: int) -> Workload:
    """Weighted sums of three neighbours down the columns of an image, of twice its values."""
    a = te.placeholder((n + 2, m), name="A")
    doubled = te.compute((n + 2, m), lambda i, j: a[i, j] * 2.0, name="doubled")
    out = te.compute(
        (n, m), lambda i, j: doubled[i, j] + doubled[i + 1, j] * 0.5 + doubled[i + 2, j] * 0.25, name="blurred"
    )

    def reference(x: Array) -> Array:
        x = x * 2
        return x[:-2] + x[1:-1] * 0.5 + x[2:] * 0.25

    return Workload("blur", te.create_prim_func([a, out]), reference, flop=6 * n * m)


def max_pool(n: int, window: int) -> Workload:
    """The largest of each window of squares, and then its root."""
    a = te.placeholder((n + window - 1,), name="A")
    k = te.reduce_axis((0, window), "k")
    square = te.compute((n + window - 1,), lambda i: a[i] * a[i], name="square")
    top = te.compute((n,), lambda i: te.max(square[i + k], axis=k), name="top")
    out = te.compute((n,), lambda i: te.sqrt(top[i]), name="root")

    def reference(x: Array) -> Array:
        return np.sqrt(np.lib.stride_tricks.sliding_window_view(x * x, window).max(-1))

    return Workload("max_pool", te.create_prim_func([a, out]), reference, flop=2 * n * window)


def chained_workloads() -> list[Workload]:
    """Producers with windows and consumers of sums, small enough for the interpreter."""
    return [biased_matmul(5, 6, 7), blur(7, 5), max_pool(9, 3), blur(12, 1), biased_matmul(4, 8, 3)]


def wide_workloads() -> list[Workload]:
    """The small workloads with all that counts in int64."""
    return [w.with_index_dtype("int64") for w in small_workloads()]
