"""Software pipelines: loops annotated with a stage and an order for each statement, so that iterations overlap.

Before: blocks have no axes and views. After: such loops are memory in several versions, and steps in which all stages
work, with unrolled ones before and after (see `overlap`). Asynchronous stages are ordinary ones on a CPU, whose copies
are complete when they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tscript.ir.buffer import Buffer
from tscript.ir.expr import IntImm
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Rewriter, post_order_visit
from tscript.ir.stmt import AttrStmt, Block, For, ForKind, LetStmt, Stmt
from tscript.lower.loop_body import DOUBLE_BUFFER, OpenedBody, nested_statements, open_body
from tscript.lower.memories import Memories
from tscript.lower.overlap import Part, overlapped
from tscript.support.errors import LoweringError

STAGE: Final = "software_pipeline_stage"
ORDER: Final = "software_pipeline_order"
ASYNC: Final = "software_pipeline_async_stages"


def pipeline_loops(func: PrimFunc) -> PrimFunc:
    """Let the iterations of annotated loops overlap.

    `software_pipeline_stage` and `software_pipeline_order` have a number for each statement of the body. Blocks in it
    that hold a sequence count with their statements. A pipeline inside is one statement, or as many as it became:
    whichever fits the lists.

    Raises LoweringError for lists that do not fit the body, and where overlapping would change what is computed.
    """
    return func.replace(body=_Pipelines(Memories(func)).rewrite(func.body))


class _Pipelines(Rewriter):
    memoize = False

    def __init__(self, memories: Memories) -> None:
        super().__init__()
        self._memories = memories
        # What loops inside became.
        self._made: dict[Stmt, None] = {}

    def rewrite_For(self, loop: For) -> Any:
        loop = self.rewrite_children(loop)
        if not any(key in loop.annotations for key in (STAGE, ORDER, ASYNC)):
            return loop
        result = self._pipeline(loop)
        inner = result
        while isinstance(inner, LetStmt):
            inner = inner.body
        self._made[inner] = None
        return result

    def _pipeline(self, loop: For) -> Stmt:
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            kind = ForKind.NAMES[loop.kind]
            raise _wrong(loop, f"its iterations run as those of a {kind} loop", "annotate a serial loop")
        stages, orders = _numbers(loop, STAGE), _numbers(loop, ORDER)
        if stages is None or orders is None:
            missing = STAGE if stages is None else ORDER
            raise _wrong(loop, f"it has no {missing}", f"annotate it with both {STAGE} and {ORDER}")
        body = open_body(loop.body)
        parts = self._parts(loop, body, stages, orders)
        for wanted in _numbers(loop, ASYNC) or ():
            if wanted not in stages:
                raise _wrong(loop, f"{ASYNC} has {wanted}, which is the stage of no statement", "name stages in use")
        result = overlapped(loop, body, parts, self._memories, _doubled(loop, body))
        return _without_notes(loop) if result is None else result

    def _parts(self, loop: For, body: OpenedBody, stages: Sequence[int], orders: Sequence[int]) -> list[Part]:
        if len(body.seq) < 2:
            advice = "split the work into two statements, for example a copy and what uses it"
            raise _wrong(loop, "its body is one statement, and a pipeline is of several", advice)
        plain, whole = self._flattened(body, False), self._flattened(body, True)
        found = next((f for f in (plain, whole) if len(f[0]) == len(stages)), plain)
        statements, memory, blocks = found
        for key, numbers in ((STAGE, stages), (ORDER, orders)):
            if len(numbers) != len(statements):
                raise _wrong(
                    loop,
                    f"{key} has {len(numbers)} numbers for {len(statements)} statements",
                    f"give one for each of: {', '.join(_name(n, s) for n, s in enumerate(statements))}",
                )
        if min(stages) < 0:
            raise _wrong(loop, f"{STAGE} has {min(stages)}", "count stages from 0")
        if len(set(orders)) < len(orders):
            twice = next(o for o in orders if orders.count(o) > 1)
            raise _wrong(loop, f"two statements have the order {twice}", "give each statement an order of its own")
        body.memory.extend(memory)
        body.blocks.extend(blocks)
        return [
            Part(s, stage, order, _name(n, s))
            for n, (s, stage, order) in enumerate(zip(statements, stages, orders, strict=True))
        ]

    def _flattened(self, body: OpenedBody, made_too: bool) -> tuple[list[Stmt], list[Buffer], list[Block]]:
        """The statements of `body` and of blocks in it (with `made_too`, of pipelines in it), and their memory."""
        statements: list[Stmt] = []
        memory: list[Buffer] = []
        blocks: list[Block] = []
        for s in body.seq:
            nested = nested_statements(s) if made_too or s not in self._made else None
            if nested is None:
                statements.append(s)
                continue
            block, inside = nested
            statements.extend(inside)
            memory.extend(block.alloc_buffers)
            blocks.append(block)
        return statements, memory, blocks


def _without_notes(loop: For) -> For:
    return loop.replace(annotations={k: v for k, v in loop.annotations.items() if k not in (STAGE, ORDER, ASYNC)})


def _numbers(loop: For, key: str) -> list[int] | None:
    given: Any = loop.annotations.get(key)
    if given is None:
        return None
    values: list[Any] = list(given) if isinstance(given, (tuple, list)) else [given]  # pyright: ignore[reportUnknownArgumentType]
    numbers = [v.value if isinstance(v, IntImm) else v for v in values]
    if not isinstance(given, (tuple, list)) or not all(isinstance(n, int) for n in numbers):
        raise _wrong(loop, f"{key} is {given}", "give a list of integers, one for each statement of the body")
    return numbers


def _doubled(loop: For, body: OpenedBody) -> dict[Buffer, int]:
    """Buffers that are to have two versions at least."""
    found: dict[Buffer, int] = {}

    def visit(node: object) -> None:
        if isinstance(node, Block) and DOUBLE_BUFFER in node.annotations:
            number: Any = node.annotations[DOUBLE_BUFFER]
            number = number.value if isinstance(number, IntImm) else number
            if not isinstance(number, int) or not 0 <= number < len(node.writes):
                raise _wrong(
                    loop,
                    f"block {node.name_hint!r} has {DOUBLE_BUFFER} {number} and writes {len(node.writes)} buffers",
                    "give the number of a buffer that it writes, from 0 on",
                )
            found[node.writes[number].buffer] = 2
        elif isinstance(node, AttrStmt) and node.attr_key == DOUBLE_BUFFER:
            found.update((b, 2) for b in body.memory if b.data is node.node)

    for block in body.blocks:
        visit(block.replace(body=block.body))
    for s in body.seq:
        post_order_visit(s, visit)
    return found


def _name(n: int, s: Stmt) -> str:
    """How messages call statement `n`."""
    names: list[str] = []

    def visit(node: object) -> None:
        if isinstance(node, Block) and node.name_hint:
            names.append(node.name_hint)

    post_order_visit(s, visit)
    return f"statement {n}" + (f" (block {names[0]!r})" if names else "")


def _wrong(loop: For, what: str, advice: str) -> LoweringError:
    where = f" ({loop.span})" if loop.span else ""
    return LoweringError(
        f"the loop over {loop.loop_var.name} cannot become a software pipeline: {what}{where}\n  try: {advice}"
    )


__all__ = ["ASYNC", "ORDER", "STAGE", "pipeline_loops"]
