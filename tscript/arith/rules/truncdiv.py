"""Division that rounds toward zero. It agrees with floor division from zero up, and where nothing is rounded."""

from tscript.arith.rule import Rule

TRUNCDIV = (
    Rule("truncdiv(x, 1)", "x"),
    Rule("truncdiv(x, -1)", "x * -1"),
    Rule("truncdiv(x, x)", "1", when="nonzero(x)"),
    Rule("truncdiv(truncdiv(x, c1), c2)", "truncdiv(x, c1 * c2)", when="c1 != 0 and c2 != 0"),
    Rule("truncdiv(x * c1, c2)", "x * (c1 // c2)", when="c2 != 0 and c1 % c2 == 0"),
    Rule("truncdiv(x * c1, c2)", "truncdiv(x, c2 // c1)", when="c1 != 0 and c2 != 0 and c2 % c1 == 0"),
    Rule("truncdiv(x * y, y)", "x", when="nonzero(y)"),
    Rule("truncdiv(x, y)", "0", when="nonneg(x) and less(x, y)"),
)

TRUNCMOD = (
    Rule("truncmod(x, 1)", "0"),
    Rule("truncmod(x, -1)", "0"),
    Rule("truncmod(x, x)", "0", when="nonzero(x)"),
    Rule("truncmod(x * c1, c2)", "0", when="c2 != 0 and c1 % c2 == 0"),
    Rule("truncmod(truncmod(x, c1), c2)", "truncmod(x, c2)", when="c1 != 0 and c2 != 0 and c1 % c2 == 0"),
    Rule("truncmod(x * y, y)", "0", when="nonzero(y)"),
    Rule("truncmod(x, y)", "x", when="nonneg(x) and less(x, y)"),
)
