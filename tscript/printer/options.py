"""What can be asked of the printer."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tscript.ir.base import Node
from tscript.ir.dtype import DataType
from tscript.support.wording import kind_of

Path = tuple[str | int, ...]
"""A place in a program: field names, indices into tuples and keys of mappings, from the root down.

In a function, `("body", "block", "body", "seq", 1)` is the second statement below the root block; in a
module, paths start with `("functions", "name")`.
"""


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """How a program prints. Every field is a keyword of `script()` and `show()`.

    Attributes: `name` (of the function or class, instead of its own), `show_meta` (print what has no script
    form as a first line), `ir_prefix`, `tir_prefix`, `relax_prefix`, `module_alias` (names that the text uses
    and no variable gets), `buffer_dtype`, `int_dtype`, `float_dtype` (types left out of the text),
    `verbose_expr` (lone expressions show the definitions of their variables), `indent_spaces`,
    `print_line_numbers`, `num_context_lines` (how many lines around underlined ones are kept; negative: all),
    `syntax_sugar` (`T.grid`, `T.axis.remap`, implicit root block, buffers as parameters, `return`, merged
    allocations), `show_object_address` (names end in the address of their object), `show_all_struct_info`
    (accepted, without effect here), `path_to_underline` (paths), `path_to_annotate` (path to text),
    `obj_to_underline` (nodes), `obj_to_annotate` (node to text).
    """

    name: str | None = None
    show_meta: bool = False
    ir_prefix: str = "I"
    tir_prefix: str = "T"
    relax_prefix: str = "R"
    module_alias: str = "cls"
    buffer_dtype: str = "float32"
    int_dtype: str = "int32"
    float_dtype: str = "void"
    verbose_expr: bool = False
    indent_spaces: int = 4
    print_line_numbers: bool = False
    num_context_lines: int = -1
    syntax_sugar: bool = True
    show_object_address: bool = False
    show_all_struct_info: bool = True
    path_to_underline: tuple[Path, ...] | None = None
    path_to_annotate: Mapping[Path, str] | None = None
    obj_to_underline: tuple[Any, ...] | None = None
    obj_to_annotate: Mapping[Any, str] | None = None

    def __post_init__(self) -> None:
        for option in fields(self):
            self._check_kind(option.name, getattr(self, option.name), option.default)
        for what in ("ir_prefix", "tir_prefix", "relax_prefix", "module_alias"):
            text: str = getattr(self, what)
            legal = text.isidentifier() and not keyword.iskeyword(text)
            if not legal and not (what == "module_alias" and text == ""):
                raise ValueError(f"Invalid `{what}`: {text!r} is not an identifier")
        if self.name is not None and (not self.name.isidentifier() or keyword.iskeyword(self.name)):
            raise ValueError(f"Invalid `name`: {self.name!r} is not an identifier")
        if self.ir_prefix == self.tir_prefix:
            raise ValueError(f"Invalid `tir_prefix`: {self.tir_prefix!r} is the `ir_prefix` too")
        for what in ("buffer_dtype", "int_dtype", "float_dtype"):
            object.__setattr__(self, what, DataType(getattr(self, what)))
        if self.indent_spaces < 1:
            raise ValueError(f"Invalid `indent_spaces`: {self.indent_spaces} is not positive")
        for what in ("path_to_underline", "obj_to_underline"):
            value: Iterable[Any] | None = getattr(self, what)
            if value is not None:
                object.__setattr__(self, what, tuple(value))

    @staticmethod
    def _check_kind(name: str, value: object, default: object) -> None:
        if name in _COLLECTIONS:
            kinds = () if isinstance(value, (str, Node)) else (type(None), Iterable)
            demand = "holds nodes or paths"
        elif name == "name":
            kinds, demand = (str, type(None)), "is a text or None"
        elif isinstance(default, bool):
            kinds, demand = bool, "is True or False"
        elif isinstance(default, int):
            kinds, demand = int, "is a number"
        else:
            kinds, demand = str, "is a text"
        if not isinstance(value, kinds):
            raise TypeError(f"Invalid `{name}`: it {demand}, not {kind_of(value)}")

    @staticmethod
    def make(options: Mapping[str, Any]) -> PrintOptions:
        """The options named in a mapping. Raises TypeError for a name that is no option."""
        for name in options:
            if name not in _NAMES:
                close = difflib.get_close_matches(name, _NAMES) or _NAMES
                raise TypeError(f"script() has no option {name!r}; did you mean {', '.join(close)}?")
        return PrintOptions(**options) if options else _DEFAULT


_COLLECTIONS = ("path_to_underline", "path_to_annotate", "obj_to_underline", "obj_to_annotate")
_NAMES: tuple[str, ...] = tuple(f.name for f in fields(PrintOptions))
_DEFAULT = PrintOptions()


@dataclass(slots=True)
class PathMark:
    """A node of the tree of paths that are to be marked. `step` follows it while the printer goes down."""

    children: dict[str | int, PathMark] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]
    underline: bool = False
    note: str | None = None

    def _reach(self, path: Iterable[str | int]) -> PathMark:
        here = self
        for key in path:
            here = here.children.setdefault(key, PathMark())
        return here

    @staticmethod
    def tree(options: PrintOptions) -> PathMark | None:
        """The tree of all paths in the options, or None without any."""
        if not options.path_to_underline and not options.path_to_annotate:
            return None
        root = PathMark()
        for path in options.path_to_underline or ():
            root._reach(path).underline = True
        for path, text in (options.path_to_annotate or {}).items():
            root._reach(path).note = text
        return root


def step(mark: PathMark | None, *keys: str | int) -> PathMark | None:
    """The mark below `mark` along `keys`, or None where no requested path goes."""
    for key in keys:
        if mark is None:
            return None
        mark = mark.children.get(key)
    return mark
