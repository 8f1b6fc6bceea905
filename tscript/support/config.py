"""Settings: the only reader of environment variables.

Each knob is a field of `Config` and an environment variable; `KNOBS` lists them. A value set by
`configure` wins over the environment, for the code inside the `with` block and the threads and tasks that
copy its context.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting: its field in `Config`, the variables it is read from (first one found wins), what it does."""

    field: str
    variables: tuple[str, ...]
    read: Callable[[str], Any]
    meaning: str


def _flag(text: str) -> bool:
    word = text.strip().lower()
    if word in ("", "0", "false", "no", "off"):
        return False
    if word in ("true", "yes", "on") or word.isdecimal():
        return True
    raise ValueError("it is neither yes (1) nor no (0)")


def _text(text: str) -> str | None:
    return text or None


def _cache(text: str) -> str:
    word = text.strip()
    if word.lower() in ("", "0", "false", "no", "off"):
        return "off"
    return "auto" if word.lower() in ("1", "true", "yes", "on", "auto") else word


def _count(text: str) -> int | None:
    if not text.strip():
        return None
    number = int(text) if text.strip().isdecimal() else 0
    if number < 1:
        raise ValueError("it is no number from 1 on")
    return number


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in force.

    Attributes: `pygmentize_style` (colours of `show()`: "light", "dark", "ansi" or the name of a Pygments
    style; None chooses by where the text goes), `black_format` (run a formatter over shown programs),
    `full_traceback` (show tscript's own frames in errors), `dump` (folder, with an optional `:glob` of pass
    names, that programs are written to after each pass), `num_threads` (threads that run a parallel loop, until
    `runtime.set_num_threads` says another number; None means one for each core), `cache` (folder that compiled code
    is kept in; "auto" is a folder of the user's, "off" keeps none).
    """

    pygmentize_style: str | None = None
    black_format: bool = False
    full_traceback: bool = False
    dump: str | None = None
    num_threads: int | None = None
    cache: str = "auto"


KNOBS: Final = (
    Knob("pygmentize_style", ("TSCRIPT_PYGMENTIZE_STYLE", "TVM_PYGMENTIZE_STYLE"), _text, "Colours of shown programs."),
    Knob(
        "black_format", ("TSCRIPT_BLACK_FORMAT", "TVM_BLACK_FORMAT"), _flag, "Format shown programs with ruff or black."
    ),
    Knob("full_traceback", ("TSCRIPT_FULL_TRACEBACK",), _flag, "Keep tscript's own frames in tracebacks."),
    Knob("dump", ("TSCRIPT_DUMP",), _text, "Folder (`folder:glob`) that programs are written to after each pass."),
    Knob("num_threads", ("TSCRIPT_NUM_THREADS", "TVM_NUM_THREADS"), _count, "Threads of parallel loops; read once."),
    Knob("cache", ("TSCRIPT_CACHE",), _cache, "Folder that compiled code is kept in, or `off`."),
)

_override: ContextVar[Config | None] = ContextVar("tscript_config", default=None)


def from_environment(environ: Mapping[str, str] | None = None) -> Config:
    """The settings that the environment alone gives. Raises ValueError, naming the variable, for a bad value.

    >>> from_environment({"TSCRIPT_DUMP": "out"}).dump
    'out'
    """
    source = os.environ if environ is None else environ
    found: dict[str, Any] = {}
    for knob in KNOBS:
        for variable in knob.variables:
            if variable in source:
                try:
                    found[knob.field] = knob.read(source[variable])
                except ValueError as e:
                    raise ValueError(f"{variable}={source[variable]!r} cannot be used: {e}") from e
                break
    return Config(**found)


def current() -> Config:
    """The settings in force here. Without `configure` the environment is read anew each time."""
    override = _override.get()
    return from_environment() if override is None else override


@contextmanager
def configure(**changes: Any) -> Generator[Config]:
    """Change settings for the code inside the `with` block.

    Raises TypeError for a name that is no setting.

    >>> with configure(dump="out") as config:
    ...     config.dump
    'out'
    """
    names = [f.name for f in fields(Config)]
    for name in changes:
        if name not in names:
            close = difflib.get_close_matches(name, names) or names
            raise TypeError(f"there is no setting {name!r}; did you mean {', '.join(close)}?")
    config = replace(current(), **changes)
    token = _override.set(config)
    try:
        yield config
    finally:
        _override.reset(token)


def cache_folder() -> Path | None:
    """Where compiled code is kept, or None.

    >>> with configure(cache="off"):
    ...     cache_folder() is None
    True
    """
    chosen = current().cache
    if chosen == "off":
        return None
    if chosen != "auto":
        return Path(chosen).expanduser()
    home = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(home) if home else Path.home() / ".cache") / "tscript"
    except RuntimeError:
        return None  # an account without a home


def knob_table() -> str:
    """The settings as a Markdown table, for the documentation."""
    rows = ["| setting | environment variable | default | meaning |", "|---|---|---|---|"]
    defaults = Config()
    for knob in KNOBS:
        variables = ", ".join(f"`{v}`" for v in knob.variables)
        rows.append(f"| `{knob.field}` | {variables} | `{getattr(defaults, knob.field)!r}` | {knob.meaning} |")
    return "\n".join(rows)
