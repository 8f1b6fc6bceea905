"""The examples of the page on semantics give the results that stand beside them."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "tutorials" / "contributing" / "semantics.md"


def blocks() -> list[tuple[int, str]]:
    """Every Python block of the page, with the line it starts on."""
    text = PAGE.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start(1)), m[1]) for m in re.finditer(r"```python\n(.*?)```", text, re.S)]


def test_every_example_of_the_page_runs() -> None:
    importlib.import_module("tscript")
    runner = doctest.DocTestRunner()
    names: dict[str, object] = {}
    report: list[str] = []
    for line, source in blocks():
        test = doctest.DocTestParser().get_doctest(source, names, PAGE.name, str(PAGE), line)
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
    assert runner.tries >= 25
    assert runner.failures == 0, "".join(report)


def test_every_block_of_the_page_is_an_example() -> None:
    assert all(source.startswith(">>> ") for _, source in blocks())
    assert len(blocks()) >= 10
