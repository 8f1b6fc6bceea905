"""Which part of a program is a keyword, a text, a comment; and how each looks."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from typing import Final

_TOKEN: Final = re.compile(
    r"(?P<comment>#[^\n]*)"
    r'|(?P<string>"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*")'
    r"|(?P<decorator>^[ ]*@[\w.]+)"
    r"|(?P<caret>^[ ]*\^[ ^]*$)"
    r"|(?P<number>(?<![\w.])\d[\w.]*(?:(?<=e)[-+]\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*)",
    re.MULTILINE | re.DOTALL,
)
_AFTER_DEF: Final = re.compile(r"(?:def|class) $")

KINDS: Final = ("comment", "string", "decorator", "caret", "number", "keyword", "definition", "prefix", "constant")
_LIGHT: Final = ("5f6b66", "0a6b2e", "7b2fa0", "b3261e", "8a4b00", "0b57d0", "6a1b9a", "00696b", "8a4b00")
_DARK: Final = ("9aa7a1", "8fd694", "d7a6ff", "ff8a80", "ffc680", "8ab4f8", "e0b0ff", "7fd8d8", "ffc680")
_ANSI: Final = ("90", "32", "35", "1;31", "33", "34", "1;35", "36", "33")
_ANSI_OF: Final[dict[str, str]] = dict(zip(KINDS, _ANSI, strict=True))


def tokens(text: str, prefixes: tuple[str, ...] = ("T", "I")) -> Iterator[tuple[str | None, str]]:
    """The text in parts, each with its kind (one of `KINDS`) or None for plain text."""
    at = 0
    for m in _TOKEN.finditer(text):
        kind, part = m.lastgroup, m[0]
        if kind == "name":
            kind = _kind_of_name(text, m.start(), part, prefixes)
            if kind is None:
                continue
        if m.start() > at:
            yield None, text[at : m.start()]
        yield kind, part
        at = m.end()
    if at < len(text):
        yield None, text[at:]


def _kind_of_name(text: str, start: int, name: str, prefixes: tuple[str, ...]) -> str | None:
    if name in ("True", "False", "None"):
        return "constant"
    if keyword.iskeyword(name):
        return "keyword"
    if name in prefixes and text[start + len(name) : start + len(name) + 1] == ".":
        return "prefix"
    return "definition" if _AFTER_DEF.search(text, max(0, start - 6), start) else None


def ansi(text: str, colours: dict[str, str] = _ANSI_OF) -> str:
    """The text with the sixteen colours that every terminal adapts to its own theme."""
    return "".join(part if kind is None else f"\033[{colours[kind]}m{part}\033[0m" for kind, part in tokens(text))


def true_colour(text: str, dark: bool) -> str:
    """The text with the exact colours of the light or the dark theme."""
    made: dict[str, str] = {}
    for kind, code in zip(KINDS, _DARK if dark else _LIGHT, strict=True):
        red, green, blue = (int(code[i : i + 2], 16) for i in (0, 2, 4))
        made[kind] = f"38;2;{red};{green};{blue}"
    return ansi(text, made)


def _variables(codes: tuple[str, ...], ink: str, paper: str) -> str:
    colours = "".join(f"--ts-{kind}:#{code};" for kind, code in zip(KINDS, codes, strict=True))
    return f"--ts-ink:#{ink};--ts-paper:#{paper};{colours}"


def themed(selector: str, light: str, dark: str, forced: bool = False) -> list[str]:
    """Rules that set the variables of a theme: light by default, dark where the system or the notebook's theme is dark.

    `light` and `dark` are further declarations. With `forced`, a class of the element itself comes first.
    """
    light, dark = _variables(_LIGHT, "1b1f1d", "f7f8f8") + light, _variables(_DARK, "e6eae8", "1e2220") + dark
    in_light = ['[data-jp-theme-light="true"]', 'html[theme="light"]', ".vscode-light", ".vscode-high-contrast-light"]
    in_dark = [
        '[data-jp-theme-light="false"]',
        'html[theme="dark"]',
        ".vscode-dark",
        ".vscode-high-contrast:not(.vscode-high-contrast-light)",
    ]
    own = [[f"{selector}.tscript-{theme}"] if forced else [] for theme in ("light", "dark")]
    return [
        f"{selector}{{{light}}}",
        f"@media (prefers-color-scheme:dark){{{selector}{{{dark}}}}}",
        f"{','.join([f'{page} {selector}' for page in in_light] + own[0])}{{{light}}}",
        f"{','.join([f'{page} {selector}' for page in in_dark] + own[1])}{{{dark}}}",
    ]


def kind_rules(selector: str) -> list[str]:
    """Rules that give each kind of token its colour below `selector`."""
    return [f"{selector} .ts-{kind}{{color:var(--ts-{kind})}}" for kind in KINDS]


def style_sheet() -> str:
    """CSS for `.tscript-code`: light by default, dark where the system or the notebook's theme is dark."""
    return "\n".join(
        [
            *themed(".tscript-code", "", "", forced=True),
            ".tscript-code{color:var(--ts-ink);background:var(--ts-paper);padding:.6em .8em;border-radius:4px;"
            "overflow-x:auto;line-height:1.4;font-family:ui-monospace,Menlo,Consolas,monospace;white-space:pre;"
            "text-align:left}",
            *kind_rules(".tscript-code"),
            ".tscript-code .ts-keyword,.tscript-code .ts-caret{font-weight:600}",
            ".tscript-code .ts-comment{font-style:italic}",
        ]
    )
