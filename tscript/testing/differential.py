"""One program, run every way there is: the ways must agree."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tscript import interp
from tscript.driver import build
from tscript.equivalence import compare_arrays
from tscript.ir.function import PrimFunc
from tscript.ir.semantics import numpy_dtype
from tscript.ir.structural import assert_structural_equal
from tscript.ir.well_formed import verify_well_formed
from tscript.parser import from_source
from tscript.testing.random_program import random_arguments

Array = np.ndarray[Any, np.dtype[Any]]


def check_round_trip(func: PrimFunc) -> str:
    """Print, parse, compare, and print again; returns the text. AssertionError or VerifyError where they differ."""
    text = func.script()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = from_source(text)
    assert_structural_equal(func, again)
    assert again.script() == text, "the text changes when it is parsed and printed again"
    return text


def run_both(func: PrimFunc, seed: int, *, exact: bool = True, target: str = "llvm") -> None:
    """Run `func` in the interpreter and as native code of `target` on the same random arguments; compare bit by bit.

    With `exact=False`, floats may differ by a few units in the last place. NaNs are equal to each other.
    """
    verify_well_formed(func)
    expected, got = random_arguments(func, seed), random_arguments(func, seed)
    interp.run(func, *expected)
    # To the last bit means that no product joins a sum in one rounding.
    build(func, target=f"{target} -fast-math-contract=0" if exact else target)[func.__name__](*got)
    for k, (e, g) in enumerate(zip(expected, got, strict=True)):
        if isinstance(e, np.ndarray) and isinstance(g, np.ndarray):
            compare_arrays(g, e, f"parameter {k} of {func.__name__}", exact=exact)


def first_failure(
    make: Callable[[int], PrimFunc], check: Callable[[PrimFunc, int], object], seeds: Sequence[int]
) -> tuple[int, BaseException] | None:
    """The first seed whose program fails `check`, with what was raised; None when all pass."""
    for seed in seeds:
        try:
            check(make(seed), seed)
        except Exception as error:
            return seed, error
    return None


__all__ = ["Array", "check_round_trip", "compare_arrays", "first_failure", "numpy_dtype", "run_both"]
