"""What every primitive works on: the state, the meaning of handles, random numbers, and the record of the step."""

from __future__ import annotations

from typing import Any

from tscript.arith import simplify
from tscript.ir.expr import GlobalVar, IntImm, PrimExpr, Var
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import post_order_visit, substitute
from tscript.ir.stmt import Block, For
from tscript.schedule.errors import refuse
from tscript.schedule.numeric import NumericCheck, Unverified
from tscript.schedule.rng import LinearCongruential
from tscript.schedule.rv import RV, BlockRV, LoopRV, new_expr_rv
from tscript.schedule.sref import Mark, StmtSRef
from tscript.schedule.state import ScheduleState
from tscript.schedule.trace import Trace

Value = StmtSRef | int


class ScheduleCore:
    """State, handles, random numbers and trace of a schedule: what primitives see of it."""

    def __init__(self, mod: IRModule, seed: int, debug_mask: int, render_level: str, enable_check: bool) -> None:
        self.state = ScheduleState(mod, debug_mask)
        self.symbols: dict[Any, Value] = {}
        self.rng = LinearCongruential(seed)
        self.trace: Trace | None = Trace()
        self.error_render_level = render_level
        self.enable_check = enable_check
        # What the program was when checks of meaning were turned off, innermost last; and how it is compared with it.
        self.unverified: tuple[Unverified, ...] = ()
        self.numeric = NumericCheck()
        self.compares_always = False
        self.original = {**mod.functions}
        self.func_working_on: GlobalVar | None = _focus(mod)
        self.decision: Any = None
        self.recorded: dict[str, Any] = {}
        # What the user has done, with how the schedule was before; and the handles of steps that were undone.
        self.history: list[Any] = []
        self.undone: dict[Any, None] = {}
        self.following: list[tuple[str, dict[str, Any]]] = []

    # -- which checks are made ----------------------------------------------------------------

    @property
    def enable_check(self) -> bool:
        """Whether steps are refused that may change what the program computes.

        This alone decides about checks of meaning: dependences, coverage, the kinds of axes and blocks. What keeps the
        program well formed is checked without asking.
        """
        return self._enable_check and not self.unverified

    @enable_check.setter
    def enable_check(self, value: bool) -> None:
        self._enable_check = value

    @property
    def compares_steps(self) -> bool:
        """Whether the program is run and compared after each step."""
        if self.unverified:
            return self.unverified[-1].every_step
        return self.compares_always

    # -- meaning of handles ---------------------------------------------------------------------

    def block(self, rv: BlockRV) -> StmtSRef:
        """The block behind a handle. TypeError for what is none, ValueError for one that is gone."""
        return self._sref(rv, BlockRV, "block")

    def loop(self, rv: LoopRV) -> StmtSRef:
        """The loop behind a handle; it may be a mark (see `sref`). TypeError, ValueError as for `block`."""
        return self._sref(rv, LoopRV, "loop")

    def block_or_loop(self, rv: BlockRV | LoopRV) -> StmtSRef:
        """The statement behind a handle of either sort."""
        if not isinstance(rv, (BlockRV, LoopRV)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected a block or loop of this schedule, got {rv!r}")
        return self._sref(rv, type(rv), "block or loop")

    def _sref(self, rv: Any, kind: type, what: str) -> StmtSRef:
        if not isinstance(rv, kind):
            raise TypeError(f"expected a {what} of this schedule, got {rv!r}")
        found = self.symbols.get(rv)
        if found is None and rv in self.undone:
            raise ValueError(f"the {what} no longer exists: the step that gave it was undone")
        if found is None:
            raise IndexError(f"{rv!r} is no {what} of this schedule; handles belong to the schedule that made them")
        assert isinstance(found, StmtSRef)
        if not found.alive and not isinstance(found, Mark):
            raise ValueError(f"the {what} no longer exists: it was {found.death}")
        return found

    def integer(self, value: Any) -> int:
        """The number a sampled integer, an expression of such, or a plain integer stands for."""
        if isinstance(value, bool) or not isinstance(value, (int, PrimExpr)):
            raise TypeError(f"expected an integer, got {value!r}")
        if isinstance(value, int):
            return value
        known: dict[Var, PrimExpr] = {}

        def look(node: object) -> None:
            if isinstance(node, Var) and isinstance(number := self.symbols.get(node), int):
                known[node] = IntImm(node.dtype, number)

        post_order_visit(value, look)
        result = simplify(substitute(value, known)) if known else value
        if not isinstance(result, IntImm):
            raise ValueError(f"`{value}` is no number of this schedule")
        return result.value

    # -- new handles ----------------------------------------------------------------------------

    def new_block(self, sref: StmtSRef) -> BlockRV:
        """A handle of a block."""
        rv = BlockRV()
        self.symbols[rv] = sref
        return rv

    def new_loop(self, sref: StmtSRef) -> LoopRV:
        """A handle of a loop."""
        rv = LoopRV()
        self.symbols[rv] = sref
        return rv

    def new_integer(self, value: int) -> Var:
        """A handle of a number."""
        rv = new_expr_rv()
        self.symbols[rv] = value
        return rv

    def block_of(self, stmt: Block) -> BlockRV:
        """A handle of a block that is now in the program."""
        return self.new_block(self.state.stmt2ref[stmt])

    def loop_of(self, stmt: For) -> LoopRV:
        """A handle of a loop that is now in the program."""
        return self.new_loop(self.state.stmt2ref[stmt])

    def forget_since(self, steps: int, handles: int) -> None:
        """Forget all steps of the trace and all handles but the first so many of each."""
        while self.trace is not None and len(self.trace.insts) > steps:
            self.trace.pop()
        while len(self.symbols) > handles:
            self.symbols.popitem()

    # -- names ----------------------------------------------------------------------------------

    def function_root(self, func_name: str | None) -> tuple[str, StmtSRef]:
        """Name and root block of a function; without a name, of the one in focus."""
        if func_name is None:
            if self.func_working_on is None:
                raise ValueError("the module has several functions: give func_name, or choose one with `work_on`")
            func_name = self.func_working_on.name_hint
        var = self.state.mod.get_global_var(func_name)
        root = self.state.root_block(var)
        if root is None:
            raise ValueError(f"function {func_name!r} has no root block, so it cannot be scheduled")
        return func_name, root

    def find_block(self, name: str, func_name: str | None) -> tuple[str, StmtSRef]:
        """The only block of that name. ScheduleError, listing close matches, for none or several."""
        resolved, root = self.function_root(func_name)
        blocks = [root, *self.state.blocks_below(root)]
        found = [b for b in blocks if b.block.name_hint == name]
        if len(found) == 1:
            return resolved, found[0]
        if found:
            names = ", ".join(f"{{{i}}}" for i in range(len(found)))
            refuse(f"{len(found)} blocks of {resolved} are called {name!r}: {names}", *[b.block for b in found])
        known = ", ".join(b.block.name_hint for b in blocks)
        refuse(f"{resolved} has no block {name!r}", hint=f"its blocks are {known}")

    # -- what a sampling step tells ---------------------------------------------------------------

    def decide(self, decision: Any) -> None:
        """Say what was decided, for the trace."""
        self.decision = decision

    def record_as(self, **values: Any) -> None:
        """Say how arguments are to be recorded, where they were resolved first."""
        self.recorded.update(values)

    def then(self, method: str, **values: Any) -> None:
        """Have another step follow this one, recorded as a step of its own."""
        self.following.append((method, values))


def _focus(mod: IRModule) -> GlobalVar | None:
    functions = [v for v, f in mod.functions.items() if isinstance(f, PrimFunc)]  # pyright: ignore[reportUnnecessaryIsInstance]
    main = [v for v in functions if v.name_hint == "main"]
    return main[0] if main else functions[0] if len(functions) == 1 else None


__all__ = ["RV", "ScheduleCore", "Value"]
