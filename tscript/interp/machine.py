"""From program to Python source to a callable."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, finalize, ref

from tscript.interp import blocks, calls, faults, fragments, instructions, stmts, warps
from tscript.interp.access import declare
from tscript.interp.arguments import Bound, Signature
from tscript.interp.assemble import assembled
from tscript.interp.emit import Gen, Options, Scope, Site, Val, nodes_below
from tscript.interp.externs import ExternFailure, call_extern
from tscript.interp.memory import Memory, Pointer, bind_view
from tscript.interp.scalar import helpers
from tscript.interp.threads import ThreadBlock, run_threads
from tscript.ir.alignment import with_alignment
from tscript.ir.dtype import DataType, int_range
from tscript.ir.empty_reductions import with_empty_inits
from tscript.ir.expr import Call, GlobalVar, PrimType
from tscript.ir.function import IRModule, PrimFunc
from tscript.support.errors import InternalError, InterpError
from tscript.support.recursion import room_for_deep_programs

_REGISTERED = (blocks, calls, fragments, instructions, stmts, warps)  # importing them fills the tables of handlers
_NUMBER = itertools.count(1)


class _Run:
    """State of one run: how many steps are left."""

    def __init__(self, max_steps: int | None) -> None:
        self.max_steps = max_steps
        self.left = max_steps or 0

    def spend(self, steps: int) -> None:
        """Count loop iterations; InterpError when there were too many."""
        if steps > 0:
            self.left -= steps
            if self.left < 0:
                raise InterpError(
                    f"the program takes more than the {self.max_steps} loop iterations it was given (max_steps)"
                )


class _Variant:
    """Source and code for one way of passing arrays."""

    def __init__(self, source: str, filename: str, sites: list[Site | None], run: Callable[..., Any]) -> None:
        self.source, self.filename, self.sites, self.run = source, filename, sites, run


class Translation:
    """What translating a program left, for each way of passing arrays. It does not hold the program."""

    def __init__(self) -> None:
        self.signature: Signature | None = None
        self.variants: dict[tuple[int, ...], _Variant] = {}


class Translations:
    """Translations of programs that are alive, so that running one again costs little."""

    MAX_KINDS = 16
    """Translations of one program; they differ in options and, for modules, in the entry and the functions."""

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[PrimFunc | IRModule, dict[Any, Translation]] = WeakKeyDictionary()

    def find_or_start(self, program: PrimFunc | IRModule, entry: str | None, options: Options) -> Translation:
        """The translation of `program` as it is now; an empty one, to be filled, the first time."""
        # Modules can change, functions cannot.
        parts = () if isinstance(program, PrimFunc) else tuple((v.name_hint, ref(f)) for v, f in program.items())
        kinds = self._made.setdefault(program, {})
        key = (entry, options, parts)
        if key not in kinds and len(kinds) >= self.MAX_KINDS:
            kinds.clear()
        return kinds.setdefault(key, Translation())


class Interpreted:
    """A program translated to Python. Calling it runs it on arrays, in place.

    `source` is the generated text; tracebacks and debuggers find it through `linecache`.
    """

    def __init__(
        self,
        program: PrimFunc | IRModule,
        entry: str | None,
        options: Options,
        max_steps: int | None,
        translation: Translation | None = None,
    ) -> None:
        module = IRModule({program.__name__: program}) if isinstance(program, PrimFunc) else program
        self._module = module
        self._entry = _find_entry(module, entry)
        self._func = module.functions[self._entry]
        self._options = options
        self._max_steps = max_steps
        made = translation or Translation()
        self._signature = made.signature = made.signature or Signature(self._func)
        self._variants = made.variants
        self._variant(())

    @property
    def source(self) -> str:
        """The generated Python for contiguous arrays."""
        return self._variants[()].source

    def __call__(self, *args: Any) -> Any:
        """Run on arrays (changed in place) and numbers; returns what the program returns.

        Raises CallError for arguments that do not fit, InterpError for what the program does wrong.
        """
        bound = self._signature.bind(args, self._options.check_uninitialized)
        variant = self._variant(tuple(bound.strided))
        try:
            return self._result(self._execute(variant, bound))
        finally:
            for finish in bound.finish:
                finish()

    def _execute(self, variant: _Variant, bound: Bound) -> Any:
        strides = [s for steps in bound.strided.values() for s in steps]
        failed: InterpError
        try:
            return variant.run(_Run(self._max_steps), *bound.values, *strides)
        except ExternFailure as error:
            raise error.cause from None
        except InterpError as error:
            failed, trace = error, error.__traceback__
        except ZeroDivisionError as error:
            failed, trace = (
                InterpError("division by zero: the divisor of an integer division or remainder is 0"),
                error.__traceback__,
            )
        except RecursionError as error:
            failed, trace = InterpError("functions of the module call each other too deeply"), error.__traceback__
        except AttributeError as error:
            if error.obj is not None:
                raise InternalError(f"generated code failed: {error}") from error
            text = "the address of memory that was not allocated: the condition of its allocation is false"
            failed, trace = InterpError(text), error.__traceback__
        except TypeError as error:
            if "read-only" not in str(error):
                raise InternalError(f"generated code failed: {error}") from error
            failed, trace = InterpError("a store to read-only memory; pass a writeable array"), error.__traceback__
        faults.locate(failed, trace, variant.filename, variant.sites)
        raise failed.with_traceback(None) from None

    def _result(self, value: Any) -> Any:
        kind = self._func.ret_type
        if isinstance(kind, PrimType) and kind.dtype.is_bool and value is not None:
            return bool(value)
        return value

    def _variant(self, strided: tuple[int, ...]) -> _Variant:
        found = self._variants.get(strided)
        if found is None:
            with room_for_deep_programs(InterpError):
                found = self._variants[strided] = self._translate(strided)
        return found

    def _translate(self, strided: tuple[int, ...]) -> _Variant:
        namespace = _namespace(self._options)
        reachable = _reachable(self._module, self._entry)
        functions: dict[GlobalVar, tuple[PrimFunc, str]] = {}
        taken: set[str] = set()
        for var in reachable:
            name = "".join(c if c.isascii() and c.isalnum() else "_" for c in f"_fn_{var.name_hint}")
            while name in taken:
                name += "_"
            taken.add(name)
            functions[var] = (with_alignment(with_empty_inits(self._module.functions[var])), name)
        called = _called(self._module, reachable)
        root = Scope(0)
        for var, (func, name) in functions.items():
            if var in called:
                _function(root, Gen(self._options, functions, namespace), func, name, (), exact=False, inner=True)
        name = "run_" + functions[self._entry][1].removeprefix("_fn_")
        func = functions[self._entry][0]
        _function(root, Gen(self._options, functions, namespace), func, name, strided, exact=True, inner=False)
        filename = f"<tscript interp {self._entry.name_hint} {next(_NUMBER)}>"
        source, lines, code = assembled(root, filename)
        linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
        exec(code, namespace)
        made = _Variant(source, filename, [site for _, site in lines], namespace[name])
        finalize(made, linecache.cache.pop, filename, None)
        return made


def _find_entry(module: IRModule, entry: str | None) -> GlobalVar:
    names = [v.name_hint for v in module.functions]
    if entry is not None:
        if entry not in names:
            raise InterpError(f"the module has no function {entry!r}; it has: {', '.join(names) or 'none'}")
        return module.get_global_var(entry)
    if len(names) == 1:
        return next(iter(module.functions))
    if "main" in names:
        return module.get_global_var("main")
    raise InterpError(f"which function is to run? pass entry=..., one of: {', '.join(names) or 'none'}")


def _callees(module: IRModule, func: PrimFunc) -> list[GlobalVar]:
    found: dict[GlobalVar, None] = {}
    for n in nodes_below(func.body):
        if isinstance(n, Call) and isinstance(n.op, GlobalVar):
            called = n.op
            same = next((v for v in module.functions if v is called or v.name_hint == called.name_hint), None)
            if same is not None:
                found[same] = None
    return list(found)


def _reachable(module: IRModule, entry: GlobalVar) -> list[GlobalVar]:
    seen: dict[GlobalVar, None] = {}
    stack = [entry]
    while stack:
        var = stack.pop()
        if var not in seen:
            seen[var] = None
            stack.extend(_callees(module, module.functions[var]))
    return list(seen)


def _called(module: IRModule, reachable: list[GlobalVar]) -> set[GlobalVar]:
    return {c for v in reachable for c in _callees(module, module.functions[v])}


def _function(
    root: Scope, g: Gen, func: PrimFunc, name: str, strided: tuple[int, ...], *, exact: bool, inner: bool
) -> None:
    """Append the translation of `func` to `root`."""
    signature = Signature(func)
    names: list[str] = []
    for param in func.params:
        made = g.name(param.name)
        names.append(made)
        if param.dtype.is_handle:
            g.pointers[param], g.pointer_levels[param] = made, 0
        else:
            _bind_number(g, param, made, param.dtype)
    if not inner:
        for var in signature.symbols:
            made = g.name(var.name)
            names.append(made)
            _bind_number(g, var, made, var.dtype)
    elif signature.symbols:
        raise InterpError(
            f"{func.__name__} is called with addresses, which do not tell its {signature.symbols[0].name}; "
            "pass it as a parameter"
        )
    steps: dict[int, list[Val]] = {}
    for i in strided:
        made = [g.name(f"{signature.buffers[i].name}_s{d}") for d in range(len(signature.buffers[i].shape))]
        names += made
        steps[i] = [g.named(m, -(1 << 62), 1 << 62) for m in made]
    _sizes_are_not_negative(g, signature)
    g.line("_q = _new_q()")
    for i, buffer in signature.buffers.items():
        pointer = names[i]
        if buffer.data not in g.pointers:
            g.pointers[buffer.data], g.pointer_levels[buffer.data] = pointer, 0
        plain = getattr(buffer.elem_offset, "value", None) == 0
        declare(g, buffer, strides=steps.get(i), exact=exact and plain and i not in strided)
    try:
        g.stmt(func.body)
    except InterpError as error:
        if error.statement is None:
            error.statement, error.span = faults.statement_text(g.site.stmt), g.site.span
        raise
    header = f"def {name}({', '.join(['_run', *names])}):"
    site = Site(None, ())
    root.lines.append((header, site))
    root.lines.append(g.stack[0])
    root.lines.append(("", site))


def _bind_number(g: Gen, var: Any, name: str, dtype: DataType) -> None:
    if dtype.is_float:
        g.env[var] = Val(name, True, level=0)
    else:
        low, high = int_range(dtype)
        g.env[var] = g.named(name, low, high)


def _sizes_are_not_negative(g: Gen, signature: Signature) -> None:
    """Variables that are extents of arrays were checked to be so."""
    for b in signature.buffers.values():
        for e in b.shape:
            v = g.env.get(e) if hasattr(e, "name") else None  # pyright: ignore[reportArgumentType, reportCallIssue]
            if v is not None and v.lo < 0:
                g.env[e] = g.named(v.code, 0, v.hi)  # pyright: ignore[reportArgumentType]


def _new_q() -> memoryview[float]:
    """One float32: what is stored in it comes back rounded."""
    return memoryview(bytearray(4)).cast("f")


def _namespace(options: Options) -> dict[str, Any]:
    def allocate(nbytes: int, name: str) -> Pointer:
        return Pointer(Memory.fresh(nbytes, name, options.check_uninitialized), 0)

    def launch(run: _Run, body: Callable[..., Any], extents: tuple[int, int, int]) -> None:
        del run
        run_threads(ThreadBlock(allocate), body, extents)

    return {
        **helpers(),
        "_allocate": allocate,
        "_run_threads": launch,
        "_bind": bind_view,
        "_address": _address,
        "_new_q": _new_q,
        "_extern": call_extern,
        "_outside_buffer": faults.outside_buffer,
        "_outside_region": faults.outside_region,
        "_outside_domain": faults.outside_domain,
        "_loop_too_long": faults.loop_too_long,
        "_unwritten": faults.unwritten,
        "_region_outside": faults.region_outside,
        "_view_mismatch": faults.view_mismatch,
        "_assertion_fails": faults.assertion_fails,
        "_assumption_fails": faults.assumption_fails,
        "_unsupported": faults.unsupported,
        "_require_room": faults.require_room,
    }


def _address(pointer: Pointer, element: int, dtype: DataType) -> Pointer:
    """The address of an element counted from the first element boundary."""
    return Pointer(pointer.memory, pointer.offset % dtype.bytes + element * dtype.bytes, dtype)
