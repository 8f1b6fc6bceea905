"""Expressions to instructions.

Values are remembered while they stay true: pure ones as long as the block they were computed in dominates,
loads until the next store. Expressions are walked with an explicit stack, so that deep ones are no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from tscript.codegen.llvm import arith, float_vectors, memory
from tscript.codegen.llvm.builder import Builder, Failure, ModuleText
from tscript.codegen.llvm.classify import DIVISIONS, Classifier, Doing, constant_divisor
from tscript.codegen.llvm.intrinsics import HANDLERS, refusal_hint
from tscript.codegen.llvm.memory import Place
from tscript.codegen.llvm.types import constant, int_const, int_vector, register_type, zero
from tscript.codegen.statements import with_place
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import BufferLoad, Call, GlobalVar, IntImm, Op, PrimExpr, Ramp, Var
from tscript.ir.functor import children
from tscript.ir.stmt import Stmt
from tscript.support.errors import BuildError
from tscript.support.wording import kind_of

_INDEX_CLASSES = (ex.Add, ex.Sub, ex.Mul, ex.Cast)


class _Scope:
    __slots__ = ("indices", "loads", "same_memory", "values")

    def __init__(self, same_memory: bool = False) -> None:
        # Whether memory is, where the scope starts, as it was around it: so in a branch, not in a loop.
        self.same_memory = same_memory
        self.values: dict[PrimExpr, str] = {}
        self.indices: dict[PrimExpr, str] = {}
        self.loads: dict[PrimExpr, str] = {}


class ExpressionEmitter:
    """Emits the expressions of one function."""

    def __init__(self, module: ModuleText, name: str) -> None:
        self.b = Builder(module)
        self.name = name
        self.stmt: Stmt | None = None
        self.vars: dict[Var, str] = {}
        self.wide_vars: dict[Var, str] = {}
        self._bound: dict[Var, None] = {}
        self.classify = Classifier()
        self._scopes = [_Scope()]

    # -- what statements provide -----------------------------------------------------------------

    def fail_unless(self, condition: str, failure: Failure) -> None:
        """Leave the kernel with `failure` unless the i1 `condition` holds."""
        raise NotImplementedError

    def emit_return(self, e: PrimExpr) -> None:
        """Leave the kernel with a value."""
        raise NotImplementedError

    def call_function(self, call: Call, callee: GlobalVar) -> str:
        """Call another function of the module."""
        raise NotImplementedError

    def refuse(self, what: str, hint: str) -> BuildError:
        """The error that says that `what`, in the current statement, has no native code."""
        text = with_place(f"{self.name}: there is no native code for {what}", self.stmt)
        return BuildError(f"{text}\n  try: {hint}")

    # -- variables -------------------------------------------------------------------------------

    def bind(self, var: Var, value: str) -> None:
        """Give `var` a value, until `release`. Values are remembered by expression, so it may have only one."""
        if var in self._bound:
            raise self.refuse(
                f"the variable {var.name}, which is bound again inside its own scope",
                "give the inner one a variable of its own",
            )
        self._bound[var] = None
        self.vars[var] = value

    def release(self, var: Var) -> None:
        """The scope of `var` ends."""
        del self._bound[var]

    # -- remembered values -----------------------------------------------------------------------

    def push_scope(self, same_memory: bool = False) -> None:
        """Start a region of code that may not run, or run again: what it computes is forgotten at its end.

        `same_memory`: it does not run again, so what was loaded before it still holds.
        """
        self._scopes.append(_Scope(same_memory))

    def pop_scope(self) -> None:
        """End the innermost region."""
        self._scopes.pop()

    def memory_changed(self) -> None:
        """Forget what was loaded."""
        for scope in self._scopes:
            scope.loads.clear()

    def _find(self, e: PrimExpr) -> str | None:
        if isinstance(e, Var):
            return self.vars.get(e)
        scopes = self._scopes
        for scope in reversed(scopes):
            found = scope.loads.get(e)
            if found is not None:
                return found
            if not scope.same_memory:
                break
        for scope in reversed(scopes):
            found = scope.values.get(e)
            if found is not None:
                return found
        return None

    def value(self, e: PrimExpr) -> str:
        """The operand that holds the value of `e`."""
        if self.classify(e) & Doing.EFFECT:
            return self._emit(e)
        found = self._find(e)
        if found is not None:
            return found
        stack: list[tuple[PrimExpr, bool]] = [(e, False)]
        while stack:
            node, ready = stack.pop()
            if self._find(node) is not None:
                continue
            if ready:
                result = self._emit(node)
                scope = self._scopes[-1]
                (scope.loads if self.classify(node) & Doing.READS else scope.values)[node] = result
            else:
                stack.append((node, True))
                fused = self._fused_product(node)
                below = _eager_children(node) if fused is None else (fused[0].a, fused[0].b, fused[1])
                stack.extend((c, False) for c in below)
        result = self._find(e)
        assert result is not None
        return result

    def _emit(self, e: PrimExpr) -> str:
        handler = self._table.get(type(e))
        if handler is None:
            raise self.refuse(f"{kind_of(e)}", "lower the program first")
        return handler(self, e)

    # -- indices ---------------------------------------------------------------------------------

    def index(self, e: PrimExpr) -> str:
        """The value of a scalar integer as an i64. Sums and products are computed in 64 bits."""
        passing: list[PrimExpr] = []
        stack: list[tuple[PrimExpr, bool]] = [(e, False)]
        while stack:
            node, ready = stack.pop()
            if self._find_index(node) is not None:
                continue
            wide = isinstance(node, _INDEX_CLASSES) and _is_index_type(node)
            if ready or not wide:
                self._scopes[-1].indices[node] = self._wide(node) if wide else self._extended(node)
                if self.classify(node) & (Doing.READS | Doing.EFFECT):
                    passing.append(node)
            else:
                stack.append((node, True))
                stack.extend((c, False) for c in children(node) if isinstance(c, PrimExpr))
        result = self._find_index(e)
        assert result is not None
        for node in passing:
            # What was loaded may change; within one index it does not.
            del self._scopes[-1].indices[node]
        return result

    def _find_index(self, e: PrimExpr) -> str | None:
        if isinstance(e, IntImm):
            return str(e.value)
        found = self.wide_vars.get(e) if isinstance(e, Var) else None
        if found is not None:
            return found
        for scope in reversed(self._scopes):
            found = scope.indices.get(e)
            if found is not None:
                return found
        return None

    def _wide(self, e: Any) -> str:
        if isinstance(e, ex.Cast):
            return self.index(e.value)
        op = {ex.Add: "add", ex.Sub: "sub", ex.Mul: "mul"}[type(e)]
        return self.b.let(f"{op} nsw i64 {self.index(e.a)}, {self.index(e.b)}")

    def _extended(self, e: PrimExpr) -> str:
        value, dtype = self.value(e), e.dtype
        if dtype.bits == 64:
            return value
        return self.b.let(f"{'sext' if dtype.is_int else 'zext'} {register_type(dtype)} {value} to i64")

    # -- places in memory ------------------------------------------------------------------------

    def place(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Place:
        """Where the elements of a flat buffer lie."""
        base = self.value(buffer.data)
        if not indices:
            return Place(base, buffer.dtype, "0")
        if len(indices) != 1:
            raise self.refuse(f"an access to {buffer.name}, which has {len(indices)} dimensions",
                              "lower the program first")  # fmt: skip
        index = indices[0]
        lanes = index.dtype.lanes
        if lanes == 1:
            return Place(base, buffer.dtype, self.index(index))
        if isinstance(index, Ramp) and index.base.dtype.lanes == 1 and isinstance(index.stride, IntImm):
            start, step = self.index(index.base), index.stride.value
            if step == 1 or (step == -1 and buffer.dtype.lanes == 1):
                return Place(base, buffer.dtype, start, lanes, step)
            steps = "<" + ", ".join(f"i64 {step * i}" for i in range(lanes)) + ">"
            wide = int_vector(64, lanes)
            each = self.b.let(f"add nsw {wide} {self.b.splat('i64', start, lanes)}, {steps}")
            return Place(base, buffer.dtype, "", lanes, each=each)
        vector, wide = self.value(index), int_vector(64, lanes)
        t = register_type(index.dtype)
        if index.dtype.bits != 64:
            vector = self.b.let(f"{'sext' if index.dtype.is_int else 'zext'} {t} {vector} to {wide}")
        return Place(base, buffer.dtype, "", lanes, each=vector)

    def buffer_pointer(self, load: BufferLoad) -> str:
        """The address of an element."""
        place = self.place(load.buffer, load.indices)
        start = place.start or self.b.extract(int_vector(64, place.count), place.each, 0)
        return memory.pointer(self.b, place.base, place.element, start)

    def load_bits(self, load: BufferLoad) -> str:
        """A load, as memory holds it."""
        place = self.place(load.buffer, load.indices)
        if load.predicate is None:
            return memory.load(self.b, place)
        return self._load_where(place, load.predicate)

    def _load_where(self, place: Place, predicate: PrimExpr) -> str:
        """Lanes whose predicate is false are not touched and read as 0."""
        mask = self.value(predicate)
        if place.count > 1 and place.element.lanes == 1:
            return memory.load(self.b, place, self.lanes_of(predicate, mask, place.count))
        whole = memory.memory_type(place.dtype)
        none = "zeroinitializer" if place.dtype.lanes > 1 else "0"
        parts: list[str] = []
        for n, one in enumerate(memory.singles(self.b, place)):
            bit = mask if predicate.dtype.lanes == 1 else self.b.extract(register_type(predicate.dtype), mask, n)
            scalar = memory.memory_type(one.dtype)
            null = "zeroinitializer" if one.dtype.lanes > 1 else "0.0" if scalar in ("float", "double") else "0"
            parts.append(self.either(bit, scalar, lambda one=one: memory.load(self.b, one), lambda null=null: null))
        if place.count == 1:
            return parts[0]
        value = none
        for n, part in enumerate(parts):
            if place.element.lanes != 1:
                raise self.refuse("a masked load of vector elements", "use a buffer of scalars")
            value = self.b.insert(whole, value, memory.memory_scalar(place.element), part, n)
        return value

    def lanes_of(self, predicate: PrimExpr, mask: str, count: int) -> str:
        """The value `mask` of a predicate, which may be one for all `count` lanes, as a bit for each lane."""
        return mask if predicate.dtype.lanes == count else self.b.splat("i1", mask, count)

    def either(self, condition: str, type_text: str, then: Callable[[], str], otherwise: Callable[[], str]) -> str:
        """The value of one of two emitters; only the chosen one's code runs."""
        b = self.b
        yes, no, end = b.new_label("then"), b.new_label("else"), b.new_label("end")
        b.branch(condition, yes, no)
        results: list[tuple[str, str]] = []
        for label, emit in ((yes, then), (no, otherwise)):
            b.begin(label)
            self.push_scope(same_memory=True)
            result = emit()
            self.pop_scope()
            results.append((result, b.label))
            b.jump(end)
        b.begin(end)
        return b.let(f"phi {type_text} " + ", ".join(f"[ {v}, %{at} ]" for v, at in results))

    # -- node classes ----------------------------------------------------------------------------

    def _imm(self, e: Any) -> str:
        return constant(e.dtype, e.value)

    def _string(self, e: ex.StringImm) -> str:
        data = e.value.encode() + b"\0"
        text = "".join(f"\\{c:02X}" for c in data)
        return self.b.module.add_constant(f"[{len(data)} x i8]", f'c"{text}"')

    def _var(self, e: Var) -> str:
        raise self.refuse(f"the variable {e.name}, which is not bound here", "bind it by a parameter, a loop or a let")

    def _fused_product(self, e: PrimExpr) -> tuple[ex.Mul, PrimExpr] | None:
        """The product in a sum or difference that is rounded together with it, and the other side."""
        if not self.b.contracts or not isinstance(e, (ex.Add, ex.Sub)) or not e.dtype.is_float or e.dtype.bits < 32:
            return None
        # Of two products, the one on the right: sums that go on stand on the left.
        for product, other in ((e.b, e.a), (e.a, e.b)):
            if isinstance(product, ex.Mul):
                return product, other
        return None

    def _binary(self, e: Any) -> str:
        kind, dtype = type(e).__name__, e.a.dtype
        fused = self._fused_product(e)
        if fused is not None:
            product, other = fused
            negate = "" if kind == "Add" else "z" if other is e.b else "x"
            x, y, z = self.value(product.a), self.value(product.b), self.value(other)
            return arith.fused(self.b, dtype, x, y, z, negate)
        x, y = self.value(e.a), self.value(e.b)
        divisor = None
        if isinstance(e, DIVISIONS) and not dtype.is_float:
            divisor = constant_divisor(e.b)
            if not divisor:
                self._require_nonzero(dtype, y)
        quick: str | None = None
        if kind == "Div" and isinstance(e.b, ex.Broadcast):
            quick = float_vectors.quotient(self.b, dtype, x, self.value(e.b.value))
        elif kind in ("Max", "Min"):
            quick = float_vectors.extreme(self.b, kind, dtype, x, y)
        if quick is not None:
            return quick
        return arith.binary(self.b, kind, dtype, x, y, divisor)

    def _require_nonzero(self, dtype: DataType, y: str) -> None:
        t = register_type(dtype)
        ok = self.b.let(f"icmp ne {t} {y}, {zero(dtype)}")
        if dtype.lanes != 1:
            i1s = int_vector(1, dtype.lanes)
            ok = self.b.call("i1", f"llvm.vector.reduce.and.{arith.mangled(i1s)}", [(i1s, ok)])
        self.fail_unless(ok, Failure("division", "division by zero", self.stmt))

    def _compare(self, e: Any) -> str:
        return arith.compare(self.b, type(e).__name__, e.a.dtype, self.value(e.a), self.value(e.b))

    def _logic(self, e: Any) -> str:
        is_and = isinstance(e, ex.And)
        t = register_type(e.dtype)
        if e.dtype.lanes == 1 and self.classify(e.b):
            # The right side may read or divide what the left side guards.
            x = self.value(e.a)
            rest = lambda: self.value(e.b)
            return self.either(x, t, rest, lambda: "false") if is_and else self.either(x, t, lambda: "true", rest)
        return self.b.let(f"{'and' if is_and else 'or'} {t} {self.value(e.a)}, {self.value(e.b)}")

    def _not(self, e: ex.Not) -> str:
        return self.b.let(f"xor {register_type(e.dtype)} {self.value(e.a)}, {int_const(1, 1, e.dtype.lanes)}")

    def _cast(self, e: ex.Cast) -> str:
        return arith.convert(self.b, e.value.dtype, e.dtype, self.value(e.value))

    def _select(self, e: ex.Select) -> str:
        t, c = register_type(e.dtype), register_type(e.condition.dtype)
        if e.condition.dtype.lanes == 1 and (self.classify(e.true_value) or self.classify(e.false_value)):
            return self._lazy(e.condition, t, e.true_value, e.false_value)
        condition, x, y = self.value(e.condition), self.value(e.true_value), self.value(e.false_value)
        return self.b.let(f"select {c} {condition}, {t} {x}, {t} {y}")

    def _lazy(self, condition: PrimExpr, t: str, then: PrimExpr, otherwise: PrimExpr) -> str:
        return self.either(self.value(condition), t, lambda: self.value(then), lambda: self.value(otherwise))

    def _load(self, e: BufferLoad) -> str:
        return memory.from_memory(self.b, e.dtype, self.load_bits(e))

    def _ramp(self, e: Ramp) -> str:
        inner, lanes = e.base.dtype.lanes, e.lanes
        if inner != 1:
            raise self.refuse("a ramp of vectors", "write the index as a sum of a ramp and a broadcast")
        scalar, t = register_type(e.base.dtype), register_type(e.dtype)
        start = self.b.splat(scalar, self.value(e.base), lanes)
        step = self.b.splat(scalar, self.value(e.stride), lanes)
        count = "<" + ", ".join(f"{scalar} {int_const(e.base.dtype.bits, i)}" for i in range(lanes)) + ">"
        return self.b.let(f"add {t} {start}, {self.b.let(f'mul {t} {step}, {count}')}")

    def _broadcast(self, e: ex.Broadcast) -> str:
        inner = e.value.dtype
        value = self.value(e.value)
        if inner.lanes == 1:
            return self.b.splat(register_type(inner), value, e.lanes)
        mask = ", ".join(f"i32 {i % inner.lanes}" for i in range(e.dtype.lanes))
        t = register_type(inner)
        return self.b.let(f"shufflevector {t} {value}, {t} poison, {int_vector(32, e.dtype.lanes)} <{mask}>")

    def _shuffle(self, e: ex.Shuffle) -> str:
        vectors = [(v.dtype, self.value(v)) for v in e.vectors]
        return arith.shuffled(self.b, e.dtype, vectors, [i.value for i in e.indices if isinstance(i, IntImm)])

    def _let(self, e: ex.Let) -> str:
        self.bind(e.var, self.value(e.value))
        self.push_scope(same_memory=True)
        result = self.value(e.body)
        self.pop_scope()
        self.release(e.var)
        return result

    def _call(self, e: Call) -> str:
        if not isinstance(e.op, Op):
            return self.call_function(e, e.op)
        if e.op.name == "tir.if_then_else":
            condition, then, otherwise = e.args
            if condition.dtype.lanes != 1:
                raise self.refuse(
                    "T.if_then_else with a condition of several lanes", "use T.Select, which chooses lane by lane"
                )
            return self._lazy(condition, register_type(e.dtype), then, otherwise)
        handler = HANDLERS.get(e.op.name)
        if handler is None:
            raise self.refuse(f"T.{e.op.name.removeprefix('tir.')} on a CPU", refusal_hint(e.op.name))
        result = handler(self, e)
        if e.op.effect == "update":
            self.memory_changed()
        return result

    _table: ClassVar[dict[type[PrimExpr], Callable[..., str]]] = {
        ex.IntImm: _imm,
        ex.FloatImm: _imm,
        ex.StringImm: _string,
        ex.Var: _var,
        ex.SizeVar: _var,
        ex.Add: _binary,
        ex.Sub: _binary,
        ex.Mul: _binary,
        ex.Div: _binary,
        ex.Mod: _binary,
        ex.FloorDiv: _binary,
        ex.FloorMod: _binary,
        ex.Min: _binary,
        ex.Max: _binary,
        ex.EQ: _compare,
        ex.NE: _compare,
        ex.LT: _compare,
        ex.LE: _compare,
        ex.GT: _compare,
        ex.GE: _compare,
        ex.And: _logic,
        ex.Or: _logic,
        ex.Not: _not,
        ex.Cast: _cast,
        ex.Select: _select,
        BufferLoad: _load,
        Ramp: _ramp,
        ex.Broadcast: _broadcast,
        ex.Shuffle: _shuffle,
        ex.Let: _let,
        Call: _call,
    }


def _is_index_type(e: PrimExpr) -> bool:
    if e.dtype.lanes != 1 or not e.dtype.is_int:
        return False
    if isinstance(e, ex.Cast):
        # A narrowing cast wraps, so it is no mere change of width.
        return e.value.dtype.is_int and e.value.dtype.bits <= e.dtype.bits
    return True


def _eager_children(e: PrimExpr) -> Iterator[PrimExpr]:
    """Children that are evaluated whenever `e` is, and not by other means (the indices of loads)."""
    if isinstance(e, (BufferLoad, ex.Let)):
        return
    if isinstance(e, Call):
        name = getattr(e.op, "name", "")
        if name in ("tir.address_of", "tir.tvm_access_ptr", "tir.get_active_lane_mask", "tir.large_uint_imm"):
            return
        below = e.args[:1] if name == "tir.if_then_else" else e.args
    elif isinstance(e, (ex.And, ex.Or)):
        below = (e.a,)
    elif isinstance(e, ex.Select):
        below = (e.condition,)
    else:
        below = tuple(children(e))
    for c in below:
        if isinstance(c, PrimExpr) and not isinstance(c, ex.StringImm):
            yield c
