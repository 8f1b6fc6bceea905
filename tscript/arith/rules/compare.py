"""Comparisons. Linear ones are decided or put in normal form first; `>` and `>=` are written the other way round."""

from tscript.arith.rule import Rule

EQ = (
    Rule("x == x", "True"),
    Rule("x == y", "False", when="hi(x) < lo(y) or hi(y) < lo(x)"),
    Rule("x + c1 == c2", "x == c2 - c1"),
    Rule("x + y == x + z", "y == z"),
    Rule("x * c1 == 0", "x == 0", when="c1 != 0"),
    Rule("x * y == 0", "x == 0", when="nonzero(y)"),
    Rule("x // c1 == 0", "x < c1", when="c1 > 0 and lo(x) >= 0"),
    Rule("x // c1 == c2", "x == c1 * c2", when="c1 == 1"),
    Rule("x % c1 == c2", "False", when="c1 > 0 and (c2 < 0 or c2 >= c1)"),
    Rule("max(x, c1) == c2", "False", when="c2 < c1"),
    Rule("min(x, c1) == c2", "False", when="c2 > c1"),
    Rule("max(x, c1) == c2", "x == c2", when="c2 > c1"),
    Rule("min(x, c1) == c2", "x == c2", when="c2 < c1"),
)

NE = (
    Rule("x != x", "False"),
    Rule("x != y", "True", when="hi(x) < lo(y) or hi(y) < lo(x)"),
    Rule("x + c1 != c2", "x != c2 - c1"),
    Rule("x + y != x + z", "y != z"),
    Rule("x * c1 != 0", "x != 0", when="c1 != 0"),
    Rule("x * y != 0", "x != 0", when="nonzero(y)"),
    Rule("x % c1 != c2", "True", when="c1 > 0 and (c2 < 0 or c2 >= c1)"),
)

LT = (
    Rule("x < x", "False"),
    Rule("x < y", "True", when="hi(x) < lo(y)"),
    Rule("x < y", "False", when="lo(x) >= hi(y)"),
    Rule("x + c1 < c2", "x < c2 - c1"),
    Rule("c1 < x + c2", "c1 - c2 < x"),
    Rule("x + y < x + z", "y < z"),
    Rule("x + y < x", "y < 0"),
    Rule("x < x + y", "0 < y"),
    Rule("x * c1 < y * c1", "x < y", when="c1 > 0"),
    Rule("x * c1 < y * c1", "y < x", when="c1 < 0"),
    Rule("x * c1 < c2", "x < (c2 + c1 - 1) // c1", when="c1 > 0"),
    Rule("c2 < x * c1", "c2 // c1 < x", when="c1 > 0"),
    Rule("x * c1 + y < c2", "x < c2 // c1", when="c1 > 0 and c2 % c1 == 0 and lo(y) >= 0 and hi(y) < c1"),
    Rule("x // c1 < c2", "x < c1 * c2", when="c1 > 0"),
    Rule("c2 < x // c1", "c1 * (c2 + 1) - 1 < x", when="c1 > 0"),
    Rule("x // c1 * c1 < x", "0 < x % c1", when="c1 > 0"),
    Rule("x < x // c1 * c1", "False", when="c1 > 0"),
    Rule("min(x, y) < x", "y < x"),
    Rule("x < max(x, y)", "x < y"),
    Rule("max(x, y) < x", "False"),
    Rule("x < min(x, y)", "False"),
    Rule("min(x, c1) < c2", "True", when="c1 < c2"),
    Rule("min(x, c1) < c2", "x < c2", when="c1 >= c2"),
    Rule("max(x, c1) < c2", "False", when="c1 >= c2"),
    Rule("max(x, c1) < c2", "x < c2", when="c1 < c2"),
    Rule("c2 < max(x, c1)", "True", when="c2 < c1"),
    Rule("c2 < max(x, c1)", "c2 < x", when="c2 >= c1"),
    Rule("c2 < min(x, c1)", "False", when="c2 >= c1"),
    Rule("c2 < min(x, c1)", "c2 < x", when="c2 < c1"),
    Rule("x * y < x * z", "y < z", when="lo(x) > 0"),
    Rule("x * y < y", "x < 1", when="lo(y) > 0"),
)

LE = (
    Rule("x <= x", "True"),
    Rule("x <= y", "True", when="hi(x) <= lo(y)"),
    Rule("x <= y", "False", when="lo(x) > hi(y)"),
    Rule("x + c1 <= c2", "x <= c2 - c1"),
    Rule("c1 <= x + c2", "c1 - c2 <= x"),
    Rule("x + y <= x + z", "y <= z"),
    Rule("x + y <= x", "y <= 0"),
    Rule("x <= x + y", "0 <= y"),
    Rule("x * c1 <= y * c1", "x <= y", when="c1 > 0"),
    Rule("x * c1 <= y * c1", "y <= x", when="c1 < 0"),
    Rule("x * c1 <= c2", "x <= c2 // c1", when="c1 > 0"),
    Rule("c2 <= x * c1", "(c2 + c1 - 1) // c1 <= x", when="c1 > 0"),
    Rule("x // c1 <= c2", "x <= c1 * (c2 + 1) - 1", when="c1 > 0"),
    Rule("c2 <= x // c1", "c1 * c2 <= x", when="c1 > 0"),
    Rule("x // c1 * c1 <= x", "True", when="c1 > 0"),
    Rule("x <= x // c1 * c1", "x % c1 == 0", when="c1 > 0"),
    Rule("min(x, y) <= x", "True"),
    Rule("x <= max(x, y)", "True"),
    Rule("max(x, y) <= x", "y <= x"),
    Rule("x <= min(x, y)", "x <= y"),
    Rule("min(x, c1) <= c2", "True", when="c1 <= c2"),
    Rule("min(x, c1) <= c2", "x <= c2", when="c1 > c2"),
    Rule("max(x, c1) <= c2", "False", when="c1 > c2"),
    Rule("max(x, c1) <= c2", "x <= c2", when="c1 <= c2"),
    Rule("c2 <= max(x, c1)", "True", when="c2 <= c1"),
    Rule("c2 <= max(x, c1)", "c2 <= x", when="c2 > c1"),
    Rule("c2 <= min(x, c1)", "False", when="c2 > c1"),
    Rule("c2 <= min(x, c1)", "c2 <= x", when="c2 <= c1"),
    Rule("x * y <= x * z", "y <= z", when="lo(x) > 0"),
)

GT = (Rule("x > y", "y < x"),)

GE = (Rule("x >= y", "y <= x"),)
