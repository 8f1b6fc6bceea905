"""Programs for a person: colours in terminals, markup in notebooks, formatters."""

from __future__ import annotations

import difflib
import html as _html
import shutil
import subprocess
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from tscript.ir.base import register_printer
from tscript.printer.colours import ansi, style_sheet, tokens, true_colour
from tscript.printer.options import PrintOptions
from tscript.printer.render import script
from tscript.support import config

try:
    import pygments as _pygments
    from pygments import formatters as _formatters
    from pygments import lexers as _lexers
    from pygments import styles as _styles
except ImportError:  # colours of one's own choice need it; everything else does without
    _pygments = _formatters = _lexers = _styles = None

BUILT_IN_STYLES = ("light", "dark", "ansi")


class _Hints:
    given: dict[str, None] = {}  # noqa: RUF012


def _hint_once(text: str) -> None:
    if text not in _Hints.given:
        _Hints.given[text] = None
        warnings.warn(text, stacklevel=4)


def html(node: Any, **options: Any) -> str:
    """Markup of a program that needs nothing else: classes, and variables for light and dark themes."""
    return markup(script(node, **options))


def markup(text: str, theme: str | None = None) -> str:
    """Markup of printed text. `theme` "light" or "dark" holds whatever the page looks like."""
    parts = [
        _html.escape(part, quote=False)
        if kind is None
        else f'<span class="ts-{kind}">{_html.escape(part, quote=False)}</span>'
        for kind, part in tokens(text)
    ]
    forced = f" tscript-{theme}" if theme else ""
    return f'<style>\n{style_sheet()}\n</style>\n<pre class="tscript-code{forced}">{"".join(parts)}</pre>'


def show(node: Any, style: Any = None, black_format: bool | None = None, **options: Any) -> None:
    """Print a program for a person.

    In a notebook: markup. In a terminal: colours. Into a file or pipe: plain text. `style` is "light", "dark",
    "ansi" (colours also in a notebook), or a Pygments style (name or class; ValueError for an unknown name);
    default: the setting `pygmentize_style`, then what fits the place. `black_format` runs `ruff format` or
    `black` first; default: the setting `black_format`.
    """
    show_text(script(node, **options), style, black_format)


def show_text(text: str, style: Any = None, black_format: bool | None = None) -> None:
    """`show` for text that is printed already."""
    settings = config.current()
    if settings.black_format if black_format is None else black_format:
        text = formatted(text)
    style = settings.pygmentize_style if style is None else style
    display = notebook_display()
    if display is not None and style != "ansi":
        # Front ends without markup, such as consoles and comparisons of notebooks, take the plain text.
        display.display({"text/html": _notebook_markup(text, style), "text/plain": text}, raw=True)
    elif display is not None or sys.stdout.isatty():
        print(_terminal_text(text, style))
    else:
        print(text)


def notebook_display() -> Any:
    """IPython's display module where output goes to a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or type(shell).__name__ == "TerminalInteractiveShell":
        return None
    return sys.modules.get("IPython.display")


def _notebook_markup(text: str, style: Any) -> str:
    if style is None:
        return markup(text)
    if style in ("light", "dark"):
        return markup(text, style)
    if not _has_pygments(style):
        return markup(text)
    _require_style(style)
    made = _formatters.HtmlFormatter(style=style, noclasses=True)  # pyright: ignore[reportOptionalMemberAccess, reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]
    return _highlighted(text, made)


def _terminal_text(text: str, style: Any) -> str:
    if style in (None, "ansi"):
        return ansi(text)
    if style in ("light", "dark"):
        return true_colour(text, dark=style == "dark")
    if not _has_pygments(style):
        return text
    _require_style(style)
    made = _formatters.Terminal256Formatter(style=style)  # pyright: ignore[reportOptionalMemberAccess, reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]
    return _highlighted(text, made).rstrip("\n")


def _highlighted(text: str, formatter: Any) -> str:
    lexer = _lexers.PythonLexer()  # pyright: ignore[reportOptionalMemberAccess, reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]
    return str(_pygments.highlight(text, lexer, formatter))  # pyright: ignore[reportOptionalMemberAccess, reportUnknownMemberType, reportUnknownArgumentType]


def _has_pygments(style: Any) -> bool:
    if _pygments is None:
        _hint_once(f"the style {style!r} needs Pygments (pip install pygments); the text is shown without its colours")
        return False
    return True


def _require_style(style: Any) -> None:
    if not isinstance(style, str):
        return
    names: list[str] = [*BUILT_IN_STYLES, *_styles.get_all_styles()]  # pyright: ignore[reportOptionalMemberAccess, reportUnknownMemberType]
    if style not in names:
        close = difflib.get_close_matches(style, names) or BUILT_IN_STYLES
        raise ValueError(f"unknown style {style!r}; did you mean {' or '.join(map(repr, close))}?")


def formatted(text: str) -> str:
    """The text as `ruff format`, or else `black`, lays it out; the text as it is, with a warning, without them."""
    for command in (["ruff", "format", "--quiet", "-"], ["black", "--quiet", "-"]):
        program = _find_program(command[0])
        if program is None:
            continue
        done = subprocess.run([program, *command[1:]], input=text, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.rstrip("\n")
        reason = done.stderr.strip().splitlines()
        warnings.warn(
            f"{command[0]} could not format the program: {reason[0] if reason else 'no reason'}", stacklevel=3
        )
        return text
    _hint_once("black_format needs ruff or black (pip install ruff); the program is shown as it is")
    return text


def _find_program(name: str) -> str | None:
    """The program on the search path, or beside the running Python (an environment that is not activated)."""
    return shutil.which(name) or shutil.which(name, path=sys.exec_prefix + "/bin")


class _Registered:
    """The printer as IR nodes call it."""

    def script(self, node: Any, options: Mapping[str, Any]) -> str:
        return script(node, **options)

    def show(self, node: Any, options: Mapping[str, Any]) -> None:
        show(node, **options)

    def html(self, node: Any) -> str:
        return html(node)


register_printer(_Registered())

__all__ = ["BUILT_IN_STYLES", "PrintOptions", "formatted", "html", "markup", "notebook_display", "show", "show_text"]
