"""The function Python calls: CPython's calling convention, all checks, then the kernel without the interpreter's lock.

For arguments that are exactly what the kernel declares, everything happens here, in machine code. For any
others the call goes on to the Python object behind (`self`), which converts what it can and explains what it
cannot; so a check here may be stricter than needed, but never laxer.

What the code must recognise (types, the descriptor of each data type, None) it reads from a table of
pointers, which the process fills in after loading: the code itself holds no address.
"""

from __future__ import annotations

from typing import Final

from tscript.codegen.abi import KernelAbi, Parameter
from tscript.codegen.llvm.builder import Builder, ModuleText, quoted
from tscript.codegen.llvm.stmt import entry_symbol, plain_symbol
from tscript.ir import expr as ex
from tscript.ir.buffer import Buffer
from tscript.ir.dtype import DataType, int_range
from tscript.ir.expr import IntImm, PrimExpr, Var

TABLE: Final = ("ndarray", "NDArray", "int", "float", "True", "False", "None", "slot_offset")
"""The first entries of the table of pointers; then comes a descriptor for each parameter."""

PYTHON_SYMBOLS: Final = (
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyFloat_FromDouble",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLongLong",
    "PyLong_FromUnsignedLongLong",
    "PyObject_CallMethod",
    "PyObject_Vectorcall",
    "Py_IncRef",
)
"""Functions of the interpreter that the code calls."""

# Positions in NumPy's array object and in CPython's objects; both are part of stable binary interfaces.
_TYPE, _FLOAT_VALUE = 8, 16
_DATA, _NDIM, _DIMS, _STRIDES, _DESCR, _FLAGS = 16, 24, 32, 40, 56, 64
_C_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_DEFAULT_ALIGNMENT = 64


def call_symbol(kernel: str) -> str:
    """Name of the function that Python calls."""
    return f"call.{plain_symbol(kernel)}"


def table_symbol(kernel: str) -> str:
    """Name of the table of pointers it reads."""
    return f"table.{plain_symbol(kernel)}"


def call_text(module: ModuleText, abi: KernelAbi) -> str | None:
    """The function for a kernel, or None for one whose arguments or result only Python can convert."""
    if not _is_supported(abi):
        return None
    return _CallEmitter(module, abi).emit()


def _is_supported(abi: KernelAbi) -> bool:
    if abi.returns is not None and abi.returns.is_float and abi.returns.bits < 32:
        return False
    for p in abi.parameters:
        if p.buffer is None:
            if p.var.dtype.is_handle or p.var.dtype.lanes != 1:
                return False
        elif not all(_is_size(e) for e in (*p.buffer.shape, *p.buffer.strides)):
            return False
    return True


def _is_size(e: PrimExpr) -> bool:
    if isinstance(e, (ex.Add, ex.Sub, ex.Mul)):
        return _is_size(e.a) and _is_size(e.b)
    return isinstance(e, (IntImm, Var)) or (isinstance(e, ex.Cast) and _is_size(e.value))


class _CallEmitter:
    def __init__(self, module: ModuleText, abi: KernelAbi) -> None:
        self.abi = abi
        self.b = Builder(module)
        self.sizes: dict[Var, str] = {}
        self.later: list[tuple[PrimExpr, str]] = []
        self.spans: list[tuple[Parameter, str, str]] = []

    def emit(self) -> str:
        b, abi = self.b, self.abi
        slots = b.at_entry(f"alloca [{max(len(abi.parameters) + len(abi.symbols), 1)} x i64], align 8")
        self.slots = slots
        result = b.at_entry("alloca i64, align 8")
        self.need(b.let(f"icmp eq i64 %count, {len(abi.parameters)}"))
        for i, p in enumerate(abi.parameters):
            if p.buffer is None:
                self.scalar(i, p.var)
        for i, p in enumerate(abi.parameters):
            if p.buffer is not None:
                self.array(i, p, p.buffer)
        for want, got in self.later:
            self.need(b.let(f"icmp eq i64 {self.size(want)}, {got}"))
        self.symbols()
        if abi.no_alias:
            self.apart()
        state = b.call("ptr", "PyEval_SaveThread", [])
        status = b.let(f"call i32 @{quoted(entry_symbol(abi.name))}(ptr {slots}, ptr {result})")
        b.module.declare("PyEval_RestoreThread", "void {}(ptr)")
        b.emit(f'call void @"PyEval_RestoreThread"(ptr {state})')
        b.branch(b.let(f"icmp eq i32 {status}, 0"), "done", "failed")
        b.begin("done")
        self.give_back(result)
        self.other_ways(status)
        table = f"@{quoted(table_symbol(abi.name))} = global [{len(TABLE) + len(abi.parameters)} x ptr] zeroinitializer"
        own = b.module.attributes.get(abi.name, "")
        head = f"define ptr @{quoted(call_symbol(abi.name))}(ptr %self, ptr %args, i64 %count) nounwind{own} {{"
        return "\n".join([table, head, "entry:", *b.entry_lines, "  br label %body", "body:", *b.lines, "}"])

    # -- pieces -----------------------------------------------------------------------------------

    def need(self, condition: str) -> None:
        """Go on only where `condition` holds; otherwise Python takes over."""
        going_on = self.b.new_label("on")
        self.b.branch(condition, going_on, "slow")
        self.b.begin(going_on)

    def at(self, pointer: str, offset: int | str, kind: str) -> str:
        """The field of type `kind` at a byte offset."""
        where = self.b.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.b.let(f"load {kind}, ptr {where}")

    def known(self, name: str | int) -> str:
        """A pointer of the table: by name, or the descriptor of parameter number `name`."""
        i = len(TABLE) + name if isinstance(name, int) else TABLE.index(name)
        return self.at(f"@{quoted(table_symbol(self.abi.name))}", 8 * i, "ptr")

    def put(self, i: int, kind: str, value: str) -> None:
        """Fill slot number `i`."""
        where = self.b.let(f"getelementptr i64, ptr {self.slots}, i64 {i}")
        self.b.emit(f"store {kind} {value}, ptr {where}")

    def argument(self, i: int) -> tuple[str, str]:
        """Argument number `i` and its type."""
        value = self.at("%args", 8 * i, "ptr")
        return value, self.at(value, _TYPE, "ptr")

    def scalar(self, i: int, var: Var) -> None:
        """A Python number of exactly the right kind."""
        b, dtype = self.b, var.dtype
        value, kind = self.argument(i)
        if dtype.is_bool:
            yes = b.let(f"icmp eq ptr {value}, {self.known('True')}")
            no = b.let(f"icmp eq ptr {value}, {self.known('False')}")
            self.need(b.let(f"or i1 {yes}, {no}"))
            self.put(i, "i64", b.let(f"zext i1 {yes} to i64"))
            return
        name = "float" if dtype.is_float else "int"
        self.need(b.let(f"icmp eq ptr {kind}, {self.known(name)}"))
        if dtype.is_float:
            self.put(i, "double", self.at(value, _FLOAT_VALUE, "double"))
            return
        overflow = b.at_entry("alloca i32, align 4")
        number = b.call("i64", "PyLong_AsLongLongAndOverflow", [("ptr", value), ("ptr", overflow)])
        self.need(b.let(f"icmp eq i32 {b.let(f'load i32, ptr {overflow}')}, 0"))
        self.in_range(dtype, number)
        self.put(i, "i64", number)
        self.sizes[var] = number

    def in_range(self, dtype: DataType, number: str) -> None:
        """`number`, an i64, is a value of `dtype`."""
        low, high = int_range(dtype)
        if low > -(1 << 63):
            self.need(self.b.let(f"icmp sge i64 {number}, {low}"))
        if high < (1 << 63) - 1:
            self.need(self.b.let(f"icmp sle i64 {number}, {high}"))

    def array(self, i: int, p: Parameter, buffer: Buffer) -> None:
        """A NumPy array, or one of ours, of exactly the declared form."""
        b = self.b
        array = self.unwrapped(i)
        self.need(b.let(f"icmp eq ptr {self.at(array, _DESCR, 'ptr')}, {self.known(i)}"))
        lanes = buffer.dtype.lanes
        rank = len(buffer.shape) + (lanes > 1)
        self.need(b.let(f"icmp eq i32 {self.at(array, _NDIM, 'i32')}, {rank}"))
        mask = _ALIGNED | (0 if buffer.strides else _C_CONTIGUOUS) | (_WRITEABLE if p.written else 0)
        flags = b.let(f"and i32 {self.at(array, _FLAGS, 'i32')}, {mask}")
        self.need(b.let(f"icmp eq i32 {flags}, {mask}"))
        dims = self.at(array, _DIMS, "ptr") if rank else ""
        extents = [self.at(dims, 8 * d, "i64") for d in range(rank)]
        for want, got in zip(buffer.shape, extents, strict=False):
            self.match(want, got)
        if lanes > 1:
            self.need(b.let(f"icmp eq i64 {extents[-1]}, {lanes}"))
        data = self.at(array, _DATA, "ptr")
        address = b.let(f"ptrtoint ptr {data} to i64")
        if buffer.data_alignment != _DEFAULT_ALIGNMENT and buffer.data_alignment > 1:
            rest = b.let(f"and i64 {address}, {buffer.data_alignment - 1}")
            self.need(b.let(f"icmp eq i64 {rest}, 0"))
        steps = self.strides(array, buffer, extents) if buffer.strides else []
        if steps and p.written:
            self.rows_apart(buffer, extents, steps)
        if isinstance(buffer.elem_offset, Var):
            self.match(buffer.elem_offset, "0")
        if self.abi.no_alias:
            self.spans.append((p, *self.span(address, buffer, extents, steps)))
        self.put(i, "ptr", data)

    def unwrapped(self, i: int) -> str:
        """The NumPy array that argument number `i` is, or holds."""
        b = self.b
        value, kind = self.argument(i)
        plain, ours, have = b.new_label("plain"), b.new_label("ours"), b.new_label("have")
        numpy_type = self.known("ndarray")
        b.branch(b.let(f"icmp eq ptr {kind}, {numpy_type}"), plain, ours)
        b.begin(ours)
        self.need(b.let(f"icmp eq ptr {kind}, {self.known('NDArray')}"))
        offset = b.let(f"ptrtoint ptr {self.known('slot_offset')} to i64")
        inner = self.at(value, offset, "ptr")
        self.need(b.let(f"icmp ne ptr {inner}, null"))
        self.need(b.let(f"icmp eq ptr {self.at(inner, _TYPE, 'ptr')}, {numpy_type}"))
        last = b.label
        b.jump(have)
        b.begin(plain)
        b.jump(have)
        b.begin(have)
        return b.let(f"phi ptr [ {inner}, %{last} ], [ {value}, %{plain} ]")

    def match(self, want: PrimExpr, got: str) -> None:
        """An extent or stride is what the declaration says; a variable takes its value at its first place."""
        if isinstance(want, Var) and want not in self.sizes:
            self.in_range(want.dtype, got)
            self.sizes[want] = got
        elif isinstance(want, (IntImm, Var)):
            self.need(self.b.let(f"icmp eq i64 {self.size(want)}, {got}"))
        else:
            self.later.append((want, got))

    def size(self, e: PrimExpr) -> str:
        """The value of a size expression, as an i64."""
        if isinstance(e, IntImm):
            return str(e.value)
        if isinstance(e, ex.Cast):
            return self.size(e.value)
        if isinstance(e, Var):
            return self.sizes[e]
        assert isinstance(e, (ex.Add, ex.Sub, ex.Mul))
        return self.exact({ex.Add: "add", ex.Sub: "sub", ex.Mul: "mul"}[type(e)], self.size(e.a), self.size(e.b))

    def exact(self, operator: str, a: str, b: str) -> str:
        """`a` + `b` and the like, of signed i64; Python takes over where that is beyond them."""
        pair = self.b.call("{ i64, i1 }", f"llvm.s{operator}.with.overflow.i64", [("i64", a), ("i64", b)])
        self.need(self.b.let(f"xor i1 {self.b.let(f'extractvalue {{ i64, i1 }} {pair}, 1')}, true"))
        return self.b.let(f"extractvalue {{ i64, i1 }} {pair}, 0")

    def strides(self, array: str, buffer: Buffer, extents: list[str]) -> list[str]:
        """Strides are whole numbers of elements, and what the declaration says where there is more than one row.

        Gives those of all dimensions, in bytes.
        """
        b = self.b
        size = buffer.dtype.bytes * buffer.dtype.lanes
        steps = self.at(array, _STRIDES, "ptr")
        found: list[str] = []
        for d, want in enumerate(buffer.strides):
            in_bytes = self.at(steps, 8 * d, "i64")
            found.append(in_bytes)
            step = b.let(f"sdiv i64 {in_bytes}, {size}")
            self.need(b.let(f"icmp eq i64 {b.let(f'mul i64 {step}, {size}')}, {in_bytes}"))
            if isinstance(want, IntImm):
                same = b.let(f"icmp eq i64 {step}, {want.value}")
                single = b.let(f"icmp eq i64 {extents[d]}, 1")
                self.need(b.let(f"or i1 {same}, {single}"))
            else:
                self.match(want, step)
        if buffer.dtype.lanes > 1:
            lane = self.at(steps, 8 * len(buffer.strides), "i64")
            self.need(b.let(f"icmp eq i64 {lane}, {buffer.dtype.bytes}"))
            found.append(lane)
        return found

    def rows_apart(self, buffer: Buffer, extents: list[str], steps: list[str]) -> None:
        """No two elements share memory: each row ends before the next begins. Other orders are for Python to judge."""
        b = self.b
        room = str(buffer.dtype.bytes)
        for extent, step in zip(reversed(extents), reversed(steps), strict=True):
            enough = b.let(f"icmp sge i64 {step}, {room}")
            single = b.let(f"icmp sle i64 {extent}, 1")
            self.need(b.let(f"or i1 {enough}, {single}"))
            room = b.let(f"select i1 {single}, i64 {room}, i64 {self.exact('mul', extent, step)}")

    def span(self, address: str, buffer: Buffer, extents: list[str], steps: list[str]) -> tuple[str, str]:
        """Where the memory of an array begins, and one past where it ends."""
        b = self.b
        if not buffer.strides:
            size = str(buffer.dtype.bytes)
            for e in extents:
                size = b.let(f"mul i64 {size}, {e}")
            return address, b.let(f"add i64 {address}, {size}")
        start, end = address, b.let(f"add i64 {address}, {buffer.dtype.bytes}")
        for extent, step in zip(extents, steps, strict=True):
            way = b.let(f"mul i64 {b.let(f'sub i64 {extent}, 1')}, {step}")
            back = b.let(f"icmp slt i64 {way}, 0")
            start = b.let(f"add i64 {start}, {b.let(f'select i1 {back}, i64 {way}, i64 0')}")
            end = b.let(f"add i64 {end}, {b.let(f'select i1 {back}, i64 0, i64 {way}')}")
        return start, end

    def apart(self) -> None:
        """No array that is written overlaps another."""
        b = self.b
        for i, (p, start, end) in enumerate(self.spans):
            for j, (q, other_start, other_end) in enumerate(self.spans):
                if i == j or not p.written or (q.written and j < i):
                    continue
                before = b.let(f"icmp ule i64 {end}, {other_start}")
                after = b.let(f"icmp ule i64 {other_end}, {start}")
                self.need(b.let(f"or i1 {before}, {after}"))

    def symbols(self) -> None:
        """The slots of symbolic sizes."""
        for i, v in enumerate(self.abi.symbols, len(self.abi.parameters)):
            self.put(i, "i64", self.sizes[v])

    # -- ways out ---------------------------------------------------------------------------------

    def give_back(self, result: str) -> None:
        """Return what the kernel returned, or None."""
        b, dtype = self.b, self.abi.returns
        if dtype is None:
            self.shared(self.known("None"))
        elif dtype.is_bool:
            raw = b.let(f"load i8, ptr {result}")
            truth = b.let(f"icmp ne i8 {raw}, 0")
            self.shared(b.let(f"select i1 {truth}, ptr {self.known('True')}, ptr {self.known('False')}"))
        elif dtype.is_float:
            kind = "double" if dtype.bits == 64 else "float"
            raw = b.let(f"load {kind}, ptr {result}")
            wide = raw if dtype.bits == 64 else b.let(f"fpext float {raw} to double")
            b.emit(f"ret ptr {b.call('ptr', 'PyFloat_FromDouble', [('double', wide)])}")
        else:
            raw = b.let(f"load i{dtype.bits}, ptr {result}")
            extend = "sext" if dtype.is_int else "zext"
            wide = raw if dtype.bits == 64 else b.let(f"{extend} i{dtype.bits} {raw} to i64")
            name = "PyLong_FromLongLong" if dtype.is_int else "PyLong_FromUnsignedLongLong"
            b.emit(f"ret ptr {b.call('ptr', name, [('i64', wide)])}")

    def shared(self, value: str) -> None:
        """Return an object that others own too."""
        self.b.module.declare("Py_IncRef", "void {}(ptr)")
        self.b.emit(f'call void @"Py_IncRef"(ptr {value})')
        self.b.emit(f"ret ptr {value}")

    def other_ways(self, status: str) -> None:
        """A failure inside the kernel, raised by Python; and the call that Python does itself."""
        b = self.b
        b.begin("failed")
        method = b.module.add_constant("[14 x i8]", 'c"raise_failure\\00"')
        form = b.module.add_constant("[2 x i8]", 'c"i\\00"')
        b.module.declare("PyObject_CallMethod", "ptr {}(ptr, ptr, ptr, ...)")
        raised = b.let(
            f'call ptr (ptr, ptr, ptr, ...) @"PyObject_CallMethod"(ptr %self, ptr {method}, ptr {form}, i32 {status})'
        )
        b.emit(f"ret ptr {raised}")
        b.begin("slow")
        args = [("ptr", "%self"), ("ptr", "%args"), ("i64", "%count"), ("ptr", "null")]
        b.emit(f"ret ptr {b.call('ptr', 'PyObject_Vectorcall', args)}")
