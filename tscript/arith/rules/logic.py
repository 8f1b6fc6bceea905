"""Conditions. That one comparison follows from another is decided by bounds of their difference before these."""

from tscript.arith.rule import Rule

AND = (
    Rule("p and p", "p"),
    Rule("p and True", "p"),
    Rule("p and False", "False"),
    Rule("p and not p", "False"),
    Rule("(p and q) and p", "p and q"),
    Rule("p and (p or q)", "p"),
    Rule("x == y and x != y", "False"),
    Rule("x < y and y < x", "False"),
    Rule("x < y and y <= x", "False"),
    Rule("x <= y and y <= x", "x == y"),
    Rule("x <= y and x != y", "x < y"),
    Rule("x < c1 and x < c2", "x < min(c1, c2)"),
    Rule("c1 < x and c2 < x", "max(c1, c2) < x"),
    Rule("x <= c1 and x <= c2", "x <= min(c1, c2)"),
    Rule("c1 <= x and c2 <= x", "max(c1, c2) <= x"),
    Rule("x < c1 and c2 < x", "False", when="c1 <= c2 + 1"),
    Rule("x < c1 and c2 <= x", "False", when="c1 <= c2"),
    Rule("x <= c1 and c2 <= x", "False", when="c1 < c2"),
    Rule("x == c1 and x == c2", "False", when="c1 != c2"),
    Rule("x == c1 and x != c2", "x == c1", when="c1 != c2"),
)

OR = (
    Rule("p or p", "p"),
    Rule("p or False", "p"),
    Rule("p or True", "True"),
    Rule("p or not p", "True"),
    Rule("(p or q) or p", "p or q"),
    Rule("p or (p and q)", "p"),
    Rule("x == y or x != y", "True"),
    Rule("x < y or y < x", "x != y"),
    Rule("x < y or y <= x", "True"),
    Rule("x <= y or y <= x", "True"),
    Rule("x < y or x == y", "x <= y"),
    Rule("x < c1 or x < c2", "x < max(c1, c2)"),
    Rule("c1 < x or c2 < x", "min(c1, c2) < x"),
    Rule("x <= c1 or x <= c2", "x <= max(c1, c2)"),
    Rule("c1 <= x or c2 <= x", "min(c1, c2) <= x"),
    Rule("x < c1 or c2 < x", "True", when="c2 < c1"),
    Rule("x < c1 or c2 <= x", "True", when="c2 <= c1"),
    Rule("x != c1 or x != c2", "True", when="c1 != c2"),
    Rule("x != c1 or x == c2", "x != c1", when="c1 != c2"),
)

NOT = (
    Rule("not not p", "p"),
    Rule("not x == y", "x != y"),
    Rule("not x != y", "x == y"),
    Rule("not x < y", "y <= x"),
    Rule("not x <= y", "y < x"),
    Rule("not (p and q)", "not p or not q"),
    Rule("not (p or q)", "not p and not q"),
)

SELECT = (
    Rule("select(True, x, y)", "x"),
    Rule("select(False, x, y)", "y"),
    Rule("select(p, x, x)", "x"),
    Rule("select(p, True, False)", "p"),
    Rule("select(p, False, True)", "not p"),
    Rule("select(not p, x, y)", "select(p, y, x)"),
    Rule("select(p, select(p, x, y), z)", "select(p, x, z)"),
    Rule("select(p, x, select(p, y, z))", "select(p, x, z)"),
    Rule("select(x < y, x, y)", "min(x, y)"),
    Rule("select(x <= y, x, y)", "min(x, y)"),
    Rule("select(y < x, x, y)", "max(x, y)"),
    Rule("select(y <= x, x, y)", "max(x, y)"),
)
