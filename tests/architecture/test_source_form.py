"""Files and functions stay small, and what is public is described."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MAX_FILE = 500
MAX_FUNCTION = 80
# Longer where splitting would tear apart what is read together. Ceilings: lower them as files shrink.
LONG_FILES = {
    "tscript/ir/expr.py": 690,  # the grammar of expressions
}
LONG_FUNCTIONS: dict[str, int] = {}


def _functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_files_are_short(modules):
    sizes = {m.relative: m.text.count("\n") for m in modules.values()}
    wrong = [f"{n} lines: {f}" for f, n in sorted(sizes.items()) if n > LONG_FILES.get(f, MAX_FILE)]
    assert not wrong, "\n".join(wrong)


def test_functions_are_short(modules):
    wrong = []
    for m in modules.values():
        for node in _functions(m.tree):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            if size > LONG_FUNCTIONS.get(f"{m.relative}:{node.name}", MAX_FUNCTION):
                wrong.append(f"{size} lines: {m.relative}:{node.lineno} {node.name}")
    assert not wrong, "\n".join(wrong)


def test_the_lists_of_exceptions_name_only_what_needs_one(modules):
    sizes = {m.relative: m.text.count("\n") for m in modules.values()}
    stale = [f for f in LONG_FILES if sizes.get(f, 0) <= MAX_FILE]
    assert not stale, f"these files are short enough, or gone: {stale}"


def _undescribed(body: list[ast.stmt], prefix: str) -> list[str]:
    missing: list[str] = []
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            missing += _undescribed(node.body, prefix)
            continue
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        # Handlers named after the node they handle need no sentence each: their class says what it does with nodes.
        handler = re.match(r"(visit|rewrite|leave|emit|print|parse)_[A-Z]", node.name)
        copies = {ast.unparse(d).split(".")[-1] for d in node.decorator_list}
        if handler or copies & {"overload", "setter", "override"}:
            continue
        if ast.get_docstring(node) is None:
            missing.append(f"{prefix}.{node.name} (line {node.lineno})")
        if isinstance(node, ast.ClassDef):
            missing += _undescribed(node.body, f"{prefix}.{node.name}")
    return missing


def test_what_is_public_is_described(modules):
    missing = []
    for m in modules.values():
        if "cli.kernels" in m.name:
            continue
        if ast.get_docstring(m.tree) is None:
            missing.append(m.relative)
        private = any(part.startswith("_") and part != "__main__" for part in m.name.split("."))
        if not private:
            missing += _undescribed(m.tree.body, m.name)
    assert not missing, "\n".join(missing)


MODULES_WITH_EXAMPLES = sorted(
    ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for p in (ROOT / "tscript").rglob("*.py")
    if ">>> " in p.read_text(encoding="utf-8") and "kernels" not in p.parts
)


@pytest.mark.parametrize("name", MODULES_WITH_EXAMPLES)
def test_examples_in_docstrings_run(name):
    importlib.import_module("tscript")
    module = importlib.import_module(name)
    outcome = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_an_ignored_type_error_names_its_rule(modules):
    wrong = [
        f"{m.relative}:{n}"
        for m in modules.values()
        for n, line in enumerate(m.text.splitlines(), 1)
        if re.search(r"#\s*(pyright|basedpyright):\s*ignore(?!\[)", line) or re.search(r"#\s*type:\s*ignore", line)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_text_speaks_of_the_project_alone():
    done = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    files = done.stdout.splitlines() if done.returncode == 0 else list(ROOT.rglob("*.py"))
    # Written in pieces, so that this file does not trip over itself.
    words = re.compile("/" + r"(work|root|opt)/|\bTO" + r"DO\b|\bFIX" + "ME\\b")
    wrong = []
    for name in files:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".ipynb"} and path.is_file():
            for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if words.search(line):
                    wrong.append(f"{name}:{n}: {line.strip()[:100]}")
    assert not wrong, "\n".join(wrong)
