"""Postproc."""

from tscript.meta_schedule.postproc.postproc import Postproc, PyPostproc

__all__ = ["Postproc", "PyPostproc"]
