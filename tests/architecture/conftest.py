"""The source tree as data: every module, its syntax tree and what it imports."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Import:
    """One imported module. `target` is the deepest name that is a module of the project."""

    target: str
    line: int
    in_function: bool
    type_checking: bool


@dataclass
class Module:
    """A file of the package."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: list[Import] = field(default_factory=list)

    @property
    def relative(self) -> str:
        """The path from the top of the repository."""
        return self.path.relative_to(ROOT).as_posix()


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


class _Imports(ast.NodeVisitor):
    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.found: list[Import] = []
        self.depth = 0
        self.checking = False

    def _add(self, target: str, line: int) -> None:
        self.found.append(Import(target, line, self.depth > 0, self.checking))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, f"relative import in line {node.lineno}"
        assert node.module is not None
        for alias in node.names:
            deeper = f"{node.module}.{alias.name}"
            self._add(deeper if deeper in self.names else node.module, node.lineno)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    def visit_If(self, node: ast.If) -> None:
        before, self.checking = self.checking, self.checking or _is_type_checking(node.test)
        for child in node.body:
            self.visit(child)
        self.checking = before
        for child in node.orelse:
            self.visit(child)


@pytest.fixture(scope="session")
def modules() -> dict[str, Module]:
    """Every module of the package by its dotted name."""
    found: dict[str, Module] = {}
    for path in sorted((ROOT / "tscript").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found[_module_name(path)] = Module(_module_name(path), path, text, ast.parse(text, str(path)))
    names = set(found)
    for module in found.values():
        visitor = _Imports(names)
        visitor.visit(module.tree)
        module.imports = visitor.found
    return found
