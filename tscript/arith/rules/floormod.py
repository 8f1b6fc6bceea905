"""Remainder of floor division. `(x % a) % b` is `x % b` only where `b` divides `a`."""

from tscript.arith.rule import Rule

FLOORMOD = (
    Rule("x % 1", "0"),
    Rule("x % -1", "0"),
    Rule("x % x", "0", when="nonzero(x)"),
    Rule("(x % c1) % c2", "x % c2", when="c1 != 0 and c2 != 0 and c1 % c2 == 0"),
    Rule("(x % c1) % c2", "x % c1", when="0 < c1 and c1 <= c2"),
    Rule("(x * c1) % c2", "0", when="c2 != 0 and c1 % c2 == 0"),
    Rule("(x * c1) % c2", "x % (c2 // c1) * c1", when="c1 != 0 and c2 != 0 and c2 % c1 == 0"),
    Rule("(x * c1 + y) % c2", "y % c2", when="c2 != 0 and c1 % c2 == 0"),
    Rule("(x * c1 - y) % c2", "y * -1 % c2", when="c2 != 0 and c1 % c2 == 0"),
    Rule("(x - y * c1) % c2", "x % c2", when="c2 != 0 and c1 % c2 == 0"),
    Rule(
        "(x * c1 + y) % c2",
        "x % (c2 // c1) * c1 + y",
        when="c1 > 0 and c2 > 0 and c2 % c1 == 0 and lo(y) >= 0 and hi(y) < c1",
    ),
    Rule("(x + c1) % c2", "x % c2", when="c2 != 0 and c1 % c2 == 0"),
    Rule("(x % c1 + y) % c2", "(x + y) % c2", when="c1 != 0 and c2 != 0 and c1 % c2 == 0"),
    Rule("(x - y % c1) % c2", "(x - y) % c2", when="c1 != 0 and c2 != 0 and c1 % c2 == 0"),
    Rule("(x % c1 - y) % c2", "(x - y) % c2", when="c1 != 0 and c2 != 0 and c1 % c2 == 0"),
    Rule("(x % c1 * c2 + y) % c3", "(x * c2 + y) % c3", when="c1 != 0 and c3 != 0 and c1 * c2 % c3 == 0"),
    Rule("x % c1", "x", when="lo(x) >= 0 and hi(x) < c1"),
    Rule("x % c1", "x + c1", when="c1 > 0 and lo(x) >= -c1 and hi(x) < 0"),
    Rule("x % y", "x", when="nonneg(x) and less(x, y)"),
    Rule("(x * y) % y", "0", when="nonzero(y)"),
    Rule("(x * y + z) % y", "z % y", when="nonzero(y)"),
    Rule("(z - x * y) % y", "z % y", when="nonzero(y)"),
    Rule("(x * y * c1) % y", "0", when="nonzero(y)"),
    Rule("(x * y * c1 + z) % y", "z % y", when="nonzero(y)"),
    Rule("(x + y) % y", "x % y", when="nonzero(y)"),
    Rule("(x - y) % y", "x % y", when="nonzero(y)"),
    Rule("(x % y) % y", "x % y", when="nonzero(y)"),
    Rule("(x * z) % (y * z)", "x % y * z", when="nonzero(y) and nonzero(z)"),
)
