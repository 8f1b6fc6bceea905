"""erf.

For |x| < 1 (1.2 in float64) a polynomial of x². Beyond, 1 - exp(-p(|x|)), where the polynomial p is near -log(1 -
erf): errors of it count less the closer erf is to 1.
"""

from __future__ import annotations

from typing import Final

from tscript.codegen.llvm.math import exponential
from tscript.codegen.llvm.math.coefficients import ERF, ERFC
from tscript.codegen.llvm.math.lanes import Lane, Lanes

_START: Final = {32: 1.0, 64: 1.2}
_MIDDLE: Final = {32: 2.0, 64: 3.0}
_END: Final = {32: 4.05, 64: 6.1}
"""Where the type has no number between erf and 1."""


def erf(g: Lanes, x: Lane) -> Lane:
    """The error function."""
    a = g.abs(x)
    small = g.fma(x, g.polynomial(ERF[g.bits], x * x), x)
    p = g.polynomial(ERFC[g.bits], g.at_most(a, _END[g.bits]) - _MIDDLE[g.bits])
    _, n, r = exponential.reduced(g, -p)
    large = 1.0 - g.scaled(exponential.minus_one(g, r) + 1.0, n)
    return g.select(a < _START[g.bits], small, g.with_sign(large, x))
