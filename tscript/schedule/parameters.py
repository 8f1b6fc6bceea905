"""Where a buffer comes from, and what must hold before a function takes another one as its parameter."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.ir.buffer import Buffer
from tscript.ir.expr import Call, GlobalVar, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import pre_order_visit
from tscript.schedule.buffers import allocation_of
from tscript.schedule.errors import refuse
from tscript.schedule.sref import StmtSRef
from tscript.schedule.state import ScheduleState


@dataclass
class Home:
    """The block that allocates a buffer; for a parameter of the function, its root block."""

    site: StmtSRef
    is_parameter: bool


def home_of(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> Home:
    """Where a buffer that a block uses comes from; refused for a view of another one."""
    site = allocation_of(block, buffer)
    if site is not None:
        return Home(site, False)
    function = state.mod[state.function_of(block)]
    if any(b is buffer for b in function.buffer_map.values()):
        return Home(state.root_of(block), True)
    refuse(
        f"`{buffer.name}`, which {{0}} uses, is a view of another buffer, and its layout depends on that one",
        block.block,
        hint="change the buffer that it is a view of",
    )


def require_own_interface(state: ScheduleState, home: Home, new: Buffer) -> None:
    """Refuse to let a function take `new` where that would leave one of its sizes unknown, or where other functions
    call it as it is.
    """
    var = state.function_of(home.site)
    function = state.mod[var]
    sizes = _bare_sizes(function, {})
    old = next(b for b in function.buffer_map.values() if b.data is new.data)
    lost = [v for v in sizes if v not in _bare_sizes(function, {old: new})]
    if lost:
        names = ", ".join(f"`{v.name}`" for v in lost)
        refuse(
            f"the function knows {names} from the shape of `{new.name}` only, which would not tell any more",
            home.site.block,
            hint="give the function the size as a parameter of its own",
        )
    for other in state.mod.functions.values():
        if _calls(other, var):
            refuse(f"`{new.name}` is a parameter of a function that is called with the present layout", home.site.block)


def _bare_sizes(function: PrimFunc, changed: dict[Buffer, Buffer]) -> dict[Var, None]:
    """The variables that arguments tell: scalar parameters, and dimensions, strides and offsets that are just one."""
    found = {p: None for p in function.params if p not in function.buffer_map}
    for b in function.buffer_map.values():
        now = changed.get(b, b)
        found.update({e: None for e in (*now.shape, *now.strides, now.elem_offset) if isinstance(e, Var)})
    return found


def _calls(function: PrimFunc, var: GlobalVar) -> bool:
    found = False

    def look(node: object) -> bool:
        nonlocal found
        found = found or (isinstance(node, Call) and node.op is var) or node is var
        return not found

    pre_order_visit(function.body, look)
    return found
