"""The steps of a trace: the program before and after each, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tscript.analysis.cost import Cost, CostEstimator, Number
from tscript.ir.expr import Var
from tscript.ir.function import IRModule
from tscript.schedule.instruction import Instruction
from tscript.support.errors import TScriptError
from tscript.target.target import Target

REFUSALS = (TScriptError, ValueError, TypeError, IndexError)
"""What a step raises that does not fit the program."""


@dataclass(frozen=True)
class TraceStep:
    """A step and the program after it.

    `calls` are the lines of the trace that belong to it: queries and samples, the change itself, whose place is `main`,
    and behind the last change what still follows. Step 0 is the start and has none. `refusal` is why the step could
    not be replayed; the program is then that before it.
    """

    name: str
    calls: tuple[str, ...]
    main: int
    mod: IRModule
    refusal: str = ""

    @property
    def call(self) -> str:
        """The line that changes the program; for the start, nothing."""
        return self.calls[self.main] if 0 <= self.main < len(self.calls) else ""


def collect_steps(
    insts: Sequence[Instruction], lines: Sequence[str], programs: Iterable[IRModule], first: IRModule
) -> list[TraceStep]:
    """The steps of instructions, from their texts and the program after each, which is worked out on the way.

    Queries and samples belong to the change they come before. The first instruction that is refused ends the list.
    """
    steps = [TraceStep("start", (), -1, first)]
    pending: list[str] = []
    after = iter(programs)
    for inst, line in zip(insts, lines, strict=True):
        pending.append(line)
        name = inst.kind.method
        try:
            mod = next(after)
        except REFUSALS as error:
            said = str(error) or type(error).__name__
            steps.append(TraceStep(name, tuple(pending), len(pending) - 1, steps[-1].mod, said))
            return steps
        if not inst.kind.is_pure:
            steps.append(TraceStep(name, tuple(pending), len(pending) - 1, mod))
            pending = []
    if pending:
        last = steps.pop()
        steps.append(TraceStep(last.name, (*last.calls, *pending), last.main, last.mod))
    return steps


def costs_of(
    steps: Sequence[TraceStep], target: Target | str | None = None, values: Mapping[Var | str, int] | None = None
) -> list[Cost]:
    """The cost after each step, all with the caches that fit the last one."""
    caches = CostEstimator(target, values).cost(steps[-1].mod).caches
    estimator = CostEstimator(target, values, caches)
    return [estimator.cost(step.mod) for step in steps]


# -- figures --------------------------------------------------------------------------------------

Figure = tuple[float | int | None, str]
"""A number, where it is known, and its text."""


def figures(costs: Sequence[Cost]) -> tuple[list[str], list[list[Figure]]]:
    """The names of the figures that say something of these costs, and for each cost their values."""
    names: list[str] = ["FLOPs"]
    table: list[list[Figure]] = [[_flops(c)] for c in costs]

    def column(name: str, values: Sequence[Figure], needed: bool = True) -> None:
        if needed:
            names.append(name)
            for row, value in zip(table, values, strict=True):
                row.append(value)

    def counts(name: str, attribute: str, needed: bool = True) -> None:
        values: list[Number] = [getattr(c, attribute) for c in costs]
        column(name, [_counted(v) for v in values], needed or any(not _is_zero(v) for v in values))

    counts("math calls", "math_calls", needed=False)
    counts("opaque calls", "opaque_calls", needed=False)
    counts("parallel", "parallelism")
    counts("lanes", "lanes")
    counts("iterations", "iterations")
    counts("guards", "guards")
    scopes = list(dict.fromkeys(s for c in costs for s in c.scopes))
    for scope in scopes if len(scopes) > 1 else []:
        column(scope, [_sized(c.scopes.get(scope, 0)) for c in costs])
    for cache in costs[0].caches:
        through: list[int | None] = [(c.traffic or {}).get(cache.name) for c in costs]
        column(cache.name, [_sized(t) for t in through])
    column("FLOP/byte", [(c.intensity, _ratio(c.intensity)) for c in costs])
    return names, table


def buffer_columns(cost: Cost) -> list[str]:
    """What `buffer_rows` says."""
    return ["buffer", "scope", "touched", "loaded", "stored", *(f"through {c.name}" for c in cost.caches)]


def buffer_rows(cost: Cost) -> list[list[str]]:
    """For each buffer: name, scope, and sizes as text."""
    return [
        [b.name, b.scope, *(_sized(n)[1] for n in (b.touched, b.loaded, b.stored)),
         *(_sized(b.traffic.get(c.name))[1] for c in cost.caches)]
        for b in cost.buffers
    ]  # fmt: skip


def _flops(cost: Cost) -> Figure:
    """A bound from above where guards are not known, from below where calls are not."""
    number, text = _counted(cost.flops)
    above, below = not cost.exact, not _is_zero(cost.opaque_calls)
    return number, ("~ " if above and below else "≤ " if above else "≥ " if below else "") + text


def _is_zero(value: Number) -> bool:
    return isinstance(value, int) and value == 0


def _counted(value: Number) -> Figure:
    return (value, short_count(value)) if isinstance(value, int) else (None, str(value))


def _sized(value: Number | None) -> Figure:
    if value is None:
        return None, "?"
    return (value, short_bytes(value)) if isinstance(value, int) else (None, f"{value} B")


def _ratio(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"


def short_count(value: int) -> str:
    """A count in at most six characters where it is large.

    >>> short_count(4096), short_count(2147483648)
    ('4096', '2.15 G')
    """
    return _short(value, 1000, ("", " k", " M", " G", " T", " P", " E"))


def short_bytes(value: int) -> str:
    """A size in bytes, or in units of 1024.

    >>> short_bytes(512), short_bytes(16384)
    ('512 B', '16 KiB')
    """
    return _short(value, 1024, (" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"))


def _short(value: int, base: int, units: tuple[str, ...]) -> str:
    if abs(value) < 10000:
        return f"{value}{units[0]}" if base == 1000 or abs(value) < base else f"{_three(value / base)}{units[1]}"
    power, size = 0, float(value)
    while abs(size) >= base and power < len(units) - 1:
        size /= base
        power += 1
    return f"{_three(size)}{units[power]}"


def _three(value: float) -> str:
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# -- text -----------------------------------------------------------------------------------------


def report(steps: Sequence[TraceStep], costs: Sequence[Cost], colours: bool = False) -> str:
    """A table with a line for each step: figures, then the call. Figures that changed are bold with `colours`."""
    names, table = figures(costs)
    heads = ["step", *names]
    body = [[str(k), *(text for _, text in row)] for k, row in enumerate(table)]
    widths = [max(len(r[d]) for r in [heads, *body]) for d in range(len(heads))]
    lines = ["  ".join(h.rjust(w) for h, w in zip(heads, widths, strict=True)) + "  call"]
    for k, row in enumerate(body):
        cells: list[str] = []
        for d, (text, width) in enumerate(zip(row, widths, strict=True)):
            cell = text.rjust(width)
            changed = k and d and body[k - 1][d] != text
            cells.append(f"\033[1m{cell}\033[0m" if changed and colours else cell)
        said = steps[k].call or "(start)"
        lines.append("  ".join(cells) + "  " + said + (" (refused)" if steps[k].refusal else ""))
    return "\n".join(lines)


__all__ = [
    "Figure", "REFUSALS", "TraceStep", "buffer_columns", "buffer_rows", "collect_steps", "costs_of", "figures",
    "report", "short_bytes", "short_count",
]  # fmt: skip
