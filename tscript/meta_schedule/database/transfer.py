"""A schedule of one program carried over to another that has the same main reduction."""

from __future__ import annotations

from typing import Any

from tscript.ir.function import IRModule
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block
from tscript.ir.structural import structural_equal
from tscript.meta_schedule.database.anchor import anchor_block
from tscript.meta_schedule.database.record import TuningRecord
from tscript.schedule.errors import ScheduleError
from tscript.schedule.instruction import Instruction
from tscript.schedule.rv import BlockRV, LoopRV
from tscript.schedule.schedule import Schedule
from tscript.schedule.trace import Trace


def schedule_like(mod: IRModule, record: TuningRecord) -> Schedule | None:
    """A schedule of `mod` that treats its main reduction as the record treats that of its workload.

    Steps on blocks that `mod` lacks are left out; blocks that the record does not know are inlined where they can be.
    None where the steps on the reduction itself do not carry over.
    """
    if structural_equal(mod, record.workload.mod, map_free_vars=True):
        return record.schedule(mod)
    old_anchor, new_anchor = anchor_block(record.workload.mod), anchor_block(mod)
    if old_anchor is None or new_anchor is None:
        return None
    try:
        return _Transfer(mod, record, old_anchor.name_hint, new_anchor.name_hint).run()
    except ScheduleError:
        return None


class _Transfer:
    """Both programs side by side: the old one tells which block each handle means."""

    def __init__(self, mod: IRModule, record: TuningRecord, old_name: str, new_name: str) -> None:
        self.old = Schedule(record.workload.mod)
        self.new = Schedule(mod)
        self.trace: Trace = record.trace
        self.names = {old_name: new_name}
        self.in_old: dict[Any, Any] = {}
        self.in_new: dict[Any, Any] = {}

    def run(self) -> Schedule:
        """The schedule of the new program."""
        untouched = self._names_of_new()
        for inst in self.trace.insts:
            made = self._on_old(inst)
            if all(h in self.in_new for h in inst.input_handles() if isinstance(h, (BlockRV, LoopRV))):
                self._on_new(inst, made)
        for name in untouched:
            if name not in self.names.values():
                self._inline(name)
        return self.new

    def _on_old(self, inst: Instruction) -> list[Any]:
        made = self._run(self.old, inst, self.in_old, inst.attrs)
        self.in_old.update(zip(inst.outputs, made, strict=True))
        return made

    def _on_new(self, inst: Instruction, made: list[Any]) -> None:
        attrs = list(inst.attrs)
        if inst.kind.name == "GetBlock":
            attrs[0] = self.names.get(attrs[0], attrs[0])
            if attrs[0] not in self._names_of_new() and attrs[0] != "root":
                return
        got = self._run(self.new, inst, self.in_new, attrs)
        blocks = [(o, m) for o, m in zip(inst.outputs, made, strict=True) if isinstance(m, BlockRV)]
        if (len(blocks) == len(made) and len(made) > 1) or len(got) != len(made):
            # Blocks of a list are told apart by name: the programs may have other ones around the reduction.
            by_name = {self._name(self.new, g): g for g in got if isinstance(g, BlockRV)}
            for out, old in blocks:
                name = self._name(self.old, old)
                found = by_name.get(self._renamed(name))
                if found is not None:
                    self.in_new[out] = found
            return
        self.in_new.update(zip(inst.outputs, got, strict=True))

    def _run(self, sch: Schedule, inst: Instruction, mapped: dict[Any, Any], attrs: list[Any]) -> list[Any]:
        inputs = Trace.mapped_inputs(inst, mapped)
        return sch.run_instruction(inst, inputs, attrs, self.trace.get_decision(inst))

    def _renamed(self, name: str) -> str:
        for old, new in self.names.items():
            if name == old or name.startswith(f"{old}_"):
                return new + name[len(old) :]
        return name

    def _name(self, sch: Schedule, rv: Any) -> str:
        block = sch.get(rv)
        return block.name_hint if isinstance(block, Block) else ""

    def _names_of_new(self) -> list[str]:
        names: list[str] = []

        def look(node: object) -> None:
            if isinstance(node, Block) and node.name_hint != "root":
                names.append(node.name_hint)

        for func in self.new.mod.functions.values():
            post_order_visit(func.body, look)
        return names

    def _inline(self, name: str) -> None:
        for how in (self.new.compute_inline, self.new.reverse_compute_inline):
            try:
                how(self.new.get_block(name))
            except ScheduleError:
                continue
            return
