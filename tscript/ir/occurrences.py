"""What occurs in a node: variables, loads, calls. A node that is shared is looked at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tscript.ir.base import Node
from tscript.ir.expr import BufferLoad, Call, IntImm, Var
from tscript.ir.functor import children


def any_below(node: Node, test: Callable[[Node], bool]) -> bool:
    """Whether `test` holds for `node` or a node below it."""
    seen: set[Node] = {node}
    stack: list[Node] = [node]
    while stack:
        n = stack.pop()
        if test(n):
            return True
        for c in children(n):
            if c not in seen:
                seen.add(c)
                stack.append(c)
    return False


def variables(*nodes: Node) -> dict[Var, None]:
    """The variables that occur in nodes, in order of appearance.

    >>> from tscript.ir.expr import Var
    >>> i, n = Var("i", "int32"), Var("n", "int32")
    >>> list(variables(n * 2 + i, n))
    [n, i]
    """
    found: dict[Var, None] = {}
    seen: set[Node] = set()
    stack: list[Node] = list(reversed(nodes))
    while stack:
        n = stack.pop()
        if isinstance(n, Var):
            found[n] = None
        elif n not in seen:
            seen.add(n)
            stack.extend(reversed(children(n)))
    return found


def mentions(node: Node, names: Mapping[Var, object]) -> bool:
    """Whether one of the variables `names` occurs in a node."""
    if isinstance(node, Var):
        return node in names
    return not isinstance(node, IntImm) and any_below(node, lambda n: isinstance(n, Var) and n in names)


def reads_memory(node: Node) -> bool:
    """Whether a value may depend on more than variables: it loads, or calls something."""
    return any_below(node, lambda n: isinstance(n, (BufferLoad, Call)))
