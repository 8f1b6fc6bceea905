"""A function under construction as text, and the module it belongs to."""

from __future__ import annotations

from dataclasses import dataclass, field

from tscript.codegen.llvm.types import int_vector
from tscript.ir.dtype import DataType
from tscript.ir.function import PrimFunc
from tscript.ir.stmt import Stmt


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong when a kernel returns a given status: its kind, a text, the statement."""

    kind: str
    text: str
    stmt: Stmt | None


@dataclass(slots=True)
class ModuleText:
    """Declarations, helper functions and constants that functions of one module share."""

    functions: dict[str, PrimFunc] = field(default_factory=dict[str, PrimFunc])
    recursive: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    declarations: dict[str, str] = field(default_factory=dict[str, str])
    helpers: dict[str, str] = field(default_factory=dict[str, str])
    constants: list[str] = field(default_factory=list[str])
    externals: dict[str, str] = field(default_factory=dict[str, str])
    intrinsics: dict[str, None] = field(default_factory=dict[str, None])
    failures: list[Failure] = field(default_factory=list[Failure])
    bodies: list[str] = field(default_factory=list[str])

    def declare(self, name: str, signature: str) -> None:
        """Declare a function; `signature` has `{}` where its name goes."""
        self.declarations.setdefault(name, "declare " + signature.replace("{}", f"@{quoted(name)}"))

    def add_failure(self, failure: Failure) -> int:
        """The status by which a kernel reports `failure`."""
        self.failures.append(failure)
        return len(self.failures)

    def add_constant(self, type_text: str, value: str, align: int = 1) -> str:
        """A new private constant; its name."""
        name = f"@const.{len(self.constants)}"
        self.constants.append(f"{name} = private unnamed_addr constant {type_text} {value}, align {align}")
        return name

    def text(self) -> str:
        """The whole module."""
        parts = [*self.constants, *self.declarations.values(), *self.helpers.values(), *self.bodies, _WEIGHTS]
        return "\n".join(parts) + "\n"


_WEIGHTS = '!0 = !{!"branch_weights", i32 1048575, i32 1}\n!1 = !{!"branch_weights", i32 1, i32 1048575}\n!2 = !{i32 1}'


def quoted(name: str) -> str:
    """A name in the quotes LLVM wants around unusual characters."""
    escaped = "".join(c if c.isalnum() or c in "._$-" else "".join(f"\\{b:02X}" for b in c.encode()) for c in name)
    return f'"{escaped}"'


class Builder:
    """Appends instructions to the current block of one function."""

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self.lines: list[str] = []
        self.entry_lines: list[str] = []
        self.label = "body"
        # Fast-math flags of floating-point operations, and whether a product may join a sum in one rounding.
        self.fast_math = ""
        self.contracts = False
        # Features of the CPU that the function is for, and its LLVM attributes if it has a target of its own.
        self.features: frozenset[str] = frozenset()
        self.attributes = ""
        # For values widened from a float below 32 bits: that type, and the bits they come from.
        self.bits_of: dict[str, tuple[DataType, str]] = {}
        self._values = 0
        self._labels = 0

    @property
    def helper_suffix(self) -> str:
        """What the names of helpers that are written for the function's CPU end in: none if that is the module's."""
        if not self.attributes:
            return ""
        known = list(dict.fromkeys(self.module.attributes.values()))
        return f".cpu{known.index(self.attributes)}"

    # -- raw text --------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append("  " + text)

    def let(self, text: str) -> str:
        """Append an instruction; the name of its result."""
        self._values += 1
        name = f"%v{self._values}"
        self.lines.append(f"  {name} = {text}")
        return name

    def at_entry(self, text: str) -> str:
        """An instruction placed at the start of the function (stack memory, for one)."""
        self._values += 1
        name = f"%v{self._values}"
        self.entry_lines.append(f"  {name} = {text}")
        return name

    def new_label(self, hint: str) -> str:
        """A label that no block has yet."""
        self._labels += 1
        return f"{hint}.{self._labels}"

    def begin(self, label: str) -> None:
        """Start the block `label`; the one before must have ended with a jump."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        self.emit(f"br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str, unlikely: bool = False) -> None:
        """End the block with a choice."""
        weights = ", !prof !0" if unlikely else ""
        self.emit(f"br i1 {condition}, label %{then}, label %{otherwise}{weights}")

    # -- common instructions ---------------------------------------------------------------------

    def call(self, result: str, name: str, args: list[tuple[str, str]], declare: bool = True) -> str:
        """Call a function that gives a value; `args` are pairs of type and operand."""
        if declare:
            self.module.declare(name, f"{result} {{}}({', '.join(t for t, _ in args)})")
        return self.let(f"call {result} @{quoted(name)}({', '.join(f'{t} {v}' for t, v in args)})")

    def helper(self, result: str, name: str, body: str, args: list[tuple[str, str]]) -> str:
        """Call the small function `name` of this module, defined by `body` when first used."""
        self.module.helpers.setdefault(name, body)
        return self.let(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in args)})")

    def extract(self, vector_type: str, value: str, lane: int) -> str:
        """One lane of a vector."""
        return self.let(f"extractelement {vector_type} {value}, i32 {lane}")

    def insert(self, vector_type: str, value: str, scalar_type: str, scalar: str, lane: int) -> str:
        """A vector with one lane replaced."""
        return self.let(f"insertelement {vector_type} {value}, {scalar_type} {scalar}, i32 {lane}")

    def splat(self, scalar_type: str, scalar: str, lanes: int) -> str:
        """A scalar in all lanes."""
        if lanes == 1:
            return scalar
        vec = f"<{lanes} x {scalar_type}>"
        one = self.let(f"insertelement {vec} poison, {scalar_type} {scalar}, i32 0")
        return self.let(f"shufflevector {vec} {one}, {vec} poison, {int_vector(32, lanes)} zeroinitializer")

    def each_lane(self, lanes: int, result: str, args: list[tuple[str, str]], name: str) -> str:
        """Call the scalar function `name` on every lane; types in `args` and `result` are those of a lane."""
        if lanes == 1:
            return self.call(result, name, args)
        vec = f"<{lanes} x {result}>"
        value = "poison"
        for lane in range(lanes):
            one = [(t, self.extract(f"<{lanes} x {t}>", v, lane)) for t, v in args]
            value = self.insert(vec, value, result, self.call(result, name, one), lane)
        return value
