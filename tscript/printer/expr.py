"""Expressions: literals, operators, calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from tscript.ir import construct
from tscript.ir import expr as ex
from tscript.ir.base import FrozenDict
from tscript.ir.dtype import DataType
from tscript.ir.expr import FloatImm, IntImm, PrimExpr
from tscript.ir.index_map import IndexMap
from tscript.ir.ops import DTYPE_FIRST, DTYPE_LAST, script_name
from tscript.printer.core import (
    AND,
    ATOM,
    COMPARISON,
    LAMBDA,
    NOT,
    OR,
    PRODUCT,
    SUM,
    Form,
    Keys,
    Piece,
    Printer,
    prints,
)
from tscript.printer.literal import float_text, quoted

# -- lists of pieces ------------------------------------------------------------------------------


def commas(items: Sequence[Sequence[Piece]]) -> list[Piece]:
    """The items with commas between them."""
    pieces: list[Piece] = []
    for i, item in enumerate(items):
        if i:
            pieces.append(", ")
        pieces.extend(item)
    return pieces


def subs(values: Sequence[Any], *keys: str | int) -> list[list[Piece]]:
    """Each of `values` as an expression, found under `keys` and its index."""
    return [[(v, 0, (*keys, i))] for i, v in enumerate(values)]


def listed(values: Sequence[Any], *keys: str | int) -> list[Piece]:
    """`[a, b]`."""
    return ["[", *commas(subs(values, *keys)), "]"]


def tupled(values: Sequence[Any], *keys: str | int) -> list[Piece]:
    """`(a, b)` or `(a,)`."""
    return ["(", *commas(subs(values, *keys)), ",)" if len(values) == 1 else ")"]


def call(name: str, *args: Sequence[Piece]) -> Form:
    """`name(args)`."""
    return ATOM, [name + "(", *commas(args), ")"]


# -- literals -------------------------------------------------------------------------------------


@prints(IntImm)
def _int_imm(p: Printer, e: IntImm) -> Form:
    if e.dtype is p.options.int_dtype:
        return ATOM, (str(bool(e.value)) if e.dtype.is_bool else str(e.value),)
    value = bool(e.value) if e.dtype.is_bool else e.value
    return ATOM, (f"{p.tir(e.dtype)}({value})",)


@prints(FloatImm)
def _float_imm(p: Printer, e: FloatImm) -> Form:
    text = float_text(e.value)
    if e.dtype is p.options.float_dtype and text[0] != '"':
        return ATOM, (text,)
    return ATOM, (f"{p.tir(e.dtype)}({text})",)


@prints(ex.StringImm)
def _string_imm(p: Printer, e: ex.StringImm) -> Form:
    return ATOM, (p.metadata.add(e) if "\n" in e.value else quoted(e.value),)


@prints(str)
def _str(p: Printer, text: str) -> Form:
    return ATOM, (p.metadata.add(text) if "\n" in text else quoted(text),)


@prints(DataType)
def _dtype(p: Printer, dtype: DataType) -> Form:
    return ATOM, (quoted(dtype),)


@prints(type(None))
def _none(p: Printer, value: None) -> Form:
    return ATOM, ("None",)


@prints(bool, int, float, np.generic)
def _number(p: Printer, value: Any) -> Form:
    return p.form(construct.const(value))


@prints(tuple, list)
def _sequence(p: Printer, values: Sequence[Any]) -> Form:
    return ATOM, listed(values)


@prints(FrozenDict, dict)
def _mapping(p: Printer, values: Mapping[Any, Any]) -> Form:
    keys = list(values)
    if all(isinstance(k, str) for k in keys):
        keys.sort()
    pieces: list[list[Piece]] = [[(k, 0, ("<key>",)), ": ", (values[k], 0, (k,))] for k in keys]
    return ATOM, ["{", *commas(pieces), "}"]


# -- operators ------------------------------------------------------------------------------------

_Build = Callable[[PrimExpr, PrimExpr], PrimExpr]


def _compare(cls: type[ex.CmpExpr]) -> _Build:
    return lambda a, b: construct.compare(cls, a, b)


_OPERATORS: Final[dict[type[PrimExpr], tuple[str, int, _Build]]] = {
    ex.Add: (" + ", SUM, construct.add),
    ex.Sub: (" - ", SUM, construct.sub),
    ex.Mul: (" * ", PRODUCT, construct.mul),
    ex.FloorDiv: (" // ", PRODUCT, construct.floordiv),
    ex.FloorMod: (" % ", PRODUCT, construct.floormod),
    ex.LT: (" < ", COMPARISON, _compare(ex.LT)),
    ex.LE: (" <= ", COMPARISON, _compare(ex.LE)),
    ex.GT: (" > ", COMPARISON, _compare(ex.GT)),
    ex.GE: (" >= ", COMPARISON, _compare(ex.GE)),
    ex.EQ: (" == ", COMPARISON, _compare(ex.EQ)),
    ex.NE: (" != ", COMPARISON, _compare(ex.NE)),
    ex.And: (" and ", AND, construct.and_),
    ex.Or: (" or ", OR, construct.or_),
}
_A: Final[Keys] = ("a",)
_B: Final[Keys] = ("b",)


def _function_form(p: Printer, name: str, e: Any) -> Form:
    return ATOM, (p.tir(name) + "(", (e.a, 0, _A), ", ", (e.b, 0, _B), ")")


@prints(*_OPERATORS)
def _operator(p: Printer, e: ex.BinaryExpr) -> Form:
    symbol, binding, build = _OPERATORS[type(e)]
    if not _reads_back(p, e, build):
        return _function_form(p, type(e).__name__, e)
    left = binding + 1 if binding == COMPARISON and _is_chain_of_bools(p, e.a) else binding
    return binding, ((e.a, left, _A), symbol, (e.b, binding + 1, _B))


def _is_chain_of_bools(p: Printer, e: PrimExpr) -> bool:
    """Whether `e` is a comparison that a further one after it would turn into a chain as Python reads chains.

    `a < b == c` can only mean `(a < b) == c` when `a` and `b` are numbers; when they are bools, Python's
    meaning, `a < b and b == c`, fits too, so the first comparison needs parentheses.
    """
    found = False
    while isinstance(e, ex.CmpExpr) and _reads_back(p, e, _OPERATORS[type(e)][2]):
        found, e = True, e.a
    return found and e.dtype.is_bool


def _reads_back(p: Printer, e: ex.BinaryExpr, build: _Build) -> bool:
    """Whether the operator, applied to the printed operands, gives this node and no other."""
    a, b = e.a, e.b
    if isinstance(e, ex.LogicExpr) and e.dtype.lanes != 1:
        return False  # on vectors `and` means the bitwise operator
    if _is_bare(p, a) and _is_bare(p, b):
        return False  # Python would compute it
    try:
        return build(a, b) is e
    except (TypeError, ValueError, ArithmeticError):
        return False


def _is_bare(p: Printer, e: PrimExpr) -> bool:
    return isinstance(e, (IntImm, FloatImm)) and e.dtype in (p.options.int_dtype, p.options.float_dtype)


@prints(ex.Div)
def _div(p: Printer, e: ex.Div) -> Form:
    if e.dtype.is_float and _reads_back(p, e, construct.div):
        return PRODUCT, ((e.a, PRODUCT, _A), " / ", (e.b, PRODUCT + 1, _B))
    return _function_form(p, "Div", e)


def _named_if_it_reads_back(p: Printer, e: ex.BinaryExpr, name: str, build: _Build) -> Form:
    """`T.min(a, b)`, which folds, or `T.Min(a, b)`, which does not, where folding would give another node."""
    return _function_form(p, name if _reads_back(p, e, build) else type(e).__name__, e)


@prints(ex.Mod)
def _mod(p: Printer, e: ex.Mod) -> Form:
    return _named_if_it_reads_back(p, e, "truncmod", construct.truncmod)


@prints(ex.Min)
def _min(p: Printer, e: ex.Min) -> Form:
    return _named_if_it_reads_back(p, e, "min", construct.min_)


@prints(ex.Max)
def _max(p: Printer, e: ex.Max) -> Form:
    return _named_if_it_reads_back(p, e, "max", construct.max_)


@prints(ex.Not)
def _not(p: Printer, e: ex.Not) -> Form:
    if _is_bare(p, e.a) or e.dtype.lanes != 1:
        return call(p.tir("Not"), [(e.a, 0, _A)])
    return NOT, ("not ", (e.a, NOT, _A))


# -- other nodes ----------------------------------------------------------------------------------


@prints(ex.Cast)
def _cast(p: Printer, e: ex.Cast) -> Form:
    return call(p.tir("Cast"), [quoted(e.dtype)], [(e.value, 0, ("value",))])


@prints(ex.Select)
def _select(p: Printer, e: ex.Select) -> Form:
    fields = ("condition", "true_value", "false_value")
    return call(p.tir("Select"), *([(getattr(e, f), 0, (f,))] for f in fields))


@prints(ex.Ramp)
def _ramp(p: Printer, e: ex.Ramp) -> Form:
    return call(p.tir("Ramp"), [(e.base, 0, ("base",))], [(e.stride, 0, ("stride",))], [str(e.lanes)])


@prints(ex.Broadcast)
def _broadcast(p: Printer, e: ex.Broadcast) -> Form:
    return call(p.tir("Broadcast"), [(e.value, 0, ("value",))], [str(e.lanes)])


@prints(ex.Shuffle)
def _shuffle(p: Printer, e: ex.Shuffle) -> Form:
    return call(p.tir("Shuffle"), listed(e.vectors, "vectors"), listed(e.indices, "indices"))


@prints(ex.Let)
def _let(p: Printer, e: ex.Let) -> Form:
    where: list[Piece] = ["where={", (e.var, 0, ("var",)), ": ", (e.value, 0, ("value",)), "}"]
    return call(p.tir("Let"), [(e.body, 0, ("body",))], where)


@prints(ex.Call)
def _call(p: Printer, e: ex.Call) -> Form:
    args: list[list[Piece]] = subs(e.args, "args")
    if isinstance(e.op, ex.GlobalVar):
        return ATOM, [p.functions.get(e.op, e.op.name_hint), "(", *commas(args), ")"]
    if not _call_reads_back(e):
        return call(p.tir("call_intrin"), [quoted(e.dtype)], [quoted(e.op.name)], *args)
    if e.op.name in DTYPE_FIRST:
        args.insert(0, [quoted(e.dtype)])
    elif e.op.name in DTYPE_LAST:
        args.append([quoted(e.dtype)])
    return call(p.tir(script_name(e.op)), *args)


_FOLDING: Final[dict[str, Callable[..., PrimExpr]]] = {
    "tir.bitwise_and": construct.bitwise_and,
    "tir.bitwise_or": construct.bitwise_or,
    "tir.bitwise_xor": construct.bitwise_xor,
    "tir.shift_left": construct.shift_left,
    "tir.shift_right": construct.shift_right,
    "tir.if_then_else": construct.if_then_else,
}
"""Calls whose function in `T` folds constants or promotes."""


def _call_reads_back(e: ex.Call) -> bool:
    """Whether the function of `T`, applied to the printed operands, gives this node and no other."""
    build = _FOLDING.get(e.op.name) if isinstance(e.op, ex.Op) else None
    if build is None:
        return True
    try:
        return build(*e.args) is e
    except (TypeError, ValueError, ArithmeticError):
        return False


@prints(ex.GlobalVar)
def _global_var(p: Printer, v: ex.GlobalVar) -> Form:
    return call(p.ir("GlobalVar"), [quoted(v.name_hint)])


@prints(ex.Op)
def _op(p: Printer, op: ex.Op) -> Form:
    return call(p.ir("Op"), [quoted(op.name)])


@prints(ex.ProducerLoad)
def _producer_load(p: Printer, e: ex.ProducerLoad) -> Form:
    name: str = getattr(e.producer, "name", None) or "tensor"
    return ATOM, [name, "[", *(commas(subs(e.indices, "indices")) if e.indices else ["()"]), "]"]


@prints(ex.Range)
def _range(p: Printer, r: ex.Range) -> Form:
    return call(p.tir("Range"), [(r.min, 0, ("min",))], [(construct.add(r.min, r.extent), 0, ("extent",))])


@prints(ex.IterVar)
def _iter_var(p: Printer, v: ex.IterVar) -> Form:
    kind = quoted(v.KIND_NAMES[v.iter_type])
    return call(p.tir("iter_var"), [(v.var, 0, ("var",))], [(v.dom, 0, ("dom",))], [kind], [quoted(v.thread_tag)])


def _lambda(p: Printer, variables: Sequence[ex.Var], results: Sequence[Piece], binding: int) -> list[Piece]:
    """A lambda printed at once, since the names of its variables end with it."""
    frame = p.frame(deeper=False)
    names = [p.define_var(v, frame) for v in variables]
    p.push(frame)
    body = p.text(results)
    p.pop()
    return [f"lambda {', '.join(names)}: ", body]


@prints(ex.CommReducer)
def _comm_reducer(p: Printer, r: ex.CommReducer) -> Form:
    results: list[Piece] = [(r.result[0], LAMBDA, ())] if len(r.result) == 1 else tupled(r.result)
    body = _lambda(p, (*r.lhs, *r.rhs), results, LAMBDA)
    return call(p.tir("comm_reducer"), body, listed(r.identity_element, "identity_element"))


@prints(ex.Reduce)
def _reduce(p: Printer, e: ex.Reduce) -> Form:
    lists: list[list[Piece]] = [[f"{f}=", *listed(getattr(e, f), f)] for f in ("source", "init", "axis")]
    condition: list[Piece] = ["condition=", (e.condition, 0, ("condition",))]
    return call(p.tir("reduce"), [(e.combiner, 0, ("combiner",))], *lists, condition, [f"value_index={e.value_index}"])


def _map_function(p: Printer, m: IndexMap) -> list[Piece]:
    return _lambda(p, m.initial_indices, tupled(m.final_indices), LAMBDA)


@prints(IndexMap)
def _index_map(p: Printer, m: IndexMap) -> Form:
    args = [_map_function(p, m)]
    if m.inverse_index_map is not None:
        args.append(["inverse_index_map=", *_map_function(p, m.inverse_index_map)])
    return call(p.tir("index_map"), *args)


# -- types ----------------------------------------------------------------------------------------


@prints(ex.PrimType)
def _prim_type(p: Printer, t: ex.PrimType) -> Form:
    return ATOM, (p.tir(t.dtype),)


@prints(ex.PointerType)
def _pointer_type(p: Printer, t: ex.PointerType) -> Form:
    element: Any = t.element_type
    element = element.dtype if isinstance(element, ex.PrimType) else element
    scope: list[list[Piece]] = [[quoted(t.storage_scope)]] if t.storage_scope else []
    return call(p.tir("handle"), [(element, 0, ("element_type",))], *scope)


@prints(ex.TupleType)
def _tuple_type(p: Printer, t: ex.TupleType) -> Form:
    return call(p.tir("Tuple"), *subs(t.fields, "fields")) if t.fields else (ATOM, ("None",))


def creation(p: Printer, var: ex.Var) -> list[Piece]:
    """The call that makes a variable like `var`."""
    size = ["is_size_var=True"] if isinstance(var, ex.SizeVar) else []
    if isinstance(var.type_annotation, ex.PointerType):
        _, pieces = _pointer_type(p, var.type_annotation)
        return [*pieces[:-1], *(f", {s}" for s in size), ")"]
    return [f"{p.tir(var.dtype)}({''.join(size)})"]


@prints(ex.Var)
def _var(p: Printer, var: ex.Var) -> Form:
    known = p.variables.get(var)
    if known is None:
        frame = p.home(var)
        known = p.define_var(var, frame)
        frame.lines.append(p.line([p.named(var, known), " = ", *creation(p, var)], frame=frame))
    return ATOM, (known,)
