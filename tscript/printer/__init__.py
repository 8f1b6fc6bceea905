"""IR to script text: `script`, `show`, `html`, and `render`, which also tells where each node stands."""

from __future__ import annotations

from tscript.printer.highlight import html, show
from tscript.printer.options import PrintOptions
from tscript.printer.registry import register_printable
from tscript.printer.render import Printed, TextSpan, render, script

__all__ = [
    "PrintOptions", "Printed", "TextSpan", "html", "register_printable", "render", "script", "show",
]  # fmt: skip
