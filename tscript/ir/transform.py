"""Rewriting by functions instead of a class: `ir_transform`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tscript.ir.base import Node
from tscript.ir.functor import NODE_CLASSES, Rewriter

Callback = Callable[[Any], Any]


class _ByFunctions(Rewriter):
    def __init__(self, before: Callback | None, after: Callback | None, classes: Iterable[type[Node]]) -> None:
        super().__init__()
        self._before = before
        self._after = after
        # The table of this object, not of the class: which nodes are handled is an argument.
        self._rewrite_table = dict.fromkeys(classes, _ByFunctions.apply)  # pyright: ignore[reportAttributeAccessIssue]

    def apply(self, node: Any) -> Any:
        """`before`, which may replace the node for good; else what is below, then `after`."""
        if self._before is not None:
            replaced = self._before(node)
            if replaced is not None:
                return replaced
        rebuilt = self.rewrite_children(node)
        replaced = None if self._after is None else self._after(rebuilt)
        return rebuilt if replaced is None else replaced


def ir_transform(
    node: Node, preorder: Callback | None, postorder: Callback | None, only_enable: Iterable[str] | None = None
) -> Any:
    """`node` rewritten by two functions, each of which returns a new node, or None to keep the old one.

    `preorder` sees a node before what is below it, and what it returns is final; `postorder` sees a node
    whose children were rewritten. `only_enable` lists the classes they see (`"For"` or `"tir.For"`),
    all of them without it. Raises ValueError for a name that is no node class.

    >>> from tscript import tir
    >>> x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
    >>> ir_transform(x + 1, None, lambda v: y, ["tir.Var"]) is y + 1
    True
    """
    if only_enable is None:
        names = list(NODE_CLASSES)
    else:
        names = [n.removeprefix("tir.") for n in only_enable]
        for name in names:
            if name not in NODE_CLASSES:
                raise ValueError(f"there is no node class {name!r}")
    return _ByFunctions(preorder, postorder, [NODE_CLASSES[n] for n in names]).rewrite(node)
