"""Sums, differences and products. Like terms are merged by the normal form of sums; here is what that leaves."""

from tscript.arith.rule import Rule

ADD = (
    Rule("x + 0", "x"),
    Rule("x + x", "x * 2"),
    Rule("x * c1 + x", "x * (c1 + 1)"),
    Rule("x * c1 + x * c2", "x * (c1 + c2)"),
    Rule("x + c1 + c2", "x + (c1 + c2)"),
    Rule("x - y + y", "x"),
    Rule("x // c1 * c1 + x % c1", "x", when="c1 != 0"),
    Rule("x // y * y + x % y", "x", when="nonzero(y)"),
    Rule("x // c1 * c2 + x % c1 * c3", "x * c3", when="c1 != 0 and c2 == c1 * c3"),
    Rule("x // c1 % c2 * c1 + x % c1", "x % (c1 * c2)", when="c1 > 0 and c2 > 0"),
    Rule("min(x, y) + max(x, y)", "x + y"),
    Rule("min(x, y - z) + z", "min(x + z, y)"),
    Rule("max(x, y - z) + z", "max(x + z, y)"),
)

SUB = (
    Rule("x - 0", "x"),
    Rule("x - x", "0"),
    Rule("x + y - y", "x"),
    Rule("x - (x + y)", "y * -1"),
    Rule("x * c1 - x * c2", "x * (c1 - c2)"),
    Rule("x + c1 - c2", "x + (c1 - c2)"),
    Rule("x - x // c1 * c1", "x % c1", when="c1 != 0"),
    Rule("x - x // y * y", "x % y", when="nonzero(y)"),
    Rule("x + y - min(x + z, x + w)", "y - min(z, w)"),
    Rule("x + y - max(x + z, x + w)", "y - max(z, w)"),
    Rule("max(x + y, z) - x", "max(y, z - x)"),
    Rule("min(x + y, z) - x", "min(y, z - x)"),
)

MUL = (
    Rule("x * 0", "0"),
    Rule("x * 1", "x"),
    Rule("x * c1 * c2", "x * (c1 * c2)"),
    Rule("x * (y * c1)", "x * y * c1"),
    Rule("min(x, y) * max(x, y)", "x * y"),
)
