"""Candidates in, files with machine code out."""

from tscript.meta_schedule.builder.build_job import default_build, default_export
from tscript.meta_schedule.builder.builder import Builder, BuilderInput, BuilderResult, PyBuilder
from tscript.meta_schedule.builder.local_builder import LocalBuilder

Builder.register_kind("local", LocalBuilder)

__all__ = [
    "Builder",
    "BuilderInput",
    "BuilderResult",
    "LocalBuilder",
    "PyBuilder",
    "default_build",
    "default_export",
]
