"""All rewrite rules, by the operator at their root."""

from __future__ import annotations

from typing import Final

from tscript.arith.rule import Rule
from tscript.arith.rules import add, compare, extremum, floordiv, floormod, logic, truncdiv
from tscript.ir import expr as ex

RULES: Final[dict[type[ex.PrimExpr], tuple[Rule, ...]]] = {
    ex.Add: add.ADD,
    ex.Sub: add.SUB,
    ex.Mul: add.MUL,
    ex.FloorDiv: floordiv.FLOORDIV,
    ex.FloorMod: floormod.FLOORMOD,
    ex.Div: truncdiv.TRUNCDIV,
    ex.Mod: truncdiv.TRUNCMOD,
    ex.Min: extremum.MIN,
    ex.Max: extremum.MAX,
    ex.EQ: compare.EQ,
    ex.NE: compare.NE,
    ex.LT: compare.LT,
    ex.LE: compare.LE,
    ex.GT: compare.GT,
    ex.GE: compare.GE,
    ex.And: logic.AND,
    ex.Or: logic.OR,
    ex.Not: logic.NOT,
    ex.Select: logic.SELECT,
}
