"""Findings, and how they are shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from tscript.support.errors import CheckError
from tscript.support.span import Span

PROVEN, POSSIBLE = "proven", "possible"


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a program, or may be.

    `kind`: "out-of-bounds", "uninitialized" or "race". `status`: "proven" when there is an input and an iteration
    for which it happens, `witness` by name of variable; "possible" when it could not be shown not to happen. A
    possible finding may have a `witness` too, of what would happen if the iteration takes place.
    """

    kind: str
    status: str
    message: str
    function: str
    buffer: str
    witness: Mapping[str, int] = field(default_factory=dict[str, int])
    statement: str = ""
    span: Span | None = None
    hint: str = ""

    @property
    def is_proven(self) -> bool:
        """Whether it certainly happens for some input."""
        return self.status == PROVEN

    def __str__(self) -> str:
        lines = [f"{self.status} {self.kind}: {self.message}"]
        if self.witness:
            lines.append("  with " + ", ".join(f"{name} = {value}" for name, value in self.witness.items()))
        lines.append(f"  in {self.function}" + (f": {self.statement}" if self.statement else ""))
        if self.span is not None:
            lines.append(f"  --> {self.span}")
            if text := self.span.render():
                lines.append(text)
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


class Report(Sequence[Finding]):
    """All findings, proven ones first, and `notes` about what could not be looked into or depends on what is meant."""

    def __init__(self, findings: Sequence[Finding], notes: Sequence[str] = ()) -> None:
        self._findings = sorted(findings, key=lambda f: not f.is_proven)
        self.notes = tuple(notes)

    @property
    def proven(self) -> list[Finding]:
        """What certainly happens for some input."""
        return [f for f in self._findings if f.is_proven]

    @property
    def possible(self) -> list[Finding]:
        """What could not be shown not to happen."""
        return [f for f in self._findings if not f.is_proven]

    def failures(self, strict: bool = False) -> list[Finding]:
        """What a gate should stop at: proven findings, and with `strict` all."""
        return list(self._findings) if strict else self.proven

    def require_none(self, strict: bool = False) -> None:
        """CheckError, with the findings as its text, if there are `failures(strict)`."""
        failures = self.failures(strict)
        if failures:
            raise CheckError("\n\n".join(map(str, failures)), self)

    @overload
    def __getitem__(self, index: int) -> Finding: ...
    @overload
    def __getitem__(self, index: slice) -> list[Finding]: ...
    def __getitem__(self, index: int | slice) -> Finding | list[Finding]:
        return self._findings[index]

    def __len__(self) -> int:
        return len(self._findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._findings)

    def __str__(self) -> str:
        parts = [str(f) for f in self._findings]
        parts += [f"note: {n}" for n in self.notes]
        parts.append(f"{len(self.proven)} proven, {len(self.possible)} possible")
        return "\n\n".join(parts)

    def show(self) -> None:
        """Print the report."""
        print(self)

    def __repr__(self) -> str:
        return f"<Report: {len(self.proven)} proven, {len(self.possible)} possible>"
