"""From a node to the text of a program, with the places of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.stmt import MatchBufferRegion, Stmt
from tscript.printer.core import Line, Marked, Place, Printer
from tscript.printer.func import print_function, print_module
from tscript.printer.options import PathMark, PrintOptions
from tscript.printer.stmt import match_line
from tscript.printer.underline import decorate

OMITTED = "# Metadata omitted. Use show_meta=True in script() method to show it."


@dataclass(frozen=True, slots=True)
class TextSpan:
    """Where a node stands in a printed program. Lines and columns count from 1; `end_column` is one past the end.

    Lines are those of the program: rows of carets and replaced lines do not count, line numbers take no columns.
    """

    node: Any
    line: int
    column: int
    end_line: int
    end_column: int
    underlined: bool = False


@dataclass(frozen=True, slots=True)
class Printed:
    """A printed program: `text`, and `spans`, the places of all nodes in it (several for one that recurs)."""

    text: str
    spans: tuple[TextSpan, ...]

    def find(self, node: Any) -> tuple[TextSpan, ...]:
        """The places of one node, in the order of the text; empty for a node that is not in it."""
        return tuple(s for s in self.spans if s.node is node)


def render(node: Any, options: PrintOptions | None = None) -> Printed:
    """Print `node` and tell where everything stands.

    >>> from tscript.ir.expr import Var
    >>> x = Var("x")
    >>> [(s.line, s.column) for s in render(x * 2 + x).find(x)]
    [(1, 1), (1, 9)]
    """
    options = options or PrintOptions()
    p = Printer(options, node)
    p.tracked = True
    lines, text_lines = _print(p, node, options)
    numbers = {line: i + 1 for i, line in enumerate(lines)}
    spans = [span for line in lines for span in _text_spans(line, numbers[line], options)]
    spans += [_place_span(place, numbers, options) for place in p.places]
    spans.sort(key=lambda s: (s.line, s.column, -s.end_line, -s.end_column))
    carets = _carets(spans, lines, text_lines, options)
    return Printed(decorate(text_lines, carets, options), tuple(spans))


def script(node: Any, **options: Any) -> str:
    """The text of `node`. Options are those of `PrintOptions`; TypeError for others.

    >>> from tscript.ir.expr import Var
    >>> script(Var("i") + 1)
    'i + 1'
    """
    made = PrintOptions.make(options)
    if made.path_to_underline or made.obj_to_underline or made.path_to_annotate or made.obj_to_annotate:
        return render(node, made).text
    _, text = _print(Printer(made, node), node, made)
    return decorate(text, {}, made) if made.print_line_numbers else "\n".join(text)


def _print(p: Printer, node: Any, options: PrintOptions) -> tuple[list[Line], list[str]]:
    mark = PathMark.tree(options)
    if isinstance(node, PrimFunc):
        name = options.name or node.attrs.get("global_symbol") or "main"
        lines = _with_header(p, print_function(p, node, name, 0, mark))
    elif isinstance(node, IRModule):
        lines = _with_header(p, print_module(p, node, mark))
    else:
        lines = _fragment(p, node, mark)
    if p.metadata.entries:
        if options.show_meta:
            lines.insert(0, Line(0, f'metadata = tvm.ir.load_json("""{_in_quotes(p.metadata.to_json())}""")'))
        else:
            lines.append(Line(0, OMITTED, comment=True))
    unit = " " * options.indent_spaces
    text = [_finished(line, unit) for line in lines]
    while text and not text[-1]:
        text.pop()
        lines.pop()
    return lines, text


def _in_quotes(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _finished(line: Line, unit: str) -> str:
    text = _plain(line)
    notes = [] if line.note is None else [line.note]
    if isinstance(line.text, Marked):
        notes += [n for *_, n in line.text.places if n is not None and n != line.note]
    comment = "  # " + "; ".join(" ".join(n.split("\n")) for n in dict.fromkeys(notes)) if notes else ""
    return unit * line.indent + text + comment


def _with_header(p: Printer, lines: list[Line]) -> list[Line]:
    header: list[Line] = []
    if p.uses_ir:
        header.append(Line(0, f"# from tvm.script import ir as {p.options.ir_prefix}", comment=True))
    if p.uses_tir:
        header.append(Line(0, f"# from tvm.script import tir as {p.options.tir_prefix}", comment=True))
    return [*header, Line(0, ""), *lines]


def _fragment(p: Printer, node: Any, mark: PathMark | None) -> list[Line]:
    frame = p.begin(node, 0)
    if isinstance(node, Stmt):
        p.run(p.statement(node, mark))
    elif isinstance(node, MatchBufferRegion):
        frame.lines.append(match_line(p, node))
    else:
        text = p.text([(node, 0, ())], mark)
        if not p.options.verbose_expr:
            frame.lines.clear()
        frame.lines.append(Line(0, text))
    return frame.lines


# -- places ---------------------------------------------------------------------------------------


def _text_spans(line: Line, number: int, options: PrintOptions) -> list[TextSpan]:
    if not isinstance(line.text, Marked):
        return []
    at = line.indent * options.indent_spaces + 1
    return [TextSpan(n, number, s + at, number, e + at, under) for n, s, e, under, _ in line.text.places]


def _plain(line: Line) -> str:
    return line.text.text if isinstance(line.text, Marked) else line.text


def _place_span(place: Place, numbers: dict[Line, int], options: PrintOptions) -> TextSpan:
    unit = options.indent_spaces
    column = place.first.indent * unit + 1
    end_column = place.last.indent * unit + len(_plain(place.last)) + 1
    return TextSpan(place.node, numbers[place.first], column, numbers[place.last], end_column, place.underline)


def _carets(
    spans: list[TextSpan], lines: list[Line], text: list[str], options: PrintOptions
) -> dict[int, list[tuple[int, int]]]:
    """For each line (from 0) the columns (from 0) under which carets go."""
    carets: dict[int, list[tuple[int, int]]] = {}
    for s in spans:
        if not s.underlined:
            continue
        if s.line == s.end_line:
            carets.setdefault(s.line - 1, []).append((s.column - 1, s.end_column - 1))
            continue
        for i in range(s.line - 1, s.end_line):
            if not lines[i].comment and text[i]:
                start = lines[i].indent * options.indent_spaces
                carets.setdefault(i, []).append((start, start + len(_plain(lines[i]))))
    return carets
