"""Which functions of a module call each other in a circle."""

from __future__ import annotations

from collections.abc import Mapping

from tscript.ir.base import Node
from tscript.ir.expr import Call, GlobalVar
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit


def recursive_functions(functions: Mapping[str, PrimFunc]) -> frozenset[str]:
    """The names of the functions that, directly or through others, may call themselves."""
    callees = {name: _callees(func) for name, func in functions.items()}
    return frozenset(name for name in callees if name in _reachable(name, callees))


def called_functions(functions: Mapping[str, PrimFunc]) -> frozenset[str]:
    """The names of the functions that others, or they themselves, call."""
    return frozenset(name for func in functions.values() for name in _callees(func))


def _callees(func: PrimFunc) -> dict[str, None]:
    found: dict[str, None] = {}

    def visit(node: Node) -> None:
        if isinstance(node, Call) and isinstance(node.op, GlobalVar):
            found[node.op.name_hint] = None

    post_order_visit(func.body, visit)
    return found


def _reachable(start: str, callees: Mapping[str, dict[str, None]]) -> dict[str, None]:
    seen: dict[str, None] = {}
    stack = list(callees[start])
    while stack:
        name = stack.pop()
        if name not in seen:
            seen[name] = None
            stack.extend(callees.get(name, ()))
    return seen
