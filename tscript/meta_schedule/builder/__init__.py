"""Builder."""

from tscript.meta_schedule.builder.builder import Builder, BuilderInput, BuilderResult, PyBuilder

__all__ = ["Builder", "BuilderInput", "BuilderResult", "PyBuilder"]
