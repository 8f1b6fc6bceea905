"""The command `check`: what is wrong with the programs of a file."""

from __future__ import annotations

from collections.abc import Iterable

from tscript.analysis import Report, check
from tscript.cli.loading import Program


def run_check(programs: Iterable[Program], *, strict: bool = False) -> int:
    """Print what is found in `programs`; 1 if something is proven wrong, with `strict` also if it may be, else 0."""
    reports = [check(program) for program in programs]
    whole = Report([f for r in reports for f in r], [n for r in reports for n in r.notes])
    whole.show()
    return 1 if whole.failures(strict) else 0
