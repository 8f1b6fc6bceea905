"""Expressions of kernel source, evaluated on the syntax tree.

Every sub-expression is a Python value; where an operand is an expression of the IR, the result is one.
Comparisons, `and`, `or` and `not` of such operands make nodes and are not folded.

A chain `a < b < c` means what it means in Python, `a < b and b < c`. There is one exception. Printed text
of TVM writes `(a < b) == c`, with a bool `c`, as `a < b == c`. So when the chain does not fit as Python
reads it, because one of its pairs compares a bool with a value that is no bool, and does fit when nested
to the left (each result of a comparison beside a bool), it is nested to the left. Chains of bools alone
fit both ways and are read as in Python.
"""

from __future__ import annotations

import ast
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer, subscript
from tscript.ir.construct import compare_operands, convert, match_lanes
from tscript.ir.expr import PrimExpr
from tscript.ir.stmt import BufferRegion
from tscript.parser.arguments import (
    is_ours,
    refuse_arguments,
    refuse_buffers,
    refuse_call,
    refuse_operands,
    refuse_subscript,
)
from tscript.parser.blocks import reads, writes
from tscript.parser.buffers import match_buffer
from tscript.parser.control import argument, operand, realize, region_as_vector
from tscript.parser.diagnostics import at_span, close_matches, fail, full_traceback
from tscript.parser.scope import Scope
from tscript.parser.source import Source
from tscript.support.errors import ScriptError
from tscript.support.wording import kind_of

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.Pow: lambda a, b: a**b,
    ast.MatMult: lambda a, b: a @ b,
}
_COMPARE: Final[dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], type[ex.CmpExpr] | None]]] = {
    ast.Eq: (operator.eq, ex.EQ),
    ast.NotEq: (operator.ne, ex.NE),
    ast.Lt: (operator.lt, ex.LT),
    ast.LtE: (operator.le, ex.LE),
    ast.Gt: (operator.gt, ex.GT),
    ast.GtE: (operator.ge, ex.GE),
    ast.Is: (operator.is_, None),
    ast.IsNot: (operator.is_not, None),
    ast.In: (lambda a, b: a in b, None),
    ast.NotIn: (lambda a, b: a not in b, None),
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
_NUMBERS: Final = (bool, int, float, np.generic)
_VALUES: Final = (PrimExpr, *_NUMBERS)
_NO_EXPRESSION: Final = {
    ast.NamedExpr: ("an assignment inside an expression (`:=`)", "assign on a line of its own"),
    ast.Await: ("`await`", "kernels have no coroutines"),
    ast.Yield: ("`yield`", "write results to a buffer"),
    ast.YieldFrom: ("`yield from`", "write results to a buffer"),
}
# These take regions as they are; other functions of `T` get the elements of a slice as a vector.
_TAKES_REGIONS: Final[dict[Any, None]] = dict.fromkeys((reads, writes, match_buffer, realize))


class StatementOnly:
    """Base of what may be called only as a statement of its own."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Add statements to the kernel being read."""
        raise NotImplementedError


def binary(op: type[ast.operator], left: Any, right: Any) -> Any:
    """`left op right`; a region without a step counts as the vector of its elements."""
    if isinstance(left, BufferRegion):
        left = region_as_vector(left)
    if isinstance(right, BufferRegion):
        right = region_as_vector(right)
    # NumPy would take an expression for an object array.
    if isinstance(left, np.generic) and isinstance(right, PrimExpr):
        left = convert(left)
    if isinstance(right, np.generic) and isinstance(left, PrimExpr):
        right = convert(right)
    try:
        return _BINARY[op](left, right)
    except TypeError as e:
        if op in (ast.Pow, ast.MatMult) and (isinstance(left, PrimExpr) or isinstance(right, PrimExpr)):
            sign, hint = ("**", "use T.pow(x, y)") if op is ast.Pow else ("@", "write the loops of the product")
            fail(f"`{sign}` does not work on values of a kernel", None, hint)
        refuse_operands(e, op, left, right)
        raise


def compare(op: type[ast.cmpop], left: Any, right: Any) -> Any:
    """`left op right`: a node without folding if an operand is an expression, else Python's result."""
    method, node = _COMPARE[op]
    left, right = operand(left), operand(right)

    def python(left: Any, right: Any) -> Any:
        try:
            return method(left, right)
        except TypeError as e:
            refuse_operands(e, op, left, right)
            raise

    if node is not None and (isinstance(left, _VALUES) or isinstance(right, _VALUES)):
        # Python would find a buffer and a number unequal, and so decide a branch.
        refuse_buffers(op, left, right)
    if op in (ast.In, ast.NotIn):
        _require_decided(left, right)
    values = isinstance(left, _VALUES) and isinstance(right, _VALUES)
    if node is None or not values or not (isinstance(left, PrimExpr) or isinstance(right, PrimExpr)):
        return python(left, right)
    if isinstance(left, PrimExpr) and isinstance(right, PrimExpr):
        a, b = match_lanes(left, right)
        if a.dtype is not b.dtype:
            fail(
                f"a comparison of {a.dtype!s} with {b.dtype!s}",
                None,
                f'convert one side, as in T.Cast("{b.dtype!s}", ...)',
            )
    else:
        a, b = compare_operands(_plain(left), _plain(right))
    return node(a, b)


def _require_decided(value: Any, container: Any) -> None:
    """Refuse `value in container` where elements would have to be compared when the program runs."""
    elements: list[Any] = [*container] if isinstance(container, (list, tuple, set, frozenset, range)) else []
    unknown = any(
        (isinstance(value, PrimExpr) and not (isinstance(value, ex.Var) and isinstance(e, PrimExpr)) and e is not value)
        or (isinstance(e, PrimExpr) and isinstance(value, _NUMBERS))
        for e in elements
        if isinstance(e, (PrimExpr, *_NUMBERS))
    )
    if unknown:
        fail("`in` cannot compare values of a kernel", None, "write out the comparisons, as in `x == 1 or x == 2`")


def _plain(value: Any) -> Any:
    number: Any = value
    return number.item() if isinstance(value, np.generic) else number


def _is_bool(value: Any) -> bool:
    return value.dtype.is_bool if isinstance(value, PrimExpr) else isinstance(value, (bool, np.bool_))


def compare_chain(ops: list[type[ast.cmpop]], values: list[Any]) -> Any:
    """A chain of comparisons, read as the module's docstring says."""
    values = [operand(v) for v in values]
    bools = [_is_bool(v) for v in values]
    if any(isinstance(v, PrimExpr) for v in values) and all(_COMPARE[op][1] for op in ops):
        as_python = all(a == b for a, b in itertools.pairwise(bools))
        if not as_python and bools[0] == bools[1] and all(bools[2:]):
            result = compare(ops[0], values[0], values[1])
            for op, value in zip(ops[1:], values[2:], strict=True):
                result = compare(op, result, value)
            return result
    result: Any = True
    for op, a, b in zip(ops, values, values[1:], strict=False):
        part = compare(op, a, b)
        result = part if result is True else logical(ast.And, result, part)
        if not isinstance(result, PrimExpr) and not result:
            return result
    return result


def logical(op: type[ast.boolop], left: Any, right: Any) -> Any:
    """`left and right` or `left or right` where one of them is an expression: a node without folding."""
    a, b = match_lanes(convert(operand(left)), convert(operand(right)))
    for side in (a, b):
        if not side.dtype.is_bool:
            word = "and" if op is ast.And else "or"
            fail(f"`{word}` takes bools, not {side.dtype!s}", None, "compare the value, as in `x != 0`")
    if a.dtype.lanes > 1:
        return a & b if op is ast.And else a | b
    return ex.And(a, b) if op is ast.And else ex.Or(a, b)


class Evaluator:
    """Evaluates expressions of one source in one scope; errors carry the position of the sub-expression."""

    __slots__ = ("allowed_call", "scope", "source", "values")

    def __init__(self, source: Source, scope: Scope) -> None:
        self.source = source
        self.scope = scope
        self.values = scope.values
        self.allowed_call: ast.expr | None = None

    def eval(self, node: Any) -> Any:
        """The value of an expression. Raises ScriptError, with its position, for whatever goes wrong."""
        try:
            return _TABLE[type(node)](self, node)
        except ScriptError as e:
            if e.span is None:
                e.span = self.source.span(node)
            raise
        except Exception as e:
            raise at_span(e, self.source.span(node)) from (e if full_traceback() else None)

    def eval_value(self, node: ast.expr) -> Any:
        """The value of the right side of an assignment: a slice means the vector of its elements."""
        value = self.eval(node)
        if isinstance(value, BufferRegion):
            try:
                return region_as_vector(value)
            except (TypeError, ValueError) as e:
                raise at_span(e, self.source.span(node)) from None
        return value

    # -- leaves ---------------------------------------------------------------------------------

    def visit_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def visit_Name(self, node: ast.Name) -> Any:
        binding = self.values.get(node.id)
        return binding.value if binding is not None else self.scope.lookup(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.eval(node.value)
        try:
            return getattr(owner, node.attr)
        except AttributeError as e:
            if getattr(e, "obj", owner) is not owner:
                raise
            name = ast.unparse(node.value)
            hint = close_matches(node.attr, [n for n in dir(owner) if not n.startswith("_")])
            fail(f"`{name}` ({kind_of(owner)}) has no attribute `{node.attr}`", None, hint)

    # -- operators ------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        # A sum of many terms leans to the left; going down there in a loop keeps it off the Python stack.
        pending = [node]
        while isinstance(node.left, ast.BinOp):
            node = node.left
            pending.append(node)
        result = self.eval(node.left)
        for inner in reversed(pending):
            right = self.eval(inner.right)
            try:
                result = binary(type(inner.op), result, right)
            except Exception as e:
                raise at_span(e, self.source.span(inner)) from (e if full_traceback() else None)
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = operand(self.eval(node.operand))
        if isinstance(node.op, ast.Not):
            refuse_buffers(ast.Not, value)
            if not isinstance(value, PrimExpr):
                return not value
            if not value.dtype.is_bool:
                fail(f"`not` takes a bool, not {value.dtype!s}", None, "compare the value, as in `x == 0`")
            return ex.Not(value)
        if isinstance(node.op, ast.UAdd) and isinstance(value, PrimExpr):
            fail("`+x` does not work on values of a kernel", None, "leave out the sign")
        try:
            return _UNARY[type(node.op)](value)
        except TypeError as e:
            refuse_operands(e, type(node.op), value)
            raise

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        kind = type(node.op)
        result = operand(self.eval(node.values[0]))
        refuse_buffers(kind, result)
        for following in node.values[1:]:
            if isinstance(result, PrimExpr):
                result = logical(kind, result, self.eval(following))
            elif bool(result) is (kind is ast.Or):
                return result
            else:
                result = operand(self.eval(following))
        return result

    def visit_Compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        if len(node.ops) == 1:
            return compare(type(node.ops[0]), left, self.eval(node.comparators[0]))
        return compare_chain([type(op) for op in node.ops], [left, *(self.eval(c) for c in node.comparators)])

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        test = self.eval(node.test)
        if isinstance(test, (PrimExpr, BufferRegion)):
            fail(
                "`x if c else y` needs a condition that is known while the kernel is read",
                None,
                "use T.if_then_else(c, x, y), or T.Select(c, x, y) when both may be evaluated",
            )
        return self.eval(node.body if test else node.orelse)

    # -- subscripts -----------------------------------------------------------------------------

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.eval(node.value)
        key = self.key(node.slice)
        if isinstance(owner, Buffer):
            return subscript(owner, key)
        if not hasattr(owner, "__getitem__") and not hasattr(owner, "__class_getitem__"):
            refuse_subscript(ast.unparse(node.value), owner)
        return owner[key]

    def key(self, node: ast.expr) -> Any:
        """The key of a subscript: values, slices, or a tuple of them. A region is the vector of its elements."""
        if isinstance(node, ast.Tuple):
            return tuple(operand(e) for e in self._elements(node.elts))
        return operand(self.eval(node))

    def visit_Slice(self, node: ast.Slice) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if p is None else self.eval(p) for p in parts))

    # -- calls ----------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> Any:
        function = self.eval(node.func)
        args, kwargs = self.call_arguments(node, function)
        if isinstance(function, StatementOnly) and node is not self.allowed_call:
            fail("a macro has no value; it stands on a line of its own", None, "write the result to a buffer in it")
        if not callable(function):
            refuse_call(ast.unparse(node.func), function)
        try:
            return function(*args, **kwargs)
        except ScriptError:
            raise
        except Exception as e:
            refuse_arguments(e, ast.unparse(node.func), function, args, kwargs)
            raise

    def call_arguments(self, node: ast.Call, function: Any) -> tuple[list[Any], dict[str, Any]]:
        """Arguments of a call, as `function` takes them: vectors instead of slices for most of `T`."""
        args = list(self._elements(node.args)) if node.args else []
        kwargs: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.eval(keyword.value)
            if keyword.arg is None:
                kwargs.update(value)
            elif keyword.arg in kwargs:
                fail(f"{keyword.arg} is given twice")
            else:
                kwargs[keyword.arg] = value
        if is_ours(function) and not _takes_regions(function):
            args = [argument(a) for a in args]
            kwargs = {k: argument(v) for k, v in kwargs.items()}
        return args, kwargs

    def _elements(self, nodes: list[ast.expr]) -> Iterator[Any]:
        for n in nodes:
            if isinstance(n, ast.Starred):
                yield from self.eval(n.value)
            else:
                yield self.eval(n)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        names = {n.id: None for n in ast.walk(node) if isinstance(n, ast.Name)}
        missing = object()
        found = {n: v for n in names if (v := self.scope.find(n, missing)) is not missing}
        code = compile(ast.fix_missing_locations(ast.Expression(node)), self.source.file, "eval")
        return eval(code, found)

    # -- displays -------------------------------------------------------------------------------

    def visit_Tuple(self, node: ast.Tuple) -> Any:
        return tuple(self._elements(node.elts))

    def visit_List(self, node: ast.List) -> Any:
        return list(self._elements(node.elts))

    def visit_Set(self, node: ast.Set) -> Any:
        return set(self._elements(node.elts))

    def visit_Dict(self, node: ast.Dict) -> Any:
        result: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                result.update(self.eval(value))
            else:
                result[self.eval(key)] = self.eval(value)
        return result

    def visit_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.eval(part)) for part in node.values)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.eval(node.value)
        convert_by = {115: str, 114: repr, 97: ascii}.get(node.conversion)
        if convert_by is not None:
            value = convert_by(value)
        return format(value, self.eval(node.format_spec) if node.format_spec is not None else "")

    # -- comprehensions -------------------------------------------------------------------------

    def _comprehend(self, generators: list[ast.comprehension], make: Callable[[], None]) -> None:
        if not generators:
            make()
            return
        first, rest = generators[0], generators[1:]
        for value in self.eval(first.iter):
            self.scope.push("comprehension")
            try:
                self._define(first.target, value)
                if all(self.eval(c) for c in first.ifs):
                    self._comprehend(rest, make)
            finally:
                self.scope.forget()

    def _define(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.scope.define(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)) and not any(isinstance(t, ast.Starred) for t in target.elts):
            for t, v in zip(target.elts, value, strict=True):
                self._define(t, v)
        else:
            fail("a comprehension binds plain names", self.source.span(target))

    def visit_ListComp(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        result: list[Any] = []
        self._comprehend(node.generators, lambda: result.append(self.eval(node.elt)))
        return result

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Iterator[Any]:
        return iter(self.visit_ListComp(node))

    def visit_SetComp(self, node: ast.SetComp) -> set[Any]:
        result: set[Any] = set()
        self._comprehend(node.generators, lambda: result.add(self.eval(node.elt)))
        return result

    def visit_DictComp(self, node: ast.DictComp) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        self._comprehend(node.generators, lambda: result.update({self.eval(node.key): self.eval(node.value)}))
        return result

    def refuse(self, node: ast.expr) -> Any:
        """Raise for an expression that kernels do not have."""
        what, hint = _NO_EXPRESSION[type(node)]  # pyright: ignore[reportArgumentType]
        fail(f"{what} is no part of the kernel language", None, hint)

    def visit_Starred(self, node: ast.Starred) -> Any:
        fail("`*` stands before an argument or an element of a list")


def _takes_regions(function: Any) -> bool:
    try:
        return function in _TAKES_REGIONS or isinstance(function, StatementOnly)
    except TypeError:
        return False


_TABLE: Final[dict[type[ast.AST], Callable[[Evaluator, Any], Any]]] = {
    **{getattr(ast, name[6:]): method for name, method in vars(Evaluator).items() if name.startswith("visit_")},
    **dict.fromkeys(_NO_EXPRESSION, Evaluator.refuse),
}
