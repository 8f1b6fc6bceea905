"""Math functions of our own: their errors, their special values, and that all widths give the same bits."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tscript.codegen.llvm.math import coefficients
from tscript.driver import build
from tscript.ir import expr as ex
from tscript.ir.expr import Call, Op
from tscript.ir.function import IRModule, PrimFunc
from tscript.target.detect import host_processor
from tscript.target.target import Target

ROOT = Path(__file__).resolve().parents[2]
LONG = np.longdouble
X86 = platform.machine().lower() in ("x86_64", "amd64")
TARGETS = ["llvm", *(["llvm -mcpu=x86-64"] if X86 else [])]
if {"avx2", "fma"} <= host_processor()[1]:
    TARGETS.append("llvm -mcpu=haswell")
WIDTHS = [1, 3, 4, 7, 8, 16, 32]
COUNT = 32 * 3 * 7 * 12


def _erf(x: np.ndarray) -> np.ndarray:
    # exp(-x²) · 2 / √π · Σ 2ⁿ x²ⁿ⁺¹ / (1 · 3 · … · (2n + 1)), whose terms all have the same sign.
    a = np.minimum(np.abs(x), LONG(7))
    total = term = a
    for n in range(1, 220):
        term = term * 2 * a * a / (2 * n + 1)
        total = total + term
    result = np.minimum(np.exp(-a * a) * 2 / np.sqrt(np.arctan2(LONG(0), LONG(-1))) * total, 1)
    return np.copysign(np.where(x == x, result, x), x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    power = np.exp(-np.abs(x))
    return np.where(x < 0, power, 1) / (1 + power)


UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: LONG(10) ** x, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf,
    "sigmoid": _sigmoid,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {"atan2": np.arctan2, "hypot": np.hypot, "pow": np.power}


def call(name: str) -> Any:
    return lambda *args: Call(args[0].dtype, Op.get("tir." + name), args)


def specials(dtype: str) -> np.ndarray:
    limits = np.finfo(dtype)
    near = [0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 0.1, 1e3, np.pi, np.pi / 2, np.log(2), 0.9999, 88.7, 104.0, 709.7, 745.2]
    wide = [np.inf, limits.max, limits.tiny, limits.smallest_subnormal, 2.0**24, 2.0**24 + 1, 2.0**53, 2.0**53 - 1]
    one = np.array([*near, *wide]).astype(dtype)
    with np.errstate(all="ignore"):
        above, below = np.nextafter(one, np.array(np.inf, dtype)), np.nextafter(one, np.array(-np.inf, dtype))
    found = np.concatenate([one, above, below])
    return np.concatenate([found, -found, np.array([np.nan], dtype)])


def points(dtype: str, seed: int) -> np.ndarray:
    """Special values, bit patterns of every exponent, and numbers where functions change their form."""
    random = np.random.default_rng(seed)
    fixed = specials(dtype)
    half, rest = COUNT // 2, COUNT - COUNT // 2 - len(fixed)
    patterns = random.integers(0, 2 ** (8 * np.dtype(dtype).itemsize) - 1, half, f"u{np.dtype(dtype).itemsize}")
    usual = random.standard_normal(rest) * 10.0 ** random.uniform(-3, 2.5, rest)
    return np.concatenate([fixed, patterns.view(dtype), usual.astype(dtype)])


def arguments(name: str, dtype: str) -> list[np.ndarray]:
    x = points(dtype, 1)
    if name not in BINARY:
        return [x]
    y = np.random.default_rng(2).permutation(points(dtype, 3))
    if name == "pow":
        # Powers that are neither infinite nor zero.
        half = len(x) // 2
        x[half:] = np.abs(x[half:])
        with np.errstate(all="ignore"):
            size = np.random.default_rng(4).uniform(-150, 128, half) * (1 if dtype == "float32" else 7)
            y[-half:] = size / np.log2(x[-half:].astype(np.float64))
    return [x, y]


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Errors in units of the last place of the true result; infinite where special values differ."""
    limits = np.finfo(got.dtype)
    rounded = want.astype(got.dtype)
    same = ((got == rounded) & (np.signbit(got) == np.signbit(rounded))) | (np.isnan(got) & np.isnan(rounded))
    _, exponent = np.frexp(np.where(np.isfinite(want), want, 1))
    unit = np.ldexp(LONG(1), np.maximum(exponent - 1, limits.minexp) - limits.nmant)
    special = ~np.isfinite(got) | ~np.isfinite(rounded) | ((got == 0) & (rounded == 0))
    return np.where(special, np.where(same, 0, np.inf), np.abs(got.astype(LONG) - want) / unit)


def bits(values: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(values), 0, values.view(f"u{values.dtype.itemsize}"))


@pytest.mark.skipif(np.finfo(LONG).nmant < 63, reason="needs a reference wider than float64")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("target", TARGETS)
def test_errors_stay_below_two_ulps_and_widths_agree_to_the_bit(target: str, dtype: str, elementwise: Any) -> None:
    names = {
        (n, lanes): elementwise.add([dtype] * (2 if n in BINARY else 1), dtype, COUNT, call(n), lanes)
        for n in (*UNARY, *BINARY)
        for lanes in WIDTHS
    }
    built = build(elementwise.module(), target=target)
    for name, reference in {**UNARY, **BINARY}.items():
        given = arguments(name, dtype)
        results: dict[int, np.ndarray] = {}
        for lanes in WIDTHS:
            results[lanes] = np.empty(COUNT, dtype)
            built[names[name, lanes]](*given, results[lanes])
        for lanes in WIDTHS[1:]:
            np.testing.assert_array_equal(bits(results[lanes]), bits(results[1]), f"{name}, {lanes} lanes")
        with np.errstate(all="ignore"):
            errors = ulps(results[1], reference(*(a.astype(LONG) for a in given)))
        worst = int(np.argmax(errors))
        assert errors[worst] <= 2, (name, [a[worst] for a in given], results[1][worst], float(errors[worst]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(BINARY))
def test_pairs_of_special_values_give_what_ieee_754_says(name: str, dtype: str, elementwise: Any) -> None:
    values = np.array([0.0, 0.5, 1.0, 2.0, 3.0, 2.0**53, np.inf], dtype)
    values = np.concatenate([values, -values, np.array([np.nan], dtype)])
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(values, values))
    k = elementwise.add([dtype] * 2, dtype, len(x), call(name))
    with np.errstate(all="ignore"):
        want = BINARY[name](x, y)
    got = elementwise.run(k, [x, y], dtype)
    exact = ~np.isfinite(want) | (want == 0) | (want == 1)
    np.testing.assert_array_equal(bits(got)[exact], bits(want)[exact])
    np.testing.assert_allclose(got, want, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("target", TARGETS)
def test_vectors_call_no_function_of_c(target: str, elementwise: Any) -> None:
    # Not even for single lanes: the names that stand in calls are LLVM's, or ours.
    for name in UNARY:
        elementwise.add(["float32"], "float32", 64, call(name), 16)
    text = build(elementwise.module(), target=target).get_source("asm")
    called = set(re.findall(r"\bcall\w*\s+(\S+)", text))
    assert not {c for c in called if re.fullmatch(r"(exp|log|sin|cos|tan|pow|fma|ldexp|floor|rint|erf)\w*(@PLT)?", c)}


@pytest.mark.skipif(len(TARGETS) < 3, reason="needs two kinds of x86 processors in one")
def test_functions_for_different_targets_share_no_code(elementwise: Any) -> None:
    plain, wide = (elementwise.add(["float32"], "float32", 64, call("exp"), 16) for _ in range(2))
    functions = {v.name_hint: f for v, f in elementwise.module().functions.items()}
    for name, target in ((plain, "llvm -mcpu=x86-64"), (wide, "llvm -mcpu=haswell")):
        f: PrimFunc = functions[name]
        functions[name] = f.with_attr("target", Target(target))
    x = np.linspace(-5, 5, 64, dtype=np.float32)
    built = build(IRModule(functions))
    for name in (plain, wide):
        out = np.empty_like(x)
        built[name](x, out)
        np.testing.assert_allclose(out, np.exp(x.astype(np.float64)), rtol=2.0**-22)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("target", TARGETS)
def test_halves_are_converted_exactly_in_every_width(target: str, dtype: str, elementwise: Any) -> None:
    kind = np.dtype(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
    count = 32 * 3 * 7 * 30
    random = np.random.default_rng(0)
    low = random.choice(np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x7FFF, 0x8000, 0x8001, 0xFFFF], "u4"), count)
    singles = ((random.integers(0, 2**16, count, "u4") << 16) ^ low ^ (random.integers(0, 8, count, "u4") << 13)).view(
        "f4"
    )
    halves = random.permutation(np.resize(np.arange(2**16, dtype="u2"), count)).view(kind)
    down = {n: elementwise.add(["float32"], dtype, count, _cast(dtype), n) for n in WIDTHS}
    up = {n: elementwise.add([dtype], "float32", count, _cast("float32"), n) for n in WIDTHS}
    built = build(elementwise.module(), target=target)
    with np.errstate(all="ignore"):
        expected, widened = singles.astype(kind), halves.astype(np.float32)
        nan = np.isnan(expected.astype(np.float32))
    for lanes in WIDTHS:
        short, long = np.empty(count, kind), np.empty(count, np.float32)
        built[down[lanes]](singles, short)
        built[up[lanes]](halves, long)
        np.testing.assert_array_equal(np.isnan(short.astype(np.float32)), nan)
        np.testing.assert_array_equal(short.view("u2")[~nan], expected.view("u2")[~nan])
        np.testing.assert_array_equal(bits(long), bits(widened))


def _cast(dtype: str) -> Any:
    return lambda a: ex.Cast(dtype if a.dtype.lanes == 1 else f"{dtype}x{a.dtype.lanes}", a)


def test_the_coefficients_are_those_of_the_script() -> None:
    pytest.importorskip("mpmath")
    spec = importlib.util.spec_from_file_location("minimax", ROOT / "benchmarks" / "minimax.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    sys.modules["minimax"] = script
    spec.loader.exec_module(script)
    for fit in script._fits():
        for n, terms in fit.terms.items():
            if terms <= 8:
                assert tuple(script.fitted(fit, terms, n)) == getattr(coefficients, fit.name)[n], (fit.name, n)
