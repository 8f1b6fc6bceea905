"""Neighbours of a schedule in the space."""

from tscript.meta_schedule.mutator import default
from tscript.meta_schedule.mutator.mutate_compute_location import MutateComputeLocation
from tscript.meta_schedule.mutator.mutate_parallel import MutateParallel
from tscript.meta_schedule.mutator.mutate_thread_binding import MutateThreadBinding
from tscript.meta_schedule.mutator.mutate_tile_size import MutateTileSize
from tscript.meta_schedule.mutator.mutate_unroll import MutateUnroll
from tscript.meta_schedule.mutator.mutator import Mutator, PyMutator

__all__ = [
    "MutateComputeLocation",
    "MutateParallel",
    "MutateThreadBinding",
    "MutateTileSize",
    "MutateUnroll",
    "Mutator",
    "PyMutator",
    "default",
]
