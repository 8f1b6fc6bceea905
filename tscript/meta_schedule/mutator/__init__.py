"""Mutator."""

from tscript.meta_schedule.mutator.mutator import Mutator, PyMutator

__all__ = ["Mutator", "PyMutator"]
