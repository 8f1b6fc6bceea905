"""Parts that were marked to become an intrinsic do so."""

from __future__ import annotations

import logging
from typing import Any

from tscript.meta_schedule.postproc.postproc import Postproc
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.errors import ScheduleError
from tscript.schedule.schedule import Schedule
from tscript.schedule.sref import StmtSRef

_KEY = "meta_schedule.auto_tensorize"


class RewriteTensorize(Postproc):
    """Replaces each block marked with `meta_schedule.auto_tensorize` by the intrinsic of that name.

    A block that does not match stays as it is, with a warning. `vectorize_init_loop` makes the only loop of a start
    that has no intrinsic of its own (an empty name) a vector.
    """

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        self.vectorize_init_loop = vectorize_init_loop
        self._logger = logging.getLogger("tscript.meta_schedule")

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._logger = context.logger

    def apply(self, sch: Schedule) -> bool:
        """Always True."""
        while (sref := _marked(sch)) is not None:
            value: Any = sref.block.annotations[_KEY]
            name = str(getattr(value, "value", value))
            block = sch.get_block(sref.block.name_hint, sch.state.function_of(sref).name_hint)
            sch.unannotate(block, _KEY)
            try:
                if name:
                    sch.tensorize(block, name)
                elif self.vectorize_init_loop:
                    (child,) = sch.get_child_blocks(block)
                    (loop,) = sch.get_loops(child)
                    sch.vectorize(loop)
            except (ScheduleError, ValueError) as e:
                self._logger.warning("block %s does not become %s: %s", sref, name or "a vector", e)
        return True


def _marked(sch: Schedule) -> StmtSRef | None:
    for var in sorted(sch.mod.functions, key=lambda v: v.name_hint):
        root = sch.state.root_block(var)
        for sref in () if root is None else sch.state.blocks_below(root):
            if _KEY in sref.block.annotations:
                return sref
    return None
