"""The part of the check for well-formed programs that knows scopes and expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from tscript.ir import expr as ex
from tscript.ir import stmt as st
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.construct import is_value_object
from tscript.ir.expr import GlobalVar, Op, PrimExpr, Range, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import children
from tscript.ir.index_map import IndexMap
from tscript.ir.rules import WellFormedError
from tscript.ir.stmt import BufferRegion
from tscript.support.span import Span
from tscript.support.wording import kind_of, with_article


class ScopeVerifier:
    """State of one check: what is in scope, and what was ever defined."""

    def __init__(self, mod: IRModule | None) -> None:
        self.callees = None if mod is None else {v.name_hint: f for v, f in mod.functions.items()}
        self.in_scope: set[Var] = set()
        self.ever_defined: set[Var] = set()
        self.threads: dict[Var, PrimExpr | None] = {}
        self.buffers: set[Buffer] = set()
        self.loop_level: dict[Var, int] = {}
        self.block_level = 0
        # Nodes that may stand at several places, each of which opens the scope of the same variables.
        self.binders: dict[Var, Node] = {}
        self.spans: list[Span | None] = [None]

    # -- reporting ----------------------------------------------------------------------------------

    def fail(self, rule: str, found: str, node: object) -> WellFormedError:
        """The error to raise, placed at the innermost statement whose position is known."""
        own = getattr(node, "span", None)
        span = own or next((s for s in reversed(self.spans) if s is not None), None)
        return WellFormedError(rule, found, node, span)

    # -- scopes -------------------------------------------------------------------------------------

    def define(self, var: Var, node: object) -> None:
        """Bring a new variable into scope."""
        if var in self.ever_defined:
            raise self.fail("W02", f"the variable {var.name} is defined a second time", node)
        self.ever_defined.add(var)
        self.in_scope.add(var)

    def undefine(self, variables: Iterable[Var]) -> None:
        """End the scope of variables."""
        self.in_scope.difference_update(variables)

    def declare(self, buffer: Buffer, defines_data: bool, node: object) -> list[Var]:
        """Bring a buffer into scope, with its pointer where that is new; the variables it defined."""
        made: list[Var] = []
        if defines_data and buffer.data not in self.in_scope:
            self.define(buffer.data, node)
            made.append(buffer.data)
        self.buffers.add(buffer)
        return made

    def implied(self, buffer: Buffer, node: object) -> list[Var]:
        """Define the size, stride and offset variables that a matched buffer gives a value to."""
        made: list[Var] = []
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(e, Var) and e not in self.in_scope:
                self.define(e, node)
                made.append(e)
        return made

    def layout(self, buffer: Buffer) -> None:
        """Check the expressions in shape, strides and offset of a buffer."""
        for e in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            self.expr(e)

    # -- attributes ---------------------------------------------------------------------------------

    def attributes(self, what: str, attrs: Mapping[str, Any]) -> None:
        """Check attributes or annotations, and the expressions among them."""
        for key, value in attrs.items():
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise self.fail("W17", f"{what} has an attribute whose key is {key!r}, no text", None)
            self._attribute(f"the attribute {key!r} of {what}", value)

    def _attribute(self, what: str, value: Any) -> None:
        if isinstance(value, (tuple, list)):
            for v in value:  # pyright: ignore[reportUnknownVariableType]
                self._attribute(what, v)
        elif isinstance(value, Mapping):
            self.attributes(what, value)  # pyright: ignore[reportUnknownArgumentType]
        elif isinstance(value, PrimExpr):
            self.expr(value)
        elif isinstance(value, IndexMap):
            self._index_map(value)
        elif not (value is None or isinstance(value, (Node, np.ndarray)) or is_value_object(value)):
            raise self.fail("W17", f"{what} is {kind_of(value)}", None)

    def _index_map(self, value: IndexMap) -> None:
        self.shared_scope(value, value.initial_indices)
        for e in value.final_indices:
            self.expr(e)
        self.undefine(value.initial_indices)
        if value.inverse_index_map is not None:
            self._index_map(value.inverse_index_map)

    def shared_scope(self, node: Node, variables: Iterable[Var]) -> None:
        """Define the variables of a node that may stand at several places."""
        for v in variables:
            if self.binders.get(v) is node and v not in self.in_scope:
                self.in_scope.add(v)
                continue
            self.define(v, node)
            self.binders[v] = node

    # -- expressions --------------------------------------------------------------------------------

    def use_buffer(self, buffer: Buffer) -> None:
        """A buffer is declared, or an undeclared view of a pointer in scope."""
        if buffer in self.buffers:
            return
        if buffer.data not in self.in_scope:
            raise self.fail("W03", f"the buffer {_named(buffer.name)} is used where it is not declared", buffer)
        self.layout(buffer)

    def expr(self, root: PrimExpr) -> None:
        """Check an expression; a shared part is gone through once in each scope."""
        seen: set[PrimExpr] = set()
        # What was seen inside a Let must be looked at again outside: its variable is gone there.
        inside: list[list[PrimExpr]] = [[]]
        stack: list[tuple[PrimExpr, int]] = [(root, _VISIT)]
        while stack:
            e, step = stack.pop()
            if isinstance(e, ex.Let) and step == _OPEN:
                self.shared_scope(e, (e.var,))
                inside.append([])
                stack += [(e, _CLOSE), (e.body, _VISIT)]
            elif isinstance(e, ex.Let) and step == _CLOSE:
                self.undefine((e.var,))
                seen.difference_update(inside.pop())
            elif e not in seen:
                seen.add(e)
                inside[-1].append(e)
                check = _CHECKS.get(type(e))
                if check is not None:
                    check(self, e)
                if isinstance(e, ex.Let):
                    stack += [(e, _OPEN), (e.value, _VISIT)]
                else:
                    stack.extend((x, _VISIT) for x in reversed(list(self._parts(e))))

    def _parts(self, e: PrimExpr) -> Iterator[PrimExpr]:
        for x in children(e):
            if isinstance(x, PrimExpr):
                yield x
            elif isinstance(x, Buffer):
                self.use_buffer(x)
            elif isinstance(x, BufferRegion):
                self.region(x)

    def variable(self, e: Var) -> None:
        """A variable is in scope, and no loop variable of a loop around the block."""
        if e not in self.in_scope:
            raise self.fail("W01", f"the variable {_named(e.name)} is used where it is not defined", e)
        if self.loop_level.get(e, self.block_level) < self.block_level:
            raise self.fail("W04", f"the loop variable {e.name} is used inside a block that has axes", e)

    def load(self, e: ex.BufferLoad) -> None:
        """Subscripts fit the buffer."""
        self.access(e)

    def call(self, e: ex.Call) -> None:
        """Operator or function exist and take these arguments."""
        if isinstance(e.op, Op):
            if 0 <= e.op.num_inputs != len(e.args):
                raise self.fail("W13", f"{e.op.name} takes {e.op.num_inputs} arguments, not {len(e.args)}", e)
        elif isinstance(e.op, GlobalVar) and self.callees is not None:  # pyright: ignore[reportUnnecessaryIsInstance]
            callee = self.callees.get(e.op.name_hint)
            if callee is None:
                raise self.fail("W13", f"the module has no function {e.op.name_hint!r}", e)
            if isinstance(callee, PrimFunc) and len(callee.params) != len(e.args):  # pyright: ignore[reportUnnecessaryIsInstance]
                found = f"{e.op.name_hint} takes {len(callee.params)} arguments, not {len(e.args)}"
                raise self.fail("W13", found, e)

    def tensor_only(self, e: PrimExpr) -> None:
        """Nodes that have no meaning in a kernel."""
        raise self.fail("W16", f"{kind_of(e)} stands in a kernel", e)

    def reducer(self, r: ex.CommReducer) -> None:
        """Check a reducer, whose variables live in it alone."""
        self.shared_scope(r, (*r.lhs, *r.rhs))
        for e in (*r.result, *r.identity_element):
            self.expr(e)
        self.undefine((*r.lhs, *r.rhs))

    def region(self, region: BufferRegion) -> None:
        """Check a use of a region."""
        self.use_buffer(region.buffer)
        for r in region.region:
            self.range(r)

    def range(self, r: Range) -> None:
        """Check both parts of a range."""
        self.expr(r.min)
        self.expr(r.extent)

    def access(self, s: st.BufferStore | ex.BufferLoad) -> None:
        """Check subscripts and mask of a load or store."""
        if len(s.indices) != len(s.buffer.shape):
            found = f"{s.buffer.name} has {len(s.buffer.shape)} dimensions but {len(s.indices)} subscripts"
            raise self.fail("W12", found, s)
        for e in s.indices:
            if not e.dtype.is_integer:
                raise self.fail("W12", f"a subscript of {s.buffer.name} is {with_article(e.dtype)}", s)
        if s.predicate is not None and not s.predicate.dtype.is_bool:
            raise self.fail("W12", f"the mask of an access to {s.buffer.name} is {with_article(s.predicate.dtype)}", s)


_VISIT: Final = 0
_OPEN: Final = 1
_CLOSE: Final = 2


def _named(name: str) -> str:
    return name or "(without a name)"


_CHECKS: Final[dict[type[PrimExpr], Callable[[ScopeVerifier, Any], None]]] = {
    Var: ScopeVerifier.variable,
    ex.SizeVar: ScopeVerifier.variable,
    ex.BufferLoad: ScopeVerifier.load,
    ex.Call: ScopeVerifier.call,
    ex.Reduce: ScopeVerifier.tensor_only,
    ex.ProducerLoad: ScopeVerifier.tensor_only,
}

__all__ = ["ScopeVerifier"]
