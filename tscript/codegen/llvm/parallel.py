"""Parallel loops: the body becomes a function that the pool of threads calls for ranges of iterations.

What the body uses from outside is passed through a structure in memory to a small function, the task, which hands it
on as plain parameters. So the optimiser sees loop and pointers inside as it does in a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from tscript.codegen.abi import KernelAbi
from tscript.codegen.llvm.builder import ModuleText, quoted
from tscript.codegen.llvm.stmt import FRAME, FunctionEmitter, plain_symbol
from tscript.codegen.llvm.thread_pool import RUN_SYMBOL
from tscript.codegen.llvm.types import register_type
from tscript.ir import stmt as st
from tscript.ir.base import Node
from tscript.ir.buffer import Buffer
from tscript.ir.construct import const
from tscript.ir.expr import Call, IntImm, Let, Op, Var
from tscript.ir.function import PrimFunc
from tscript.ir.functor import post_order_visit
from tscript.ir.occurrences import any_below, mentions
from tscript.lower.memories import Memories

_NOTHING: Final = st.Evaluate(const(0))


@dataclass(slots=True)
class _Captured:
    """Values of the function around that a body uses: the LLVM type, operand there and attributes of each."""

    values: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])

    def add(self, kind: str, operand: str, attributes: str = "") -> str:
        """The operand inside for an operand outside."""
        if not operand.startswith("%"):
            return operand  # a constant is one everywhere
        self.values.append((kind, operand, attributes))
        return f"%c{len(self.values) - 1}"

    @property
    def structure(self) -> str:
        """The LLVM type of all of them in memory."""
        return f"{{ {', '.join(kind for kind, _, _ in self.values)} }}"


class KernelEmitter(FunctionEmitter):
    """Emits a kernel whose parallel loops run on several threads, at most `most_threads` where that is not 0."""

    def __init__(self, module: ModuleText, abi: KernelAbi, func: PrimFunc) -> None:
        super().__init__(module, abi, func)
        self.most_threads = 0
        self._is_inside = False
        # The loop that this function runs a range of, from a first to a last value.
        self._own: tuple[st.For, str, str] | None = None
        self._memories: Memories | None = None
        # The values that loop variables can have, where the ends are constants.
        self._ranges: dict[Var, tuple[int, int]] = {}

    def _for(self, s: st.For) -> None:
        if isinstance(s.min, IntImm) and isinstance(s.extent, IntImm) and s.extent.value > 0:
            self._ranges[s.loop_var] = s.min.value, s.min.value + s.extent.value
        if self._own is not None and s is self._own[0]:
            _, begin, end = self._own
            body, done = self.b.new_label("loop"), self.b.new_label("done")
            self.b.jump(body)
            self._iterations(s, begin, end, body, done)
        elif s.kind == st.ForKind.PARALLEL and not self._is_inside and _is_worthwhile(s):
            self._parallel(s)
        else:
            super()._for(s)

    def _parallel(self, s: st.For) -> None:
        b = self.b
        start, extent = self.index(s.min), self.index(s.extent)
        run, done = b.new_label("parallel"), b.new_label("done")
        b.branch(b.let(f"icmp sgt i64 {extent}, 0"), run, done)
        b.begin(run)
        captured = _Captured()
        task = self._outlined(s, captured, start)
        context = "null"
        if captured.values:
            context = b.at_entry(f"alloca {captured.structure}, align 64")
            for n, (kind, operand, _) in enumerate(captured.values):
                at = b.let(f"getelementptr inbounds {captured.structure}, ptr {context}, i32 0, i32 {n}")
                b.emit(f"store {kind} {operand}, ptr {at}")
        b.module.declare(RUN_SYMBOL, "i32 {}(ptr, ptr, i64, i64)")
        args = [f"ptr @{quoted(task)}", f"ptr {context}", f"i64 {extent}", f"i64 {self.most_threads}"]
        self.call_or_leave(RUN_SYMBOL, args)
        b.jump(done)
        b.begin(done)

    def _outlined(self, s: st.For, captured: _Captured, start: str) -> str:
        """Emit the body as functions of their own; the name of the task."""
        module = self.b.module
        inner = KernelEmitter(module, self.abi, self.func)
        inner._is_inside = True
        inner._ranges = self._ranges
        inner.b.fast_math, inner.b.contracts = self.b.fast_math, self.b.contracts
        inner.b.features, inner.b.attributes = self.b.features, self.b.attributes
        self._capture(s, captured, inner)
        first = captured.add("i64", start)
        if self.abi.name in module.recursive:
            # A thread of the pool has less on its stack than this says, never more.
            captured.values.append(("i64", self.b.let(f"add i64 %stack, {FRAME}"), ""))
        begin, end = "%begin", "%end"
        if first != "0":
            begin, end = (inner.b.let(f"add i64 {first}, {p}") for p in (begin, end))
        memories, loop = _hoisted(s)
        inner._own = loop, begin, end
        inner.statement(memories)
        number = len(module.bodies)
        task, part = (f"{plain_symbol(self.abi.name)}.{word}{number}" for word in ("task", "part"))
        module.bodies.append(
            inner.finished(part, _parameters(s, captured, self.abi.name in module.recursive), " noinline")
        )
        module.bodies.append(_task_text(task, part, captured, module.attributes.get(self.abi.name, "")))
        return task

    def _capture(self, s: st.For, captured: _Captured, inner: KernelEmitter) -> None:
        """Pass on the variables from outside that the body uses."""
        mentioned, inside = _mentioned(s)
        used = [v for v in mentioned if v not in inside and v in self.vars]
        pointers = [v for v in (*used, *inside) if v.dtype.is_handle]
        for v in used:
            wide = self.wide_vars.get(v)
            if wide is not None:
                inner.wide_vars[v] = captured.add("i64", wide, _range(*self._ranges.get(v, (0, 0))))
                narrow = inner.wide_vars[v]
                bits = register_type(v.dtype)
                inner.vars[v] = narrow if bits == "i64" else inner.b.let(f"trunc i64 {narrow} to {bits}")
            elif v.dtype.is_handle:
                inner.vars[v] = captured.add("ptr", self.vars[v], self._pointer_facts(v, pointers))
            else:
                inner.vars[v] = captured.add(register_type(v.dtype), self.vars[v])

    def _pointer_facts(self, pointer: Var, others: list[Var]) -> str:
        """What holds of a pointer in a body that uses `others` too."""
        if self._memories is None:
            self._memories = Memories(self.func)
        memories = self._memories
        return "" if any(o is not pointer and memories.may_overlap(pointer, o) for o in others) else " noalias"

    _statements: ClassVar[dict[type[st.Stmt], Any]] = {**FunctionEmitter._statements, st.For: _for}


def _hoisted(loop: st.For) -> tuple[st.Stmt, st.For]:
    """A loop whose body begins by taking memory as one that takes it before, and that loop inside."""
    around: list[st.Stmt] = []
    s = loop.body
    while isinstance(s, (st.Allocate, st.DeclBuffer)):
        if isinstance(s, st.Allocate) and mentions(s.replace(body=_NOTHING), {loop.loop_var: None}):
            break
        around.append(s)
        s = s.body
    inner = loop.replace(body=s)
    result: st.Stmt = inner
    for outer in reversed(around):
        result = outer.replace(body=result)
    return result, inner


def _is_worthwhile(s: st.For) -> bool:
    """Whether a parallel loop has more than one iteration, and no way out of the kernel from inside."""
    if isinstance(s.extent, IntImm) and s.extent.value <= 1:
        return False
    return not any_below(s.body, lambda n: isinstance(n, Call) and isinstance(n.op, Op) and n.op.name == "tir.ret")


def _mentioned(s: st.For) -> tuple[dict[Var, None], dict[Var, None]]:
    """The variables that the body of a loop uses, as values or as the memory of buffers, and those that `s` binds."""
    used: dict[Var, None] = {}
    bound: dict[Var, None] = {s.loop_var: None}

    def visit(n: Node) -> None:
        match n:
            case Var():
                used[n] = None
            case Buffer():
                used[n.data] = None
            case st.For():
                bound[n.loop_var] = None
            case st.LetStmt() | Let():
                bound[n.var] = None
            case st.Allocate() | st.AllocateConst():
                bound[n.buffer_var] = None
            case _:
                pass

    post_order_visit(s.body, visit)
    return used, bound


def _range(low: int, high: int) -> str:
    """The attribute that says that an i64 is at least `low`, and less than `high`."""
    return f" range(i64 {low}, {high})" if -(1 << 62) < low < high < 1 << 62 else ""


def _parameters(s: st.For, captured: _Captured, is_recursive: bool) -> list[str]:
    count = s.extent.value if isinstance(s.extent, IntImm) else 1 << 61
    names = [f"%c{n}" for n in range(len(captured.values))]
    if is_recursive:
        names[-1] = "%stack"
    params = [f"{kind}{facts} {name}" for (kind, _, facts), name in zip(captured.values, names, strict=True)]
    return [*params, f"i64{_range(0, count)} %begin", f"i64{_range(1, count + 1)} %end"]


def _task_text(task: str, part: str, captured: _Captured, attributes: str) -> str:
    lines: list[str] = []
    args: list[str] = []
    for n, (kind, _, _) in enumerate(captured.values):
        lines.append(f"  %p{n} = getelementptr inbounds {captured.structure}, ptr %context, i32 0, i32 {n}")
        lines.append(f"  %c{n} = load {kind}, ptr %p{n}")
        args.append(f"{kind} %c{n}")
    args += ["i64 %begin", "i64 %end"]
    params = "ptr noalias readonly %context, i64 %begin, i64 %end"
    head = f"define internal i32 @{quoted(task)}({params}) nounwind{attributes} {{"
    call = f"  %status = call i32 @{quoted(part)}({', '.join(args)})"
    return "\n".join([head, *lines, call, "  ret i32 %status", "}"])


__all__ = ["KernelEmitter"]
