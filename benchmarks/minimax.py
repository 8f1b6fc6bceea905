"""Fit the polynomials of the native math functions, and write them as a Python file.

    python benchmarks/minimax.py > tscript/codegen/llvm/math/coefficients.py

Each polynomial is the one of its degree whose largest weighted error is least, found by the exchange algorithm of
Remez in multiple-precision arithmetic (mpmath); its coefficients are then rounded to the type that they serve. The
weights make the errors those of the function's result, relative to that result: what an ulp measures. `--check` prints
how many bits each is good for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import mpmath as _mpmath

# It comes without types.
mpmath: Any = _mpmath
mp: Any = mpmath.mp
Real = Any
Function = Callable[[Any], Any]

mp.prec = 200
ln2: Real = mpmath.log(2)


@dataclass(frozen=True)
class Fit:
    """A polynomial in `x` on [low, high] near `value`; the error at x counts `weight(x)` times."""

    name: str
    value: Function
    weight: Function
    low: Real
    high: Real
    terms: dict[int, int]
    comment: str


def _solve(fit: Fit, points: Sequence[Real], terms: int) -> list[Real]:
    """The coefficients whose weighted error is the same, with alternating sign, at all points."""
    rows = mpmath.matrix(terms + 1, terms + 1)
    right = mpmath.matrix(terms + 1, 1)
    for i, x in enumerate(points):
        for k in range(terms):
            rows[i, k] = x**k
        rows[i, terms] = (-1) ** i / fit.weight(x)
        right[i] = fit.value(x)
    return list(mpmath.lu_solve(rows, right))[:terms]


def horner(coefficients: Sequence[Real], x: Real) -> Real:
    """The polynomial with these coefficients, the constant first, at x."""
    total: Real = mp.mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def remez(fit: Fit, terms: int, rounds: int = 12) -> list[Real]:
    """The coefficients, the constant first, of the best polynomial of `terms` terms."""
    middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    count = 60 * (terms + 1)
    # Dense toward the ends, where extrema are. The ends themselves may be where a quotient is 0 / 0.
    grid = [middle - half * mpmath.cos(mpmath.pi * (i + mp.mpf(1) / 2) / count) for i in range(count)]
    wanted = [fit.value(x) for x in grid]
    weights = [fit.weight(x) for x in grid]
    points = [middle - half * mpmath.cos(mpmath.pi * (2 * i + 1) / (2 * terms + 2)) for i in range(terms + 1)]
    found: list[Real] = []
    for _ in range(rounds):
        found = _solve(fit, points, terms)
        errors = [(horner(found, x) - v) * w for x, v, w in zip(grid, wanted, weights, strict=True)]
        peaks: list[int] = []
        for i, e in enumerate(errors):
            if peaks and (e > 0) == (errors[peaks[-1]] > 0):
                if abs(e) > abs(errors[peaks[-1]]):
                    peaks[-1] = i
            else:
                peaks.append(i)
        while len(peaks) > terms + 1:
            peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
        if len(peaks) < terms + 1:
            break
        points = [grid[i] for i in peaks]
        sizes = [abs(errors[i]) for i in peaks]
        if max(sizes) < min(sizes) * mp.mpf("1.01"):
            break
    return found


def fitted(fit: Fit, terms: int, bits: int) -> list[float]:
    """The coefficients as floats. The first two, which count most, are rounded before the others are found."""
    found: list[float] = []
    rest = fit
    for k in range(2):
        found.append(rounded(remez(rest, terms - k)[0], bits))
        rest = _rest(rest, mp.mpf(found[-1]))
    return found + [rounded(c, bits) for c in remez(rest, terms - 2)]


def _rest(fit: Fit, constant: Real) -> Fit:
    def value(x: Real) -> Real:
        return (fit.value(x) - constant) / x

    def weight(x: Real) -> Real:
        return fit.weight(x) * abs(x)

    return replace(fit, value=value, weight=weight)


def rounded(value: Real, bits: int) -> float:
    """`value` as the nearest float of `bits` bits."""
    with mpmath.workprec(53 if bits == 64 else 24):
        return float(+value)


def good_bits(fit: Fit, coefficients: Sequence[float]) -> float:
    """By how many bits the largest weighted error lies below 1."""
    worst: Real = mp.mpf(0)
    for i in range(1, 999):
        x = fit.low + (fit.high - fit.low) * mp.mpf(i) / 999
        worst = max(worst, abs((horner([mp.mpf(c) for c in coefficients], x) - fit.value(x)) * fit.weight(x)))
    return float(-mpmath.log(worst, 2))


def _of_square(series: Function, power: int) -> Function:
    """A function of x² given one of x that has a power of x taken out."""
    return lambda z: series(mpmath.sqrt(z)) / mpmath.sqrt(z) ** power


def _minus_log_erfc(x: Real) -> Real:
    return -mpmath.log(mpmath.erfc(x))


def _fits() -> list[Fit]:
    sqrt, quarter = mpmath.sqrt, mpmath.pi / 4
    tiny = mp.mpf(2) ** -40
    return [
        Fit("EXP", lambda r: (mpmath.expm1(r) - r) / r**2, lambda r: abs(r**2 / mpmath.expm1(r)),
            -ln2 / 2 * mp.mpf("1.001"), ln2 / 2 * mp.mpf("1.01"), {32: 6, 64: 11},
            "(exp(r) - 1 - r) / r² in r, |r| ≤ ln 2 / 2"),
        Fit("LOG", lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3, lambda f: abs(f**3 / mpmath.log1p(f)),
            sqrt(2) / 2 - 1, sqrt(2) - 1, {32: 8, 64: 20}, "(log(1 + f) - f + f² / 2) / f³ in f, √½ ≤ 1 + f ≤ √2"),
        Fit("SIN", _of_square(lambda r: mpmath.sin(r) - r, 3), lambda z: sqrt(z) ** 3 / mpmath.sin(sqrt(z)),
            tiny, (2 * quarter) ** 2 * mp.mpf("1.001"), {32: 5, 64: 11}, "(sin(r) - r) / r³ in r², |r| ≤ π / 2"),
        Fit("TAN", _of_square(lambda r: mpmath.tan(r) - r, 3), lambda z: sqrt(z) ** 3 / mpmath.tan(sqrt(z)),
            tiny, quarter**2 * mp.mpf("1.001"), {32: 7, 64: 15}, "(tan(r) - r) / r³ in r², |r| ≤ π / 4"),
        Fit("SINH", _of_square(lambda x: mpmath.sinh(x) - x, 3), lambda z: sqrt(z) ** 3 / mpmath.sinh(sqrt(z)),
            tiny, mp.mpf("1.001"), {32: 4, 64: 7}, "(sinh(x) - x) / x³ in x², |x| ≤ 1"),
        Fit("ATAN", _of_square(lambda x: mpmath.atan(x) - x, 3), lambda z: sqrt(z) ** 3 / mpmath.atan(sqrt(z)),
            tiny, mp.mpf(1), {32: 10, 64: 23}, "(atan(x) - x) / x³ in x², |x| ≤ 1"),
        Fit("ASIN", _of_square(lambda x: mpmath.asin(x) - x, 3), lambda z: sqrt(z) ** 3 / mpmath.asin(sqrt(z)),
            tiny, mp.mpf(1) / 4, {32: 5, 64: 13}, "(asin(x) - x) / x³ in x², |x| ≤ ½"),
        Fit("ERF", _of_square(lambda x: mpmath.erf(x) - x, 1), lambda z: sqrt(z) / mpmath.erf(sqrt(z)),
            tiny, mp.mpf(1), {32: 7}, "(erf(x) - x) / x in x², |x| ≤ 1"),
        Fit("ERF", _of_square(lambda x: mpmath.erf(x) - x, 1), lambda z: sqrt(z) / mpmath.erf(sqrt(z)),
            tiny, mp.mpf("1.44"), {64: 15}, "(erf(x) - x) / x in x², |x| ≤ 1.2"),
        Fit("ERFC", lambda t: _minus_log_erfc(t + 2), lambda t: mpmath.erfc(t + 2),
            mp.mpf(-1), mp.mpf("2.05"), {32: 9}, "-log(1 - erf(a)) in a - 2, 1 ≤ a ≤ 4.05"),
        Fit("ERFC", lambda t: _minus_log_erfc(t + 3), lambda t: mpmath.erfc(t + 3),
            mp.mpf("-1.8"), mp.mpf("3.1"), {64: 24}, "-log(1 - erf(a)) in a - 3, 1.2 ≤ a ≤ 6.1"),
        Fit("ATANH", _of_square(lambda t: mpmath.atanh(t) - t - t**3 / 3, 5),
            lambda z: sqrt(z) ** 5 / mpmath.atanh(sqrt(z)), tiny, (sqrt(2) - 1) ** 4 * mp.mpf("1.001"), {64: 9},
            "(atanh(t) - t - t³ / 3) / t⁵ in t², |t| ≤ (√2 - 1)²"),
    ]  # fmt: skip


def main() -> int:
    """Print the file, or what the polynomials are good for."""
    parser = argparse.ArgumentParser(description="Fit the polynomials of the native math functions.")
    parser.add_argument("--check", action="store_true", help="print how many bits each polynomial is good for")
    check = parser.parse_args().check
    if not check:
        print('"""Coefficients of polynomials, the constant first, by the bits of the type.\n')
        print('`benchmarks/minimax.py` finds them and writes this file.\n"""')
        print("\nfrom __future__ import annotations\n\nfrom typing import Final")
    tables: dict[str, list[str]] = {}
    for fit in _fits():
        for bits, terms in fit.terms.items():
            values = fitted(fit, terms, bits)
            if check:
                print(f"{fit.name} {bits}: {terms} terms, {good_bits(fit, values):.1f} bits")
            lines = [f"    # {fit.comment}", f"    {bits}: ("]
            lines += [f'        float.fromhex("{v.hex()}"),' for v in values]
            tables.setdefault(fit.name, []).extend([*lines, "    ),"])
    if not check:
        for name, lines in tables.items():
            print(f"\n{name}: Final[dict[int, tuple[float, ...]]] = {{")
            print("\n".join(lines))
            print("}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
