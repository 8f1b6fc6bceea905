"""Statements to basic blocks: one function.

A kernel returns a status: 0, or the number of the failure. Memory that it took is given back on every way
out: before each return, for whatever is live there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from tscript.codegen.abi import KernelAbi, kernel_abi
from tscript.codegen.llvm import memory
from tscript.codegen.llvm.builder import Failure, ModuleText, quoted
from tscript.codegen.llvm.expr import ExpressionEmitter
from tscript.codegen.llvm.narrow import round_to
from tscript.codegen.llvm.processors import is_x86
from tscript.codegen.llvm.types import INDEX, is_narrow, memory_scalar, register_type
from tscript.ir import stmt as st
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType
from tscript.ir.expr import BufferLoad, Call, GlobalVar, IntImm, PointerType, PrimExpr, StringImm, Var
from tscript.ir.function import PrimFunc
from tscript.ir.occurrences import any_below
from tscript.ir.semantics import numpy_dtype
from tscript.lower.streams import NONTEMPORAL
from tscript.support.errors import BuildError
from tscript.support.wording import kind_of, with_article

STACK_BYTES: Final = 1024
"""Allocations of at most this constant size live on the stack."""
STACK_BYTES_LOCAL: Final = 16 * 1024
"""Those in scope "local" are meant for registers, or for the first cache at least."""
STACK_TOTAL: Final = 64 * 1024
STACK_OF_CALLS: Final = 4 * 1024 * 1024
"""Bytes of stack that functions calling each other may take; threads have 8 MiB or more."""
FRAME: Final = "{frame}"
"""Stands for the bytes that a call takes, which are known at the end."""
_ALIGN: Final = 64
_MAX_BYTES: Final = (1 << 63) - 1


class FunctionEmitter(ExpressionEmitter):
    """Emits one kernel."""

    def __init__(self, module: ModuleText, abi: KernelAbi, func: PrimFunc) -> None:
        super().__init__(module, abi.name)
        self.abi = abi
        self.func = func
        self._live: list[str] = []
        # Memory to which vectors are stored past the caches, and the bytes that these are aligned to.
        self._streams: dict[Var, int] = {}
        self._has_streams = any_below(func.body, lambda n: isinstance(n, st.AttrStmt) and n.attr_key == NONTEMPORAL)
        self._stack_used = 0
        self._failures: dict[tuple[Any, ...], str] = {}
        self._exits: list[str] = []

    # -- whole function --------------------------------------------------------------------------

    def emit(self, ending: str = "") -> str:
        """The text of the kernel, whose symbol gets an `ending`."""
        params = self.parameters()
        if self.abi.name in self.b.module.recursive:
            params.insert(1, "i64 %stack")
            fits = self.b.let(f"icmp ule i64 %stack, {STACK_OF_CALLS}")
            self.fail_unless(fits, Failure("recursion", "functions of the module call each other too deeply", None))
        self.statement(self.func.body)
        return self.finished(kernel_symbol(self.abi.name) + ending, params)

    def parameters(self) -> list[str]:
        """The parameters as LLVM declares them, whose variables have values from here on."""
        params = ["ptr noalias %result"]
        for i, p in enumerate(self.abi.parameters):
            name = f"%arg{i}"
            self.vars[p.var] = name
            if p.buffer is None:
                params.append(f"{register_type(p.var.dtype)} {name}")
            else:
                self.vars[p.buffer.data] = name
                alias = " noalias" if self.abi.no_alias else ""
                params.append(f"ptr{alias}{self._facts_of(p.buffer)} {name}")
            if p.buffer is None and is_narrow(p.var.dtype):
                # Python's number, and that of another kernel's call, came as a wider one.
                self.vars[p.var] = round_to(self.b, p.var.dtype, name)
        for i, v in enumerate(self.abi.symbols):
            self.vars[v] = f"%size{i}"
            params.append(f"{register_type(v.dtype)} %size{i}")
        return params

    def _facts_of(self, buffer: Buffer) -> str:
        """What calls make sure of for an array: its memory is there as a whole, and aligned as its elements are.

        So a load may come before the condition for it. Calls of other kernels of the module check nothing.
        """
        sizes = [e.value for e in buffer.shape if isinstance(e, IntImm)]
        starts = isinstance(buffer.elem_offset, IntImm) and buffer.elem_offset.value == 0
        if self.abi.name in self.b.module.called or len(sizes) < len(buffer.shape) or buffer.strides or not starts:
            return ""
        size = math.prod(sizes) * buffer.dtype.bytes * buffer.dtype.lanes
        if not 0 < size < 1 << 48:
            return ""
        return f" nonnull align {buffer.dtype.bytes} dereferenceable({size})"

    def finished(self, symbol: str, params: list[str], attributes: str = "") -> str:
        """The text of the function whose statements were emitted; it returns 0 at their end."""
        self._leave("0")
        b = self.b
        own = attributes + b.module.attributes.get(self.abi.name, "")
        head = f"define internal i32 @{quoted(symbol)}({', '.join(params)}) nounwind{own} {{\nentry:"
        # Registers that are kept on the stack: at most one for each line.
        frame = 512 + self._stack_used + 16 * len(b.lines)
        lines = (
            [line.replace(FRAME, str(frame)) for line in b.lines] if self.abi.name in b.module.recursive else b.lines
        )
        return "\n".join([head, *b.entry_lines, "  br label %body", "body:", *lines, *self._exits, "}"])

    def statement(self, s: st.Stmt) -> None:
        """Emit a statement."""
        handler = self._statements.get(type(s))
        if handler is None:
            is_tensor = isinstance(s, st.BufferRealize)
            advice = "allocate the buffer with T.alloc_buffer" if is_tensor else "lower the program first"
            raise BuildError(f"{self.name}: {kind_of(s)} has no native code\n  try: {advice}")
        outer, self.stmt = self.stmt, s
        handler(self, s)
        self.stmt = outer

    # -- leaving ---------------------------------------------------------------------------------

    def _leave(self, status: str) -> None:
        for pointer in reversed(self._live):
            self.b.emit(f"call void @free(ptr {pointer})")
        if self._has_streams and is_x86():
            # Such stores are not ordered before what tells other threads that the work is done.
            self.b.module.declare("llvm.x86.sse.sfence", "void {}()")
            self.b.emit("call void @llvm.x86.sse.sfence()")
        self.b.emit(f"ret i32 {status}")

    def fail_unless(self, condition: str, failure: Failure) -> None:
        """Leave the kernel with `failure` unless `condition` holds."""
        key = (failure.kind, failure.text, id(failure.stmt), tuple(self._live))
        label = self._failures.get(key)
        if label is None:
            label = self._failures[key] = self.b.new_label("fail")
            status = self.b.module.add_failure(failure)
            frees = [f"  call void @free(ptr {p})" for p in reversed(self._live)]
            self._exits += [f"{label}:", *frees, f"  ret i32 {status}"]
        go_on = self.b.new_label("ok")
        self.b.branch(condition, go_on, label, unlikely=True)
        self.b.begin(go_on)

    def emit_return(self, e: PrimExpr) -> None:
        """Store the value where the caller wants it, and leave."""
        value = memory.to_memory(self.b, e.dtype, self.value(e))
        self.b.emit(f"store {memory.memory_type(e.dtype)} {value}, ptr %result, align 8")
        self._leave("0")
        # What follows is never run, but has to stand in a block.
        self.b.begin(self.b.new_label("after"))

    def call_function(self, call: Call, callee: GlobalVar) -> str:
        """Call another kernel of the module; a failure in it is one of this kernel."""
        b = self.b.module
        func = b.functions.get(callee.name_hint)
        if func is None:
            raise self.refuse(
                f"a call of {callee.name_hint}, which the module does not have", "add the function to the module"
            )
        abi = kernel_abi(callee.name_hint, func)
        if abi.symbols:
            raise self.refuse(
                f"a call of {abi.name}, whose sizes ({', '.join(v.name for v in abi.symbols)}) come with its arrays",
                "give them as scalar parameters, since a pointer does not carry them",
            )
        if len(call.args) != len(abi.parameters):
            raise self.refuse(
                f"a call of {abi.name} with {len(call.args)} arguments", f"it takes {len(abi.parameters)}"
            )
        slot = self.b.at_entry("alloca i64, align 8") if abi.returns is not None else "null"
        args = [f"ptr {slot}"]
        if abi.name in b.recursive:
            is_deeper = self.abi.name in b.recursive
            args.append(f"i64 {self.b.let(f'add i64 %stack, {FRAME}') if is_deeper else 0}")
        for p, a in zip(abi.parameters, call.args, strict=True):
            want = register_type(p.var.dtype)
            if register_type(a.dtype) != want:
                raise self.refuse(
                    f"a call of {abi.name} with {with_article(a.dtype)} for `{p.name}`",
                    f"it takes {with_article(p.var.dtype)}",
                )
            args.append(f"{want} {self.value(a)}")
        self.call_or_leave(kernel_symbol(abi.name), args)
        if abi.returns is None:
            return "undef"
        if abi.returns is not call.dtype:
            raise self.refuse(
                f"a call of {abi.name} as {with_article(call.dtype)}", f"it returns {with_article(abi.returns)}"
            )
        bits = self.b.let(f"load {memory.memory_type(abi.returns)}, ptr {slot}, align 8")
        return memory.from_memory(self.b, abi.returns, bits)

    def call_or_leave(self, symbol: str, args: list[str]) -> None:
        """Call a function that returns a status; a failure in it is one of this function."""
        status = self.b.let(f"call i32 @{quoted(symbol)}({', '.join(args)})")
        self.memory_changed()
        failed, fine = self.b.new_label("failed"), self.b.new_label("fine")
        ok = self.b.let(f"icmp eq i32 {status}, 0")
        self.b.branch(ok, fine, failed, unlikely=True)
        self.b.begin(failed)
        self._leave(status)
        self.b.begin(fine)

    # -- statements ------------------------------------------------------------------------------

    def _evaluate(self, s: st.Evaluate) -> None:
        if not isinstance(s.value, (IntImm, StringImm)):
            self.value(s.value)

    def _seq(self, s: st.SeqStmt) -> None:
        for part in s.seq:
            self.statement(part)

    def _store(self, s: st.BufferStore) -> None:
        value = s.value
        if isinstance(value, BufferLoad) and value.buffer.dtype is s.buffer.dtype and s.buffer.dtype.bits >= 8:
            # A copy moves bits; the conversion to a register form and back would be for nothing.
            bits = self.load_bits(value)
        else:
            bits = memory.to_memory(self.b, value.dtype, self.value(value))
        place = self.place(s.buffer, s.indices)
        if s.predicate is None:
            memory.store(self.b, place, bits, line=self._streams.get(s.buffer.data, 0))
        else:
            self._store_where(place, s.predicate, bits)
        self.memory_changed()

    def _store_where(self, place: memory.Place, predicate: PrimExpr, bits: str) -> None:
        mask = self.value(predicate)
        if place.count > 1 and place.element.lanes == 1:
            memory.store(self.b, place, bits, self.lanes_of(predicate, mask, place.count))
            return
        for n, one in enumerate(memory.singles(self.b, place)):
            bit = mask if predicate.dtype.lanes == 1 else self.b.extract(register_type(predicate.dtype), mask, n)
            write, end = self.b.new_label("write"), self.b.new_label("end")
            self.b.branch(bit, write, end)
            self.b.begin(write)
            memory.store(self.b, one, bits if place.count == 1 else memory.lane_group(self.b, place, bits, n))
            self.b.jump(end)
            self.b.begin(end)

    def _let_stmt(self, s: st.LetStmt) -> None:
        self.bind(s.var, self.value(s.value))
        self._inside(s.body, same_memory=True)
        self.release(s.var)

    def _inside(self, body: st.Stmt, same_memory: bool = False) -> None:
        self.push_scope(same_memory)
        self.statement(body)
        self.pop_scope()

    def _if(self, s: st.IfThenElse) -> None:
        b = self.b
        condition = self.value(s.condition)
        then, end = b.new_label("then"), b.new_label("endif")
        otherwise = end if s.else_case is None else b.new_label("else")
        b.branch(condition, then, otherwise)
        for label, body in ((then, s.then_case), (otherwise, s.else_case)):
            if body is not None:
                b.begin(label)
                self._inside(body, same_memory=True)
                b.jump(end)
        b.begin(end)

    def _for(self, s: st.For) -> None:
        b = self.b
        start, extent = self.index(s.min), self.index(s.extent)
        plain = _stays_in_int64(s)
        flags = "nsw " if plain else ""
        end = extent if start == "0" else b.let(f"add {flags}i64 {start}, {extent}")
        body, done = b.new_label("loop"), b.new_label("done")
        any_left = f"slt i64 {start}, {end}" if plain else f"sgt i64 {extent}, 0"
        b.branch(b.let(f"icmp {any_left}"), body, done)
        self._iterations(s, start, end, body, done)

    def _iterations(self, s: st.For, start: str, end: str, body: str, done: str) -> None:
        """The iterations from `start` on, which there is, up to `end`; the block before ended with a jump to `body`."""
        b = self.b
        flags = "nsw " if _stays_in_int64(s) else ""
        latch = b.new_label("next")
        came_from = b.label
        b.begin(body)
        counter, following = f"%i.{body}", f"%next.{body}"
        b.emit(f"{counter} = phi i64 [ {start}, %{came_from} ], [ {following}, %{latch} ]")
        self.wide_vars[s.loop_var] = counter
        dtype = s.loop_var.dtype
        narrow = counter if dtype.bits == 64 else b.let(f"trunc i64 {counter} to {register_type(dtype)}")
        self.bind(s.loop_var, narrow)
        self._inside(s.body)
        self.release(s.loop_var)
        b.jump(latch)
        b.begin(latch)
        b.emit(f"{following} = add {flags}i64 {counter}, 1")
        b.branch(b.let(f"icmp {'slt' if flags else 'ne'} i64 {following}, {end}"), body, done)
        b.begin(done)

    def _while(self, s: st.While) -> None:
        b = self.b
        test, body, done = b.new_label("test"), b.new_label("while"), b.new_label("done")
        b.jump(test)
        b.begin(test)
        self.push_scope()
        condition = self.value(s.condition)
        self.pop_scope()
        b.branch(condition, body, done)
        b.begin(body)
        self._inside(s.body)
        b.jump(test)
        b.begin(done)

    def _assert(self, s: st.AssertStmt) -> None:
        text = s.message.value if isinstance(s.message, StringImm) else str(s.message)
        self.fail_unless(self.value(s.condition), Failure("assert", text, s))
        self.statement(s.body)

    def _attr(self, s: st.AttrStmt) -> None:
        if s.attr_key != NONTEMPORAL or not isinstance(s.node, Var) or not isinstance(s.value, IntImm):
            self.statement(s.body)
            return
        self._streams[s.node] = s.value.value
        self.statement(s.body)
        del self._streams[s.node]

    def _declare(self, s: st.DeclBuffer) -> None:
        self.statement(s.body)

    # -- memory ----------------------------------------------------------------------------------

    def _allocate(self, s: st.Allocate) -> None:
        sizes = [e.value if isinstance(e, IntImm) else None for e in s.extents]
        width = s.dtype.bytes * s.dtype.lanes
        total: int | None = width
        for size in sizes:
            total = None if total is None or size is None else total * size
        scalar = memory_scalar(s.dtype)
        kind = s.buffer_var.type_annotation
        is_local = isinstance(kind, PointerType) and kind.storage_scope == "local"
        limit = STACK_BYTES_LOCAL if is_local else STACK_BYTES
        if total is not None and total <= limit and self._stack_used + total <= STACK_TOTAL:
            self._stack_used += total
            count = max(total // s.dtype.bytes, 1)
            self.vars[s.buffer_var] = self.b.at_entry(f"alloca [{count} x {scalar}], align {_ALIGN}")
            self._inside(s.body)
            return
        size = str(total) if total is not None else self._runtime_size(s, width)
        pointer = self._take_memory(s, size)
        self.vars[s.buffer_var] = pointer
        self._inside(s.body)
        self.b.emit(f"call void @free(ptr {self._live.pop()})")

    def _runtime_size(self, s: st.Allocate, width: int) -> str:
        b = self.b
        total, fits = str(width), "true"
        pair = "{ i64, i1 }"
        for e in s.extents:
            size = self.index(e)
            b.module.declare("llvm.smul.with.overflow.i64", f"{pair} {{}}(i64, i64)")
            product = b.let(f"call {pair} @llvm.smul.with.overflow.i64(i64 {total}, i64 {size})")
            total = b.let(f"extractvalue {pair} {product}, 0")
            over = b.let(f"extractvalue {pair} {product}, 1")
            negative = b.let(f"icmp slt i64 {size}, 0")
            bad = b.let(f"or i1 {over}, {negative}")
            fits = b.let(f"select i1 {bad}, i1 false, i1 {fits}")
        if not isinstance(s.condition, IntImm):
            # What is not to be allocated may have any size; the least memory does no harm.
            unwanted = b.let(f"xor i1 {self.value(s.condition)}, true")
            total = b.let(f"select i1 {unwanted}, i64 0, i64 {total}")
            fits = b.let(f"or i1 {fits}, {unwanted}")
        limit = b.let(f"icmp ule i64 {total}, {_MAX_BYTES - 2 * _ALIGN}")
        text = f"the size of the allocation `{s.buffer_var.name}` is negative or too large"
        self.fail_unless(b.let(f"and i1 {fits}, {limit}"), Failure("memory", text, s))
        return total

    def _take_memory(self, s: st.Allocate, size: str) -> str:
        b = self.b
        b.module.declarations.setdefault("malloc", "declare noalias ptr @malloc(i64)")
        b.module.declarations.setdefault("free", "declare void @free(ptr)")
        padded = b.let(f"add i64 {size}, {_ALIGN}")
        raw = b.let(f"call noalias ptr @malloc(i64 {padded})")
        text = f"there is not enough memory for the allocation `{s.buffer_var.name}`"
        self.fail_unless(b.let(f"icmp ne ptr {raw}, null"), Failure("memory", text, s))
        self._live.append(raw)
        address = b.let(f"ptrtoint ptr {raw} to i64")
        gap = b.let(f"and i64 {b.let(f'sub i64 0, {address}')}, {_ALIGN - 1}")
        return b.let(f"getelementptr inbounds i8, ptr {raw}, i64 {gap}")

    def _allocate_const(self, s: st.AllocateConst) -> None:
        # Bools and 4-bit integers take a byte each, in NumPy as here.
        data = np.ascontiguousarray(s.data, numpy_dtype(s.dtype)).tobytes() or b"\0"
        text = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)
        self.vars[s.buffer_var] = self.b.module.add_constant(f"[{len(data)} x i8]", f'c"{text}"', _ALIGN)
        self._inside(s.body)

    def _prefetch(self, s: st.Prefetch) -> None:
        """Ask for the line of an element, wherever that is: the address need not be one of the memory."""
        (where,) = s.bounds
        self.b.module.declare("llvm.prefetch.p0", "void {}(ptr, i32, i32, i32)")
        size, base = s.buffer.dtype.bytes, self.value(s.buffer.data)
        offset = self.b.let(f"mul i64 {self.index(where.min)}, {size}")
        address = self.b.let(f"getelementptr i8, ptr {base}, i64 {offset}")
        self.b.emit(f'call void @"llvm.prefetch.p0"(ptr {address}, i32 0, i32 3, i32 1)')

    _statements: ClassVar[dict[type[st.Stmt], Callable[..., None]]] = {
        st.Evaluate: _evaluate,
        st.SeqStmt: _seq,
        st.BufferStore: _store,
        st.LetStmt: _let_stmt,
        st.IfThenElse: _if,
        st.For: _for,
        st.While: _while,
        st.AssertStmt: _assert,
        st.AttrStmt: _attr,
        st.DeclBuffer: _declare,
        st.Allocate: _allocate,
        st.AllocateConst: _allocate_const,
        st.Prefetch: _prefetch,
    }


def _stays_in_int64(loop: st.For) -> bool:
    """Whether neither the variable nor the end of the loop can leave int64."""
    if loop.loop_var.dtype.bits < 64:
        return True
    if loop.loop_var.dtype.is_uint:
        return False
    # Index arithmetic does not overflow, but the end of a loop lies one beyond its last index.
    return not isinstance(loop.min, IntImm) or loop.min.value < 1 << 62


def plain_symbol(name: str) -> str:
    """A name in ASCII, another for every name; llvmlite looks symbols up by ASCII, and LLVM keeps `llvm.` to itself."""
    plain = name.encode("unicode_escape").decode("ascii")
    return f"\\{plain}" if plain.startswith("llvm.") else plain


def kernel_symbol(name: str) -> str:
    """The LLVM name of a kernel; not that of any C function."""
    return f"{plain_symbol(name)}.kernel"


def entry_symbol(name: str) -> str:
    """The LLVM name of the function by which a kernel is called from outside."""
    return f"{plain_symbol(name)}.entry"


def entry_text(abi: KernelAbi, attributes: str = "", recursive: bool = False) -> str:
    """The function, with LLVM `attributes`, that reads a kernel's arguments from slots of eight bytes and calls it."""
    lines: list[str] = []
    args = ["ptr %result", *(["i64 0"] if recursive else [])]

    def slot(i: int, dtype: DataType | None) -> str:
        lines.append(f"  %p{i} = getelementptr inbounds i64, ptr %slots, i64 {i}")
        if dtype is None or dtype.is_handle:
            lines.append(f"  %a{i} = load ptr, ptr %p{i}, align 8")
            return f"ptr %a{i}"
        t = register_type(dtype)
        # Scalars come as an i64 or a double, whatever their width.
        wide = "double" if dtype.is_float else INDEX
        if t == wide:
            lines.append(f"  %a{i} = load {wide}, ptr %p{i}, align 8")
        else:
            lines.append(f"  %w{i} = load {wide}, ptr %p{i}, align 8")
            lines.append(f"  %a{i} = {'fptrunc' if dtype.is_float else 'trunc'} {wide} %w{i} to {t}")
        return f"{t} %a{i}"

    n = 0
    for p in abi.parameters:
        args.append(slot(n, None if p.buffer is not None else p.var.dtype))
        n += 1
    for v in abi.symbols:
        args.append(slot(n, v.dtype))
        n += 1
    name = quoted(entry_symbol(abi.name))
    return "\n".join(
        [
            f"define i32 @{name}(ptr noalias %slots, ptr noalias %result) nounwind{attributes} {{",
            *lines,
            f"  %status = call i32 @{quoted(kernel_symbol(abi.name))}({', '.join(args)})",
            "  ret i32 %status",
            "}",
        ]
    )
