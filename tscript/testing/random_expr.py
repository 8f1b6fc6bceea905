"""Random well-typed expressions whose value is defined for every input."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tscript.ir import construct as make
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import BOOL, INT32, DataType, int_range
from tscript.ir.expr import BufferLoad, IntImm, Let, PrimExpr, Var

_ARITH: tuple[type[ex.ArithExpr], ...] = (ex.Add, ex.Sub, ex.Mul, ex.Min, ex.Max)
_DIVISIONS: tuple[type[ex.ArithExpr], ...] = (ex.FloorDiv, ex.FloorMod, ex.Div, ex.Mod)
_COMPARE: tuple[type[ex.CmpExpr], ...] = (ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE)
_FLOAT_CALLS = ("sqrt", "fabs", "floor", "ceil", "trunc", "copysign")


@dataclass
class ExprSource:
    """Makes expressions of a wanted type from what is in scope.

    `variables` are scalars in scope, each with the number of values it may take from 0 on (0: any);
    `readable` are buffers that may be loaded from. All subscripts are reduced modulo the extent.
    """

    rng: random.Random
    variables: dict[Var, int] = field(default_factory=dict[Var, int])
    readable: list[Buffer] = field(default_factory=list[Buffer])

    def make(self, dtype: DataType, depth: int) -> PrimExpr:
        """A scalar of type `dtype` with at most `depth` operators one inside another."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self._leaf(dtype)
        choice = rng.random()
        if choice < 0.1:
            return self._choice(dtype, depth)
        if choice < 0.2:
            source = rng.choice(self._dtypes())
            return make.cast(self.make(source, depth - 1), dtype)
        if choice < 0.25:
            var = Var("t", dtype)
            value = self.make(dtype, depth - 1)
            self.variables[var] = 0
            body = self.make(dtype, depth - 1)
            del self.variables[var]
            return Let(var, value, body)
        if dtype.is_bool:
            return self._condition(depth)
        if dtype.is_float:
            return self._float(dtype, depth)
        return self._integer(dtype, depth)

    def constant(self, dtype: DataType) -> PrimExpr:
        """A constant, ordinary or special."""
        rng = self.rng
        if dtype.is_float:
            plain = float(rng.randint(-16, 16)) / rng.choice([1, 2, 4, 3])
            return make.const(rng.choice([plain, plain, plain, 0.0, -0.0, float("inf"), float("nan")]), dtype)
        low, high = int_range(dtype)
        if dtype.is_bool:
            return IntImm(dtype, rng.randint(low, high))
        return IntImm(dtype, rng.choice([low, high, min(high, rng.randint(0, 7)), max(low, rng.randint(-7, 7))]))

    def subscripts(self, buffer: Buffer, depth: int = 1) -> tuple[PrimExpr, ...]:
        """Subscripts inside `buffer`."""
        rng = self.rng
        result: list[PrimExpr] = []
        for extent in buffer.shape:
            fitting = [v for v, n in self.variables.items() if isinstance(extent, IntImm) and 0 < n <= extent.value]
            if fitting and self.rng.random() < 0.6:
                result.append(make.cast(self.rng.choice(fitting), extent.dtype))
            elif isinstance(extent, IntImm) and self.rng.random() < 0.5:
                result.append(IntImm(extent.dtype, self.rng.randrange(extent.value)))
            else:
                # At depth 0 nothing may be loaded, or subscripts would nest without end.
                plain = [v for v in self.variables if v.dtype is extent.dtype] or [self.constant(extent.dtype)]
                position = self.make(extent.dtype, depth) if depth > 0 else rng.choice(plain)
                result.append(make.floormod(position, extent))
        return tuple(result)

    def _dtypes(self) -> list[DataType]:
        found = dict.fromkeys([b.dtype for b in self.readable] + [v.dtype for v in self.variables])
        return [d for d in found if not d.is_handle] or [INT32]

    def _leaf(self, dtype: DataType) -> PrimExpr:
        rng = self.rng
        named = [v for v in self.variables if v.dtype is dtype]
        loads = [b for b in self.readable if b.dtype is dtype]
        if named and rng.random() < 0.5:
            return rng.choice(named)
        if loads and rng.random() < 0.7:
            buffer = rng.choice(loads)
            return BufferLoad(buffer, self.subscripts(buffer, 0))
        return self.constant(dtype)

    def _choice(self, dtype: DataType, depth: int) -> PrimExpr:
        condition = self.make(BOOL, depth - 1)
        a, b = self.make(dtype, depth - 1), self.make(dtype, depth - 1)
        if self.rng.random() < 0.5:
            return ex.Select(condition, a, b)
        return make.if_then_else(condition, a, b)

    def _condition(self, depth: int) -> PrimExpr:
        rng = self.rng
        if rng.random() < 0.3:
            a, b = self.make(BOOL, depth - 1), self.make(BOOL, depth - 1)
            return rng.choice([ex.And(a, b), ex.Or(a, b), ex.Not(a)])
        dtype = rng.choice(self._dtypes())
        return rng.choice(_COMPARE)(self.make(dtype, depth - 1), self.make(dtype, depth - 1))

    def _float(self, dtype: DataType, depth: int) -> PrimExpr:
        rng = self.rng
        a = self.make(dtype, depth - 1)
        if rng.random() < 0.2:
            name = rng.choice(_FLOAT_CALLS)
            # The sign of a NaN is not defined, so the sign is taken from what is never one.
            args = (a, make.cast(self.make(INT32, depth - 1), dtype)) if name == "copysign" else (a,)
            return make.math_call(name, *args)
        b = self.make(dtype, depth - 1)
        return rng.choice((*_ARITH, ex.Div))(a, b)

    def _integer(self, dtype: DataType, depth: int) -> PrimExpr:
        rng = self.rng
        a = self.make(dtype, depth - 1)
        choice = rng.random()
        if choice < 0.25:
            return rng.choice(_DIVISIONS)(a, self._divisor(dtype))
        if choice < 0.4:
            name = rng.choice(["shift_left", "shift_right"])
            count = make.floormod(self.make(dtype, depth - 1), IntImm(dtype, min(dtype.bits, 63)))
            return ex.Call(dtype, ex.Op.get("tir." + name), (a, count))
        b = self.make(dtype, depth - 1)
        if choice < 0.55:
            name = rng.choice(["bitwise_and", "bitwise_or", "bitwise_xor"])
            return ex.Call(dtype, ex.Op.get("tir." + name), (a, b))
        return rng.choice(_ARITH)(a, b)

    def _divisor(self, dtype: DataType) -> PrimExpr:
        low, high = int_range(dtype)
        value = self.rng.choice([1, 2, 3, 4, 7, high, -1 if low else 5, -3 if low else 9])
        return IntImm(dtype, value)
