"""The order of the packages is a test: an import may only point to a package further left."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

LAYERS = (
    "support ir printer arith target analysis parser te interp lower equivalence schedule tensor_intrin codegen "
    "runtime driver library meta_schedule testing contrib cli"
).split()
FACES = len(LAYERS)
PROGRAMS = FACES + 1

# Beyond the order: an oracle must not share the bugs it looks for, and text must not depend on reasoning.
FORBIDDEN = {
    "interp": {"arith", "analysis", "parser", "lower"},
    "printer": {"arith", "parser"},
}
# Heavy or optional packages, and the only places that may import them.
RESERVED = {
    "llvmlite": ("tscript.codegen.llvm",),
    "cupy": ("tscript.codegen.cuda", "tscript.runtime"),
    "xgboost": ("tscript.meta_schedule.cost_model",),
    "torch": ("tscript.meta_schedule.cost_model",),
    "astunparse": ("tscript.parser",),
}
ENVIRONMENT_READER = "tscript.support.config"
# Where a module may be loaded by name, because loading it at import would be too early.
LOADS_BY_NAME = (
    "tscript.driver",
    "tscript.runtime.library",
    "tscript.cli",
    "tscript.parser",
    "tscript.target.detect",
    "tscript.tir",
    "tscript",
)


def layer_of(module: str) -> int:
    """Place of a module in the order; the public faces stand right of every package, kernels right of those."""
    parts = module.split(".")
    if parts[:3] == ["tscript", "cli", "kernels"]:
        return PROGRAMS  # programs as users write them, read as data
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else FACES


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "tscript"


def is_internal(target: str) -> bool:
    return target == "tscript" or target.startswith("tscript.")


def within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == p or module.startswith(p + ".") for p in places)


def is_allowed(module: str, target: str) -> bool:
    """Whether `module` may import `target`, as far as order and separation go."""
    return layer_of(target) <= layer_of(module) and package_of(target) not in FORBIDDEN.get(package_of(module), ())


def test_imports_point_left(modules):
    wrong = [
        f"{m.relative}:{i.line}: {package_of(m.name)} may not import {i.target}"
        for m in modules.values()
        for i in m.imports
        if is_internal(i.target) and not is_allowed(m.name, i.target)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "target", "allowed"),
    [
        ("tscript.parser.core", "tscript.analysis.regions", True),
        ("tscript.analysis.regions", "tscript.parser.core", False),
        ("tscript.interp.run", "tscript.ir.expr", True),
        ("tscript.interp.run", "tscript.arith.bounds", False),
        ("tscript.printer.core", "tscript.arith.bounds", False),
        ("tscript.cli.demo", "tscript.tir", False),
        ("tscript.cli.demo", "tscript", False),
        ("tscript.cli.kernels.mm_relu", "tscript.script.tir", True),
        ("tscript.cli.demo", "tscript.cli.kernels.mm_relu", False),
        ("tscript.tir", "tscript.script", True),
        ("tscript.support.errors", "tscript.ir", False),
    ],
)
def test_the_rule_tells_left_from_right(module, target, allowed):
    assert is_allowed(module, target) is allowed


def test_every_package_has_a_place(modules):
    faces = {"tscript", "script", "tir"}
    packages = {package_of(name) for name, m in modules.items() if m.path.name == "__init__.py"}
    assert packages <= set(LAYERS) | faces, packages - set(LAYERS) - faces


def test_kept_apart_also_through_other_packages(modules):
    reach = {name: _reachable(modules, name) for name in modules}
    wrong = [
        f"{name} reaches {target}"
        for name, targets in reach.items()
        for target in targets
        if package_of(target) in FORBIDDEN.get(package_of(name), ())
    ]
    assert not wrong, "\n".join(wrong)


def _reachable(modules, start: str) -> set[str]:
    seen: set[str] = set()
    stack = [start]
    while stack:
        for i in modules[stack.pop()].imports:
            if i.target in modules and i.target not in seen and not i.type_checking:
                seen.add(i.target)
                stack.append(i.target)
    return seen


def test_no_internal_import_inside_a_function(modules):
    wrong = [
        f"{m.relative}:{i.line}: {i.target}"
        for m in modules.values()
        for i in m.imports
        if is_internal(i.target) and i.in_function and layer_of(m.name) != PROGRAMS
    ]
    assert not wrong, "\n".join(wrong)


def test_modules_do_not_import_in_a_circle(modules):
    state: dict[str, int] = {}
    circles: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if state.get(name) == 2:
            return
        if state.get(name) == 1:
            circles.append(" -> ".join((*path[path.index(name) :], name)))
            return
        state[name] = 1
        for i in modules[name].imports:
            # `from package import name` inside the package itself reads the package's own, already loaded names.
            if i.target in modules and i.target != name and not i.type_checking:
                visit(i.target, (*path, name))
        state[name] = 2

    for name in modules:
        visit(name, ())
    assert not circles, "\n".join(circles)


def test_heavy_packages_have_one_home(modules):
    wrong = [
        f"{m.relative}:{i.line}: {i.target} may be imported only in {', '.join(RESERVED[i.target.split('.')[0]])}"
        for m in modules.values()
        for i in m.imports
        if i.target.split(".")[0] in RESERVED and not within(m.name, RESERVED[i.target.split(".")[0]])
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_configuration_reads_the_environment(modules):
    wrong = []
    for m in modules.values():
        for node in ast.walk(m.tree):
            read = (
                isinstance(node, ast.Attribute)
                and node.attr in ("environ", "getenv", "environb")
                and isinstance(node.value, ast.Name)
                and node.value.id == "os"
            ) or (isinstance(node, ast.ImportFrom) and node.module == "os" and any("env" in a.name for a in node.names))
            if read and m.name != ENVIRONMENT_READER:
                wrong.append(f"{m.relative}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def test_modules_are_loaded_by_name_only_where_it_is_agreed(modules):
    wrong = []
    for m in modules.values():
        for node in ast.walk(m.tree):
            if isinstance(node, ast.Call) and _called_name(node) in ("import_module", "__import__"):
                if not (m.name == "tscript" or within(m.name, LOADS_BY_NAME[:-1])):
                    wrong.append(f"{m.relative}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


def _called_name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def test_an_internal_module_loaded_by_name_is_a_code_generator(modules):
    wrong = []
    for m in modules.values():
        for node in ast.walk(m.tree):
            if isinstance(node, ast.Call) and _called_name(node) in ("import_module", "__import__") and node.args:
                first = node.args[0]
                text = first.value if isinstance(first, ast.Constant) else None
                if isinstance(text, str) and is_internal(text) and not text.startswith("tscript.codegen."):
                    wrong.append(f"{m.relative}:{node.lineno}: {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["tscript", "tscript.__main__"])
def test_import_leaves_the_heavy_packages_alone(package):
    heavy = ("llvmlite", "cupy", "xgboost", "scipy", "torch", "IPython")
    code = f"import sys, {package}; print(*[m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == []


def test_the_top_of_the_repository_holds_what_was_agreed():
    done = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    if done.returncode == 0:
        top = {Path(line).parts[0] for line in done.stdout.splitlines()}
    else:
        built = {"build", "dist", "tscript.egg-info"}  # what an installation may leave in a tree without git
        top = {p.name for p in ROOT.iterdir()} - built
    assert {name for name in top if not name.startswith(".")} == {
        "pyproject.toml", "tscript", "tests", "tutorials", "benchmarks", "README.md",
    }  # fmt: skip
