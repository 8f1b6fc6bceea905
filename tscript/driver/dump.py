"""Programs written to files as they are lowered, for reading and comparing."""

from __future__ import annotations

import difflib
import fnmatch
import re
from pathlib import Path

from tscript.ir.function import PrimFunc
from tscript.support.config import current


def split_setting(setting: str) -> tuple[Path, str]:
    """The folder and the pattern of pass names in `folder` or `folder:pattern`.

    >>> split_setting("out:lower_*")[1], split_setting("out")[1]
    ('lower_*', '*')
    """
    folder, colon, pattern = setting.rpartition(":")
    # A single letter before the colon is a drive of Windows.
    if not colon or len(folder) < 2 or "/" in pattern or "\\" in pattern:
        return Path(setting), "*"
    return Path(folder), pattern or "*"


class FunctionDump:
    """Writes one function after each pass: `<folder>/<function>/03_<pass>.py`, and what the pass changed as `.diff`.

    Each file is a program that the parser reads back. Passes that the pattern leaves out still count, so that
    numbers tell the place in the pipeline.
    """

    def __init__(self, folder: Path, pattern: str, name: str, start: PrimFunc) -> None:
        self._folder = folder / re.sub(r"\W", "_", name)
        self._pattern = pattern
        self._number = 0
        self._before = ""
        self("start", start)

    def __call__(self, name: str, func: PrimFunc) -> None:
        text = func.script(show_meta=True) + "\n"
        stem = f"{self._number:02d}_{name}"
        if fnmatch.fnmatchcase(name, self._pattern):
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / f"{stem}.py").write_text(text, encoding="utf-8")
            if self._number:
                (self._folder / f"{stem}.diff").write_text(_difference(self._before, text, stem), encoding="utf-8")
        self._before = text
        self._number += 1


def _difference(before: str, after: str, name: str) -> str:
    return "".join(difflib.unified_diff(before.splitlines(True), after.splitlines(True), "before", name))


def function_dump(name: str, func: PrimFunc) -> FunctionDump | None:
    """What writes the steps of one function, if the setting `dump` asks for it."""
    setting = current().dump
    return FunctionDump(*split_setting(setting), name, func) if setting else None


def dump_native(source: str) -> None:
    """Write the optimised LLVM IR of a module to `<folder>/module.ll`, if the setting `dump` asks for it."""
    setting = current().dump
    if not setting:
        return
    folder, pattern = split_setting(setting)
    if fnmatch.fnmatchcase("native", pattern):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "module.ll").write_text(source, encoding="utf-8")
