"""Programs from files: a Python file that defines kernels, or the printed text of one."""

from __future__ import annotations

import ast
import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from tscript.ir.function import IRModule, PrimFunc
from tscript.parser.entry import from_source
from tscript.support.errors import TScriptError

Program = PrimFunc | IRModule


class LoadError(TScriptError):
    """A file that cannot be read as a program."""


def load_file(path: Path) -> dict[str, Program]:
    """The functions and modules that the file defines, by name, in order of definition.

    A file without imports is taken for printed text and parsed; any other is run as Python runs it.
    Raises LoadError for a file that is not there, is not Python or stops with an error, and
    ScriptError for a mistake in a kernel.
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise LoadError(f"cannot read {path}: {reason}") from error
    except SyntaxError as error:
        raise LoadError(f"{path}:{error.lineno}:{error.offset}: {error.msg}") from error
    if not any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.walk(tree)):
        return _parse_printed(path, text)
    namespace = vars(execute(path))
    return {name: value for name, value in namespace.items() if isinstance(value, (PrimFunc, IRModule))}


def _parse_printed(path: Path, text: str) -> dict[str, Program]:
    if not text.strip():
        raise LoadError(f"{path} is empty")
    program = from_source(text)
    return {program.__name__ if isinstance(program, PrimFunc) else "Module": program}


def execute(path: Path) -> ModuleType:
    """The module that running a Python file makes. LoadError if it stops with an error."""
    # Decorators look their module up by name to find source text and globals, so it has to be listed.
    name = f"_tscript_program_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{path} does not have the name of a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except TScriptError:
        raise
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f"{path}:{lines[-1]}" if lines else str(path)
        raise LoadError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def pick(programs: Mapping[str, Program], name: str, path: Path) -> Program:
    """The program called `name`, or the function `m.f` of a module `m`. Raises LoadError without one."""
    head, _, member = name.partition(".")
    found = programs.get(head)
    if found is None:
        known = ", ".join(programs) or "none"
        raise LoadError(f"{path} defines no kernel called {head!r}; it defines: {known}")
    if not member:
        return found
    if isinstance(found, PrimFunc) or member not in found:
        functions = "none" if isinstance(found, PrimFunc) else ", ".join(v.name_hint for v in found)
        raise LoadError(f"{head} has no function {member!r}; it has: {functions}")
    return found[member]
