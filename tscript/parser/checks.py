"""The check that a program which was read keeps the rules of the IR."""

from __future__ import annotations

from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.rules import RULES, WellFormedError
from tscript.ir.well_formed import verify_well_formed
from tscript.parser.diagnostics import fail
from tscript.support.span import Span


def require_well_formed(program: PrimFunc | IRModule, span: Span | None) -> None:
    """Raise ScriptError, at the offending statement or else at `span`, for a program that breaks a rule."""
    try:
        verify_well_formed(program, assert_mode=True)
    except WellFormedError as e:
        rule = RULES[e.rule]
        fail(
            f"the program is not well-formed [{e.rule}]: {e.found} ({rule.demand})",
            e.span or span,
            f"{rule.hint}; or pass check_well_formed=False to read it all the same",
        )
