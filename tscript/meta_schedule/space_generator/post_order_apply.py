"""The space that rules span: every rule is offered every block, consumers first."""

from __future__ import annotations

from collections.abc import Callable

from tscript.ir.expr import GlobalVar
from tscript.ir.function import IRModule
from tscript.ir.functor import post_order_visit
from tscript.ir.stmt import Block
from tscript.meta_schedule.schedule_rule.apply_custom_rule import ApplyCustomRule
from tscript.meta_schedule.space_generator.defaults import MutatorProbs, Postprocs, Rules, SpaceOfParts
from tscript.meta_schedule.tune_context import TuneContext
from tscript.schedule.rv import BlockRV
from tscript.schedule.schedule import Schedule
from tscript.support.errors import TuneError

_Block = tuple[str, str]


class PostOrderApply(SpaceOfParts):
    """The space that the rules span: each rule in turn is applied to each block, the root first, then from the last
    block to the first; every alternative that a rule gives goes on by itself.

    `f_block_filter(block)` leaves out blocks for which it is false. Blocks with an annotation `schedule_rule` are
    left to that rule. Raises TuneError for a program in which two blocks have one name.
    """

    def __init__(
        self,
        f_block_filter: Callable[[Block], bool] | None = None,
        sch_rules: Rules = "from-target",
        postprocs: Postprocs = "from-target",
        mutator_probs: MutatorProbs = "from-target",
    ) -> None:
        super().__init__(sch_rules, postprocs, mutator_probs)
        self.f_block_filter = f_block_filter

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        self._rng = context.rng

    def generate_design_space(self, mod: IRModule) -> list[Schedule]:
        """The schedules that all rules together give."""
        start = Schedule(mod, seed=self._rng.fork() or 1, error_render_level="none")
        # A handle, once taken, follows its block through all steps and into all copies.
        blocks = [start.get_block(name, func) for name, func in self._blocks(mod)]
        done = [start]
        for rule in self.sch_rules:
            is_custom = isinstance(rule, ApplyCustomRule)
            stack = [(sch, blocks) for sch in reversed(done)]
            done = list[Schedule]()
            while stack:
                sch, remaining = stack.pop()
                block: BlockRV | None = None
                while remaining and block is None:
                    *remaining, last = remaining
                    block = last if _is_open(sch, last, is_custom) else None
                if block is None:
                    done.append(sch)
                else:
                    stack.extend((made, remaining) for made in rule.apply(sch, block))
        return done

    def _blocks(self, mod: IRModule) -> list[_Block]:
        """Blocks in post-order; they are taken from the back."""
        found: dict[_Block, None] = {}
        functions: list[tuple[GlobalVar, object]] = sorted(mod.functions.items(), key=lambda item: item[0].name_hint)
        for var, _ in functions:

            def look(node: object, func: str = var.name_hint) -> None:
                if not isinstance(node, Block) or (self.f_block_filter and not self.f_block_filter(node)):
                    return
                if (node.name_hint, func) in found:
                    raise TuneError(
                        f"two blocks of {func} are named {node.name_hint!r}; rules find blocks by name, so give each "
                        "its own"
                    )
                found[node.name_hint, func] = None

            post_order_visit(mod[var].body, look)
        return list(found)

    def clone(self) -> PostOrderApply:
        """An independent generator of the same settings."""
        return PostOrderApply(self.f_block_filter, **self.settings())


def _is_open(sch: Schedule, block: BlockRV, is_custom: bool) -> bool:
    """Whether a block is still there, and no other rule's."""
    try:
        stmt = sch.get(block)
    except ValueError:
        return False  # inlined by a rule
    assert isinstance(stmt, Block)
    return is_custom or "schedule_rule" not in stmt.annotations
