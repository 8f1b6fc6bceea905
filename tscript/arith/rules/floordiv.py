"""Floor division."""

from tscript.arith.rule import Rule

FLOORDIV = (
    Rule("x // 1", "x"),
    Rule("x // x", "1", when="nonzero(x)"),
    # Rounding twice is rounding once, as long as the second divisor does not turn the order round.
    Rule("(x // c1) // c2", "x // (c1 * c2)", when="c1 != 0 and c2 > 0"),
    Rule("(x // c1 + c2) // c3", "(x + c1 * c2) // (c1 * c3)", when="c1 > 0 and c3 > 0"),
    Rule("(x * c1) // c2", "x * (c1 // c2)", when="c2 != 0 and c1 % c2 == 0"),
    Rule("(x * c1) // c2", "x // (c2 // c1)", when="c1 != 0 and c2 != 0 and c2 % c1 == 0"),
    Rule("(x * c1 + y) // c2", "x * (c1 // c2) + y // c2", when="c2 != 0 and c1 % c2 == 0"),
    Rule("(x * c1 - y) // c2", "x * (c1 // c2) + y * -1 // c2", when="c2 != 0 and c1 % c2 == 0"),
    Rule("(x - y * c1) // c2", "x // c2 - y * (c1 // c2)", when="c2 != 0 and c1 % c2 == 0"),
    Rule(
        "(x * c1 + y) // c2", "x // (c2 // c1)", when="c1 > 0 and c2 > 0 and c2 % c1 == 0 and lo(y) >= 0 and hi(y) < c1"
    ),
    Rule("(x + c1) // c2", "x // c2 + c1 // c2", when="c2 != 0 and c1 % c2 == 0"),
    Rule("x // c1", "0", when="c1 > 0 and lo(x) >= 0 and hi(x) < c1"),
    Rule("x // c1", "-1", when="c1 > 0 and lo(x) >= -c1 and hi(x) < 0"),
    Rule("x % c1 // c2", "0", when="0 < c1 and c1 <= c2"),
    Rule("x // y", "0", when="nonneg(x) and less(x, y)"),
    Rule("(x * y) // y", "x", when="nonzero(y)"),
    Rule("(x * y + z) // y", "x + z // y", when="nonzero(y)"),
    Rule("(x * y - z) // y", "x + z * -1 // y", when="nonzero(y)"),
    Rule("(z - x * y) // y", "z // y - x", when="nonzero(y)"),
    Rule("(x + y) // y", "x // y + 1", when="nonzero(y)"),
    Rule("(x - y) // y", "x // y - 1", when="nonzero(y)"),
    Rule("(x * y * c1) // (y * c2)", "(x * c1) // c2", when="nonzero(y) and c2 != 0"),
    Rule("(x * y) // (z * y)", "x // z", when="nonzero(y) and nonzero(z)"),
    Rule("(x * y + w) // (y * c1)", "x // c1", when="c1 > 0 and nonneg(w) and less(w, y)"),
    Rule("min(x * c1, y) // c1", "min(x, y // c1)", when="c1 > 0"),
    Rule("max(x * c1, y) // c1", "max(x, y // c1)", when="c1 > 0"),
)
