"""Programs for a person: terminals, notebooks, pipes, formatters."""

from __future__ import annotations

import io
import re
import sys
import types
from contextlib import contextmanager

import pytest

from tscript.parser import from_source
from tscript.printer import highlight, html
from tscript.printer.colours import KINDS, style_sheet, tokens
from tscript.support.config import configure

TEXT = """@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    # with T.block("root"):
    for i in range(8):
        with T.block("b < c & d"):
            vi = T.axis.spatial(8, i)
            T.reads()
            T.writes(A[vi])
            A[vi] = 1"""


@pytest.fixture
def func():
    return from_source(TEXT)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def terminal():
    """A terminal in place of the output that pytest collects."""
    kept, sys.stdout = sys.stdout, Terminal()
    try:
        yield sys.stdout
    finally:
        sys.stdout = kept


def without_colours(text: str) -> str:
    return re.sub(r"\033\[[0-9;]*m", "", text)


def test_a_pipe_gets_plain_text(func, capsys) -> None:
    func.show()
    assert capsys.readouterr().out == func.script() + "\n"
    func.show(style="dark")
    assert capsys.readouterr().out == func.script() + "\n"


@pytest.mark.parametrize("style", [None, "ansi", "light", "dark", "monokai"])
def test_a_terminal_gets_colours(func, style) -> None:
    with terminal() as out:
        func.show(style=style)
    text = out.getvalue()
    assert "\033[" in text
    assert without_colours(text) == func.script() + "\n"


def test_options_of_script_are_options_of_show(func, capsys) -> None:
    func.show(syntax_sugar=False, tir_prefix="X")
    assert capsys.readouterr().out == func.script(syntax_sugar=False, tir_prefix="X") + "\n"


def test_the_setting_gives_the_style(func) -> None:
    with terminal() as out, configure(pygmentize_style="dark"):
        func.show()
    assert "38;2;" in out.getvalue()


def test_without_pygments_a_chosen_style_gives_plain_text_and_one_hint(func, monkeypatch) -> None:
    monkeypatch.setattr(highlight, "_pygments", None)
    monkeypatch.setattr(highlight._Hints, "given", {})
    with terminal() as out, pytest.warns(UserWarning, match="pip install pygments") as caught:
        func.show(style="monokai")
        func.show(style="monokai")
    assert len(caught) == 1
    assert out.getvalue() == (func.script() + "\n") * 2


def test_an_unknown_style_is_refused_with_the_closest_one(func) -> None:
    with terminal(), pytest.raises(ValueError, match="unknown style 'monokay'; did you mean 'monokai'"):
        func.show(style="monokay")
    with terminal(), pytest.raises(ValueError, match="did you mean 'light' or 'dark' or 'ansi'"):
        func.show(style="zzz")


@pytest.fixture
def notebook(monkeypatch):
    shown: list[dict[str, str]] = []

    def display_data(data: dict[str, str], *, raw: bool) -> None:
        assert raw
        shown.append(data)

    display = types.SimpleNamespace(display=display_data)

    class ZMQInteractiveShell:
        pass

    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=ZMQInteractiveShell))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_notebook_gets_markup(func, notebook, capsys) -> None:
    func.show()
    assert notebook == [{"text/html": html(func), "text/plain": func.script()}]
    assert capsys.readouterr().out == ""


def test_a_notebook_gets_colours_of_a_terminal_when_asked(func, notebook, capsys) -> None:
    func.show(style="ansi")
    text = capsys.readouterr().out
    assert "\033[" in text and without_colours(text) == func.script() + "\n"
    assert notebook == []


def test_a_theme_can_be_forced_in_a_notebook(func, notebook) -> None:
    func.show(style="dark")
    assert '<pre class="tscript-code tscript-dark">' in notebook[0]["text/html"]


def test_a_style_of_pygments_works_in_a_notebook(func, notebook) -> None:
    func.show(style="monokai")
    assert "<span style=" in notebook[0]["text/html"]


def test_markup_says_what_the_text_says(func) -> None:
    markup = func._repr_html_()
    body = re.sub(r"<[^>]*>", "", markup.split("</style>\n")[1])
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        body = body.replace(entity, char)
    assert body == func.script()
    assert '<span class="ts-string">"b &lt; c &amp; d"</span>' in markup
    assert '<span class="ts-definition">f</span>' in markup
    assert '<span class="ts-keyword">for</span>' in markup


def test_markup_needs_nothing_from_elsewhere(func) -> None:
    markup = html(func)
    assert not re.search(r"https?://|src=|url\(|@import|<script", markup)
    assert "style=" not in markup


def test_every_colour_is_a_variable_with_a_light_and_a_dark_value() -> None:
    css = style_sheet()
    for kind in KINDS:
        assert len(set(re.findall(rf"--ts-{kind}:(#[0-9a-f]{{6}})", css))) == 2
        assert f".ts-{kind}{{color:var(--ts-{kind})}}" in css
    for theme in ("prefers-color-scheme:dark", '[data-jp-theme-light="false"]', '[data-jp-theme-light="true"]',
                  ".vscode-dark", ".vscode-light", ".vscode-high-contrast"):  # fmt: skip
        assert theme in css


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def test_every_colour_is_readable_on_its_paper() -> None:
    for rule in re.findall(r"\{(--ts-ink[^}]*)\}", style_sheet()):
        values = dict(re.findall(r"--ts-(\w+):(#[0-9a-f]{6})", rule))
        paper = luminance(values.pop("paper"))
        for name, colour in values.items():
            light, dark = sorted((luminance(colour), paper), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{name} {colour}"


def test_tokens_lose_nothing() -> None:
    text = 'x = T.f("a # b", 1.5e-05) # c\n    ^^^ ^\n@T.g\nfor i in None:'
    parts = list(tokens(text))
    assert "".join(part for _, part in parts) == text
    kinds = {part: kind for kind, part in parts}
    assert kinds['"a # b"'] == "string" and kinds["# c"] == "comment" and kinds["1.5e-05"] == "number"
    assert kinds["T"] == "prefix" and kinds["    ^^^ ^"] == "caret" and kinds["@T.g"] == "decorator"


def test_a_formatter_lays_out_what_is_shown(func, capsys) -> None:
    func.show(black_format=True)
    text = capsys.readouterr().out
    assert "\n\n\n@T.prim_func" in text or "\n\n@T.prim_func" in text
    assert from_source(text).script() == func.script()
    with configure(black_format=True):
        func.show()
        assert capsys.readouterr().out == text
        func.show(black_format=False)
        assert capsys.readouterr().out == func.script() + "\n"


def test_without_a_formatter_the_text_stays_and_a_hint_comes(func, capsys, monkeypatch) -> None:
    monkeypatch.setattr(highlight, "_find_program", lambda name: None)
    monkeypatch.setattr(highlight._Hints, "given", {})
    with pytest.warns(UserWarning, match="needs ruff or black"):
        func.show(black_format=True)
    assert capsys.readouterr().out == func.script() + "\n"


def test_a_formatter_that_fails_leaves_the_text_and_says_why(func) -> None:
    with pytest.warns(UserWarning, match="could not format"):
        assert highlight.formatted("x = (") == "x = ("
