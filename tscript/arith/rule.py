"""Rewrite rules as data: one line of algebra each, compiled when first needed into matchers.

A pattern is written in Python's syntax. Names that begin with `c` stand for integer constants, those that
begin with `p` or `q` for conditions, all others for any index expression; a name that occurs twice stands for
the same expression. `min`, `max`, `select`, `truncdiv` and `truncmod` are written as calls. Commutative
operators match in either order, a constant operand on the right only, where normal forms have it.

`when` is a condition in Python over the constants and over what is known of the rest: `lo(x)` and `hi(x)` are
bounds (infinite where there are none), `nonneg(x)` says `x >= 0`, `nonzero(x)` says `x != 0`, `less(x, y)` says
`x < y`.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from tscript.arith.context import Context
from tscript.arith.forms import form_of, is_index, plus
from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.dtype import BOOL
from tscript.ir.expr import IntImm, PrimExpr


class Rule(NamedTuple):
    """`before` may be replaced by `after` where `when` holds."""

    before: str
    after: str
    when: str = ""


class Name(NamedTuple):
    """A wildcard."""

    name: str

    @property
    def is_constant(self) -> bool:
        """It stands for an integer constant."""
        return self.name[0] == "c"

    @property
    def is_condition(self) -> bool:
        """It stands for a condition."""
        return self.name[0] in "pq"


class Number(NamedTuple):
    """An integer, or True or False."""

    value: int | bool


class Node(NamedTuple):
    """An operator applied to patterns."""

    kind: type[PrimExpr]
    args: tuple[Pattern, ...]


Pattern = Name | Number | Node

_OPERATORS: Final[dict[type[ast.AST], type[PrimExpr]]] = {
    ast.Add: ex.Add, ast.Sub: ex.Sub, ast.Mult: ex.Mul, ast.FloorDiv: ex.FloorDiv, ast.Mod: ex.FloorMod,
    ast.Eq: ex.EQ, ast.NotEq: ex.NE, ast.Lt: ex.LT, ast.LtE: ex.LE, ast.Gt: ex.GT, ast.GtE: ex.GE,
    ast.And: ex.And, ast.Or: ex.Or, ast.Not: ex.Not,
}  # fmt: skip
_CALLS: Final[dict[str, type[PrimExpr]]] = {
    "min": ex.Min, "max": ex.Max, "select": ex.Select, "truncdiv": ex.Div, "truncmod": ex.Mod,
}  # fmt: skip
COMMUTATIVE: Final = (ex.Add, ex.Mul, ex.Min, ex.Max, ex.EQ, ex.NE, ex.And, ex.Or)
FIELDS: Final[dict[type[PrimExpr], tuple[str, ...]]] = {
    ex.Not: ("a",),
    ex.Select: ("condition", "true_value", "false_value"),
}


def fields_of(kind: type[PrimExpr]) -> tuple[str, ...]:
    """Names of the operands of a node class."""
    return FIELDS.get(kind, ("a", "b"))


def parse_pattern(text: str) -> Pattern:
    """The pattern that `text` writes. Raises ValueError for what is no pattern."""
    return _pattern(ast.parse(text, mode="eval").body)


def _pattern(node: ast.expr) -> Pattern:
    match node:
        case ast.Name(id=name):
            return Name(name)
        case ast.Constant(value=int(value)):
            return Number(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return Number(-value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Node(ex.Not, (_pattern(operand),))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return Node(_OPERATORS[type(op)], (_pattern(left), _pattern(right)))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return Node(_OPERATORS[type(op)], (_pattern(left), _pattern(right)))
        case ast.BoolOp(op=op, values=[first, *others]):
            result = _pattern(first)
            for other in others:
                result = Node(_OPERATORS[type(op)], (result, _pattern(other)))
            return result
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS:
            return Node(_CALLS[name], tuple(_pattern(a) for a in args))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is no pattern of a rule")


def names_in(p: Pattern) -> dict[str, None]:
    """Wildcards of a pattern, in order."""
    if isinstance(p, Name):
        return {p.name: None}
    found: dict[str, None] = {}
    if isinstance(p, Node):
        for a in p.args:
            found.update(names_in(a))
    return found


def is_constant(p: Pattern) -> bool:
    """Whether a pattern stands for an integer constant."""
    return isinstance(p, Number) or (isinstance(p, Name) and p.is_constant)


def variants(p: Pattern) -> Iterator[Pattern]:
    """The pattern with operands of commutative operators in either order, each form once."""
    if not isinstance(p, Node):
        yield p
        return
    for args in itertools.product(*[tuple(variants(a)) for a in p.args]):
        yield Node(p.kind, args)
        if p.kind in COMMUTATIVE and args[0] != args[1] and not is_constant(args[1]):
            yield Node(p.kind, (args[1], args[0]))


# -- compilation ----------------------------------------------------------------------------------

Matcher = Callable[[Any, Context], PrimExpr | None]


class CompiledVariant(NamedTuple):
    """A matcher, with the classes that the root's operands must have (None: any)."""

    rule: Rule
    heads: tuple[type[PrimExpr] | None, ...]
    match: Matcher


_BUILDERS: Final[dict[type[PrimExpr], Callable[..., PrimExpr]]] = {
    ex.Add: make.add, ex.Sub: make.sub, ex.Mul: make.mul, ex.FloorDiv: make.floordiv, ex.FloorMod: make.floormod,
    ex.Min: make.min_, ex.Max: make.max_, ex.Div: make.truncdiv, ex.Mod: make.truncmod, ex.And: make.and_,
    ex.Or: make.or_, ex.Not: make.not_, ex.Select: ex.Select,
    **{kind: partial(make.compare, kind) for kind in (ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE)},
}  # fmt: skip


class _Writer:
    """Writes the source of one matcher.

    `typed` says where an operand of the arithmetic in the pattern is found: constants take its type.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.bound: dict[str, str] = {}
        self.count = 0
        self.typed: str | None = None
        self.arithmetic = False

    def require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def match(self, p: Pattern, path: str) -> None:
        if isinstance(p, Node):
            self.require(f"{path}.__class__ is {p.kind.__name__}")
            self.operands(p, path)
        elif isinstance(p, Number):
            kind = "BOOL" if isinstance(p.value, bool) else None
            typed = f"{path}.dtype is BOOL" if kind else f"{path}.dtype is not BOOL"
            self.require(f"{path}.__class__ is IntImm and {path}.value == {int(p.value)} and {typed}")
        elif p.name in self.bound:
            here = f"{path}.value" if p.is_constant else path
            if p.is_constant:
                self.require(f"{path}.__class__ is IntImm")
            self.require(f"{here} {'==' if p.is_constant else 'is'} {self.bound[p.name]}")
        elif p.is_constant:
            self.require(f"{path}.__class__ is IntImm")
            self.bound[p.name] = p.name
            self.lines.append(f"{p.name} = {path}.value")
        else:
            if p.is_condition:
                self.require(f"{path}.dtype.is_bool")
            self.bound[p.name] = p.name
            self.lines.append(f"{p.name} = {path}")

    def operands(self, p: Node, path: str) -> None:
        order = list(zip(p.args, fields_of(p.kind), strict=True))
        paths: list[tuple[Pattern, str]] = []
        for arg, name in order:
            self.count += 1
            local = f"t{self.count}"
            self.lines.append(f"{local} = {path}.{name}")
            paths.append((arg, local))
        if issubclass(p.kind, (ex.ArithExpr, ex.CmpExpr)):
            if not _of_conditions(p):
                self.arithmetic = True
                self.typed = self.typed or paths[0][1]
        # Constants first: they are the cheapest to refuse.
        for arg, local in sorted(paths, key=lambda item: not is_constant(item[0])):
            self.match(arg, local)


def _of_conditions(p: Node) -> bool:
    return any(isinstance(a, Name) and a.is_condition for a in p.args)


def compile_variant(rule: Rule, before: Node, after: Pattern) -> CompiledVariant:
    """The matcher of one order of operands."""
    w = _Writer()
    w.operands(before, "e")
    if w.arithmetic:
        w.lines.insert(0, "")
        w.require(f"is_index({w.typed})")
    if rule.when:
        w.require(rule.when)
    dtype = f"{w.typed}.dtype" if w.typed else "None"
    w.lines.append(f"return {_build(after, dtype)}")
    text = "def match(e, ctx):\n" + "".join(f"    {line}\n" for line in w.lines)
    for name in ("lo", "hi", "nonneg", "nonzero", "less"):
        text = text.replace(f"{name}(", f"{name}(ctx, ")
    env = dict(_ENVIRONMENT)
    exec(compile(text, f"<rule {rule.before} -> {rule.after}>", "exec"), env)
    heads = tuple(a.kind if isinstance(a, Node) else IntImm if is_constant(a) else None for a in before.args)
    return CompiledVariant(rule, heads, env["match"])


def _build(p: Pattern, dtype: str) -> str:
    value = _constant_text(p)
    if value is not None:
        return f"IntImm({dtype}, {value})"
    match p:
        case Number(value=bool(v)):
            return f"IntImm(BOOL, {int(v)})"
        case Name(name=name):
            return name
        case Node(kind=kind, args=args):
            return f"build_{kind.__name__}({', '.join(_build(a, dtype) for a in args)})"
        case _:
            raise ValueError(f"{p} cannot be built")


_CONSTANT_OPERATORS: Final[dict[type[PrimExpr], str]] = {
    ex.Add: "({} + {})", ex.Sub: "({} - {})", ex.Mul: "({} * {})", ex.FloorDiv: "({} // {})",
    ex.FloorMod: "({} % {})", ex.Min: "min({}, {})", ex.Max: "max({}, {})",
}  # fmt: skip


def _constant_text(p: Pattern) -> str | None:
    """Python text of what is computed while rewriting."""
    match p:
        case Number(value=bool()):
            return None
        case Number(value=v):
            return str(v)
        case Name(name=name) if p.is_constant:
            return name
        case Node(kind=kind, args=args) if kind in _CONSTANT_OPERATORS:
            parts = [_constant_text(a) for a in args]
            return None if None in parts else _CONSTANT_OPERATORS[kind].format(*parts)
        case _:
            return None


def _lo(ctx: Context, x: PrimExpr) -> int | float:
    low = ctx.bound(x).low
    return -math.inf if low is None else low


def _hi(ctx: Context, x: PrimExpr) -> int | float:
    high = ctx.bound(x).high
    return math.inf if high is None else high


def _nonneg(ctx: Context, x: PrimExpr) -> bool:
    return ctx.is_nonneg(form_of(x))


def _nonzero(ctx: Context, x: PrimExpr) -> bool:
    terms, constant = form_of(x)
    if ctx.is_nonneg((terms, constant - 1)):
        return True
    return ctx.is_nonneg(({t: -c for t, c in terms.items()}, -constant - 1))


def _less(ctx: Context, x: PrimExpr, y: PrimExpr) -> bool:
    terms, constant = plus(form_of(y), form_of(x), -1)
    return ctx.is_nonneg((terms, constant - 1))


_ENVIRONMENT: Final[dict[str, Any]] = {
    "BOOL": BOOL, "IntImm": IntImm, "is_index": is_index, "lo": _lo, "hi": _hi, "nonneg": _nonneg,
    "nonzero": _nonzero, "less": _less,
    **{kind.__name__: kind for kind in (*_OPERATORS.values(), *_CALLS.values())},
    **{f"build_{kind.__name__}": builder for kind, builder in _BUILDERS.items()},
}  # fmt: skip


class RuleTable:
    """The rules of one root operator; matchers are compiled when the operator is first met."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._compiled: list[CompiledVariant] | None = None
        self._by_heads: dict[tuple[type, ...], tuple[Matcher, ...]] = {}

    def variants(self) -> list[CompiledVariant]:
        """All matchers, in the order of the rules."""
        if self._compiled is None:
            found: list[CompiledVariant] = []
            for rule in self._rules:
                before, after = parse_pattern(rule.before), parse_pattern(rule.after)
                assert isinstance(before, Node)
                found += [
                    compile_variant(rule, v, after) for v in dict.fromkeys(variants(before)) if isinstance(v, Node)
                ]
            self._compiled = found
        return self._compiled

    def apply(self, e: Any, operands: tuple[PrimExpr, ...], ctx: Context) -> PrimExpr | None:
        """The result of the first rule that fits, None where none does or a constant would not fit in its type."""
        key = tuple(map(type, operands))
        fitting = self._by_heads.get(key)
        if fitting is None:
            fitting = tuple(
                v.match for v in self.variants() if all(h is None or h is k for h, k in zip(v.heads, key, strict=True))
            )
            self._by_heads[key] = fitting
        for match in fitting:
            try:
                result = match(e, ctx)
            except (ValueError, ZeroDivisionError):
                # A constant that its type cannot hold.
                continue
            if result is not None:
                return result
        return None
