"""A kernel in two versions: one for arrays that do not overlap, one for any; each call takes the one for its arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tscript.codegen.llvm.builder import quoted
from tscript.codegen.llvm.parallel import KernelEmitter
from tscript.codegen.llvm.stmt import kernel_symbol
from tscript.ir.buffer import Buffer
from tscript.ir.function import PrimFunc

APART = ".apart"
"""Ends the symbol of the version for arrays that do not overlap."""
ANY = ".any"


def emit_versions(
    emitter: Callable[[PrimFunc], KernelEmitter],
    func: PrimFunc,
    apart: PrimFunc,
    pairs: Sequence[tuple[Buffer, Buffer]],
) -> list[str]:
    """The functions that make the kernel `func`, which is `apart` where no arrays of `pairs` overlap."""
    texts: list[str] = []
    for body, ending in ((apart, APART), (func, ANY)):
        texts.append(emitter(body).emit(ending))
    chooser = emitter(func)
    params = chooser.parameters()
    b = chooser.b
    overlap = "false"
    ends: dict[Buffer, str] = {}
    for x, y in pairs:
        for buffer in (x, y):
            if buffer not in ends:
                size = str(buffer.dtype.bytes * buffer.dtype.lanes)
                for extent in buffer.shape:
                    size = b.let(f"mul i64 {size}, {chooser.index(extent)}")
                ends[buffer] = b.let(f"getelementptr i8, ptr {chooser.vars[buffer.data]}, i64 {size}")
        before = b.let(f"icmp ule ptr {ends[x]}, {chooser.vars[y.data]}")
        after = b.let(f"icmp ule ptr {ends[y]}, {chooser.vars[x.data]}")
        meets = b.let(f"xor i1 {b.let(f'or i1 {before}, {after}')}, true")
        overlap = b.let(f"or i1 {overlap}, {meets}")
    separate, together = b.new_label("separate"), b.new_label("together")
    b.branch(overlap, together, separate)
    # The attributes of a parameter are those of the function called.
    arguments = [f"{p.split()[0]} {p.split()[-1]}" for p in params]
    for label, ending in ((together, ANY), (separate, APART)):
        b.begin(label)
        symbol = quoted(kernel_symbol(chooser.abi.name) + ending)
        status = b.let(f"call i32 @{symbol}({', '.join(arguments)})")
        b.emit(f"ret i32 {status}")
    b.begin(b.new_label("after"))
    texts.append(chooser.finished(kernel_symbol(chooser.abi.name), params))
    return texts


__all__ = ["ANY", "APART", "emit_versions"]
