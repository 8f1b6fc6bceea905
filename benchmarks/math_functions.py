"""Speed and errors of native math functions, beside NumPy's and, where installed, PyTorch's.

    python benchmarks/math_functions.py                      # nanoseconds an element, data in the cache, one thread
    python benchmarks/math_functions.py --errors             # the largest errors over float32, every 101st bit pattern
    python benchmarks/math_functions.py --errors --step 1    # over all of float32

The function runs over vectors of `--lanes` lanes. Errors are in units of the last place, against NumPy in float64.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tscript
from tscript.ir import stmt as st
from tscript.ir.buffer import decl_buffer
from tscript.ir.construct import const
from tscript.ir.expr import Call, Op, PrimExpr, Ramp, Var
from tscript.ir.function import PrimFunc

NUMPY: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sqrt": np.sqrt,
}  # fmt: skip
OTHERS = ("erf", "sigmoid", "rsqrt")
COUNT = 1 << 14
"""Elements in one call: both arrays stay in the cache."""


def kernel(name: str, dtype: str, lanes: int, count: int = COUNT) -> Callable[..., Any]:
    """The function applied to `count` elements, `lanes` at a time, as `f(x, out)`."""
    x, out, i = decl_buffer((count,), dtype, name="x"), decl_buffer((count,), dtype, name="out"), Var("i")
    at: PrimExpr = i if lanes == 1 else Ramp(i * lanes, const(1), lanes)
    element = dtype if lanes == 1 else f"{dtype}x{lanes}"
    body = st.BufferStore(out, Call(element, Op.get("tir." + name), (x[at],)), (at,))
    loop = st.For(i, const(0), const(count // lanes), st.ForKind.SERIAL, body)
    parameters: Any = [x, out]
    func = PrimFunc(parameters, loop).with_attr("global_symbol", "apply").with_attr("tir.noalias", True)
    return tscript.build(func, target="llvm")["apply"]


def best(call: Callable[[], Any], rounds: int) -> float:
    """Nanoseconds an element, in the best of the rounds."""
    least = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(20):
            call()
        least = min(least, time.perf_counter() - start)
    return least / 20 / COUNT * 1e9


def speeds(name: str, dtype: str, lanes: int, rounds: int) -> dict[str, float]:
    """Nanoseconds an element of each implementation there is."""
    x = np.random.default_rng(0).uniform(0.01, 0.99 if name in ("asin", "acos", "atanh") else 5, COUNT).astype(dtype)
    if name == "acosh":
        x += 1
    out = np.empty_like(x)
    run = kernel(name, dtype, lanes)
    found = {"own": best(lambda: run(x, out), rounds)}
    if name in NUMPY:
        found["numpy"] = best(lambda: NUMPY[name](x, out=out), rounds)
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        return found
    torch.set_num_threads(1)
    given, result = torch.from_numpy(x), torch.from_numpy(out)
    found["torch"] = best(lambda: getattr(torch, name)(given, out=result), rounds)
    return found


def largest_error(name: str, lanes: int, step: int) -> tuple[float, float]:
    """The largest error over every `step`-th float32, and where it is."""
    chunk = 1 << 20
    run = kernel(name, "float32", lanes, chunk)
    out = np.empty(chunk, np.float32)
    worst, place = 0.0, 0.0
    for start in range(0, 1 << 32, chunk * step):
        patterns = np.minimum(start + np.arange(chunk, dtype=np.uint64) * step, 0xFFFFFFFF).astype(np.uint32)
        x = patterns.view(np.float32)
        run(x, out)
        with np.errstate(all="ignore"):
            want = NUMPY[name](x.astype(np.float64))
            rounded = want.astype(np.float32)
            same = (out == rounded) | (np.isnan(out) & np.isnan(rounded))
            _, exponent = np.frexp(np.where(np.isfinite(want), want, 1.0))
            unit = np.ldexp(1.0, np.maximum(exponent - 1, -126) - 23)
            errors = np.where(same & ~np.isfinite(rounded), 0.0, np.abs(out - want) / unit)
        at = int(np.argmax(np.where(np.isnan(errors), np.inf, errors)))
        if not errors[at] <= worst:
            worst, place = float(errors[at]), float(x[at])
    return worst, place


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description="Speed and errors of native math functions.")
    parser.add_argument("names", nargs="*", help="functions (default: all)")
    parser.add_argument("--lanes", type=int, default=16, help="lanes of a vector (default 16)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of measurement (default 15)")
    parser.add_argument("--errors", action="store_true", help="measure errors in float32, not speed")
    parser.add_argument("--step", type=int, default=101, help="take every STEP-th bit pattern (default 101)")
    arguments = parser.parse_args(argv)
    if arguments.errors:
        print("| function | largest error | at |\n|---|--:|--:|")
        for name in arguments.names or NUMPY:
            worst, place = largest_error(name, arguments.lanes, arguments.step)
            print(f"| {name} | {worst:.3f} | {place!r} |", flush=True)
        return 0
    print("| function | type | own | NumPy | PyTorch |\n|---|---|--:|--:|--:|")
    for dtype, lanes in (("float32", arguments.lanes), ("float64", max(arguments.lanes // 2, 1))):
        for name in arguments.names or (*NUMPY, *OTHERS):
            found = speeds(name, dtype, lanes, arguments.rounds)
            cells = [f"{found[k]:.3f}" if k in found else "–" for k in ("own", "numpy", "torch")]
            print(f"| {name} | {dtype} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
