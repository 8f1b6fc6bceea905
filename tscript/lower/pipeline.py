"""Passes with what they need and give, and the pipelines made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tscript.ir.function import IRModule, PrimFunc
from tscript.lower.align import align_buffers
from tscript.lower.axes import bind_axes
from tscript.lower.blocks import lower_blocks
from tscript.lower.compact import compact_buffers
from tscript.lower.double_buffer import double_buffers
from tscript.lower.flatten import flatten_buffers
from tscript.lower.init import lower_init
from tscript.lower.match_buffers import lower_match_buffers
from tscript.lower.partition import partition_loops
from tscript.lower.prefetches import lower_prefetches
from tscript.lower.realize import lower_realize
from tscript.lower.registers import promote_tiles
from tscript.lower.share import share_storage
from tscript.lower.software_pipeline import pipeline_loops
from tscript.lower.streams import stream_tiles
from tscript.lower.threads import serialize_threads
from tscript.lower.tile_shuffles import shuffle_tiles
from tscript.lower.unroll import unroll_loops
from tscript.lower.vectorize import vectorize_loops
from tscript.support.errors import InternalError, LoweringError
from tscript.support.recursion import room_for_deep_programs


@dataclass(frozen=True, slots=True)
class Pass:
    """A step of lowering: a function from PrimFunc to PrimFunc, the properties it needs and those it gives."""

    name: str
    run: Callable[[PrimFunc], PrimFunc]
    needs: frozenset[str] = frozenset()
    gives: frozenset[str] = frozenset()


def _pass(run: Callable[[PrimFunc], PrimFunc], needs: str = "", gives: str = "") -> Pass:
    return Pass(run.__name__, run, frozenset(needs.split()), frozenset(gives.split()))


CPU_PIPELINE: Final[tuple[Pass, ...]] = (
    _pass(lower_init, gives="no_init"),
    _pass(bind_axes, needs="no_init", gives="no_axes"),
    _pass(align_buffers),
    _pass(lower_match_buffers, needs="no_axes", gives="no_views"),
    _pass(serialize_threads, gives="no_threads"),
    _pass(pipeline_loops, needs="no_axes no_views no_threads", gives="no_pipelines"),
    _pass(double_buffers, needs="no_axes no_views no_pipelines", gives="no_double_buffers"),
    _pass(lower_blocks, needs="no_axes no_views", gives="no_blocks"),
    _pass(lower_realize, needs="no_blocks", gives="no_realize"),
    _pass(compact_buffers, needs="no_blocks no_realize"),
    _pass(partition_loops, needs="no_blocks"),
    _pass(unroll_loops, needs="no_blocks", gives="no_unroll"),
    # What differed between the copies of an unrolled loop is decided now.
    _pass(partition_loops, needs="no_blocks no_unroll"),
    _pass(lower_prefetches, needs="no_blocks no_realize"),
    _pass(flatten_buffers, needs="no_blocks no_realize", gives="flat_buffers"),
    _pass(vectorize_loops, needs="flat_buffers", gives="no_vector_loops"),
    _pass(shuffle_tiles, needs="flat_buffers no_vector_loops"),
    _pass(stream_tiles, needs="flat_buffers no_vector_loops"),
    _pass(promote_tiles, needs="flat_buffers no_vector_loops"),
    _pass(share_storage, needs="flat_buffers"),
)
"""From any program to what a CPU back end takes: loops over flat memory."""

Watch = Callable[[str, PrimFunc], None]


def run_passes(func: PrimFunc, passes: Sequence[Pass], watch: Watch | None = None) -> PrimFunc:
    """`func` after all passes; `watch` is shown the name of each pass and what it left."""
    have: set[str] = set()
    for p in passes:
        if not p.needs <= have:
            raise InternalError(
                f"the pass {p.name} needs {', '.join(sorted(p.needs - have))}, which no pass before it gives"
            )
        func = p.run(func)
        have |= p.gives
        if watch is not None:
            watch(p.name, func)
    return func


def lower_module(
    mod: IRModule, passes: Sequence[Pass], watch_of: Callable[[str, PrimFunc], Watch | None] | None = None
) -> IRModule:
    """A module with all its functions lowered. `watch_of(name, func)` gives who watches the function `name`."""
    with room_for_deep_programs(LoweringError):
        functions = {
            v: run_passes(f, passes, None if watch_of is None else watch_of(v.name_hint, f))
            for v, f in mod.functions.items()
        }
    return mod.replace(functions=functions)
