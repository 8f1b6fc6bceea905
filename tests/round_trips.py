"""A property of every kernel and module that the tests read: printed text reads back to the same program.

Whatever the parser makes while a test module is loaded or a test runs is printed when the test ends, read back,
and must be the same program, with the same text. The claim is checked once for each text, and for a few programs
of each test, so that tests with thousands of random programs stay fast.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import Any

import pytest

from tscript.ir.expr import GlobalVar
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import children, post_order_visit
from tscript.ir.structural import assert_structural_equal
from tscript.parser import entry, module
from tscript.parser.blocks import FunctionFrame
from tscript.script import from_source
from tscript.support.errors import ScriptWarning

PER_TEST = 3
LONGEST_TEXT = 20_000
MOST_NODES = 20_000


class Programs:
    """Programs that were read and are still to be checked, and the texts that were."""

    def __init__(self) -> None:
        self.fresh: list[PrimFunc | IRModule] = []
        self.of_modules: dict[str, list[PrimFunc | IRModule]] = {}
        self.texts: set[str] = set()
        self.room = PER_TEST
        self.is_checking = False

    def add(self, program: PrimFunc | IRModule) -> None:
        """Remember a program, while there is room."""
        if len(self.fresh) < self.room and not self.is_checking:
            self.fresh.append(program)

    def take(self) -> list[PrimFunc | IRModule]:
        """The programs read since the last call."""
        fresh, self.fresh = self.fresh, []
        return fresh


def require_round_trip(program: PrimFunc | IRModule, seen: set[str]) -> None:
    """AssertionError or ScriptError unless `program` survives printing; nothing is done for a text in `seen`."""
    if written_size(program) > MOST_NODES:
        return
    text = program.script(show_meta=True)
    if text in seen or len(text) > LONGEST_TEXT or (isinstance(program, PrimFunc) and calls_others(program)):
        return
    seen.add(text)
    again = from_source(text, check_well_formed=False)
    assert_structural_equal(program, again, map_free_vars=True)
    assert again.script(show_meta=True) == text


def written_size(program: PrimFunc | IRModule) -> int:
    """How many nodes the text of `program` shows, shared ones counted each time."""
    sizes: dict[Any, int] = {}
    total = 0
    for func in program.functions.values() if isinstance(program, IRModule) else (program,):
        post_order_visit(func.body, lambda n: sizes.update({n: 1 + sum(sizes.get(c, 0) for c in children(n))}))
        total += sizes[func.body]
    return total


def calls_others(func: PrimFunc) -> bool:
    """Whether `func` needs its module to be read back."""
    found: list[Any] = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, GlobalVar) else None)
    return bool(found)


PROGRAMS = Programs()


def pytest_configure() -> None:
    """Have the parser tell of what it makes."""
    make_function, make_module = FunctionFrame.finish, module.read_module

    def finish(frame: FunctionFrame) -> PrimFunc:
        made = make_function(frame)
        PROGRAMS.add(made)
        return made

    def read_module(*args: Any) -> IRModule:
        made = make_module(*args)
        PROGRAMS.add(made)
        return made

    FunctionFrame.finish = finish
    for user in (entry, module):
        user.read_module = read_module


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Keep the programs of a test module for its first test."""
    PROGRAMS.room = 10_000
    try:
        return (yield)
    finally:
        PROGRAMS.room = PER_TEST
        if fresh := PROGRAMS.take():
            PROGRAMS.of_modules.setdefault(collector.nodeid, []).extend(fresh)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Check what the test read, and what its module did."""
    result = yield
    programs = PROGRAMS.take()
    for node in item.listchain():
        programs += PROGRAMS.of_modules.pop(node.nodeid, [])
    PROGRAMS.is_checking = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScriptWarning)
            for program in programs:
                require_round_trip(program, PROGRAMS.texts)
    finally:
        PROGRAMS.is_checking = False
    return result
