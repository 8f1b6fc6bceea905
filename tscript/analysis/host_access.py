"""Loops of a program for a GPU that no thread runs: forgetting to bind them leaves their memory to the host."""

from __future__ import annotations

from tscript.ir.expr import BufferLoad
from tscript.ir.function import PrimFunc
from tscript.ir.functor import Visitor
from tscript.ir.stmt import AttrStmt, BufferStore, For

_THREADS = ("blockIdx.", "threadIdx.")


def unbound_loops(func: PrimFunc) -> list[str]:
    """The outermost loops in which memory is accessed and that no thread runs, by name.

    A statement outside of all loops counts as a loop without a name.

    >>> from tscript.testing.workloads import matmul
    >>> unbound_loops(matmul(8, 8, 8).func)
    ['i']
    """
    scan = _Scan()
    scan.visit(func.body)
    return list(scan.found)


def verify_memory(func: PrimFunc) -> bool:
    """Whether a function for a GPU leaves all of its memory to threads; True for one with another or no target.

    >>> from tscript.target import Target
    >>> from tscript.testing.workloads import matmul
    >>> verify_memory(matmul(8, 8, 8).func.with_attr("target", Target("cuda")))
    False
    """
    target = func.attrs.get("target")
    kind = getattr(getattr(target, "kind", None), "name", "llvm")
    return kind not in GPU_KINDS or not unbound_loops(func)


GPU_KINDS = ("cuda", "rocm", "opencl", "vulkan", "metal", "webgpu", "nvptx")


class _Scan(Visitor):
    def __init__(self) -> None:
        self.outermost: str | None = None
        self.found: dict[str, None] = {}

    def visit_For(self, node: For) -> None:
        """A loop: bound, or the outermost so far."""
        if node.thread_binding is not None and node.thread_binding.thread_tag.startswith(_THREADS):
            return
        before = self.outermost
        self.outermost = before if before is not None else node.loop_var.name
        self.visit_children(node)
        self.outermost = before

    def visit_AttrStmt(self, node: AttrStmt) -> None:
        """Threads that are launched run the body."""
        if node.attr_key == "thread_extent":
            return
        self.visit_children(node)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        """Memory is read."""
        self._note()
        self.visit_children(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        """Memory is written."""
        self._note()
        self.visit_children(node)

    def _note(self) -> None:
        self.found[self.outermost or ""] = None


__all__ = ["GPU_KINDS", "unbound_loops", "verify_memory"]
