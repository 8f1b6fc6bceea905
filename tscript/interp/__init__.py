"""The oracle: runs any well-formed program, scheduled or not, as plain Python on NumPy arrays.

A program is translated to Python source that follows the meaning of the IR literally, checks every access
and binding it cannot prove right, and rounds after every operation. It shares no analysis with the
lowering and the schedules it is compared with.
"""

from __future__ import annotations

from typing import Any

from tscript.interp.emit import Options
from tscript.interp.externs import register_extern
from tscript.interp.machine import Interpreted, Translations
from tscript.interp.memory import Pointer
from tscript.ir.function import IRModule, PrimFunc

_translations = Translations()


def compile(
    func_or_mod: PrimFunc | IRModule,
    *,
    entry: str | None = None,
    check_uninitialized: bool = False,
    check_regions: bool = True,
    max_steps: int | None = None,
) -> Interpreted:
    """Translate a program once, to run it many times. Parameters as for `run`.

    The result has `source`, the generated Python, and is called with arrays and numbers.
    """
    options = Options(check_uninitialized, check_regions, max_steps is not None)
    return Interpreted(func_or_mod, entry, options, max_steps)


def run(
    func_or_mod: PrimFunc | IRModule,
    *args: Any,
    entry: str | None = None,
    check_uninitialized: bool = False,
    check_regions: bool = True,
    max_steps: int | None = None,
) -> Any:
    """Run a program on NumPy arrays, which it changes in place, and return what it returns (or None).

    `args`: for each parameter an array (any strides; anything that shares memory with NumPy will do) or a
    Python number. Sizes of symbolic shape are taken from the arrays. `entry` names the function of a module
    of several (`main` by default). `check_uninitialized` also reports reads of elements nothing wrote;
    `check_regions` reports accesses outside what a block declares; `max_steps` bounds the number of loop
    iterations.

    Raises CallError for arguments that do not fit the parameters, InterpError (with `buffer`, `indices`,
    `statement`, `loop_values` and `span`) for accesses out of bounds, division by zero, violated domains
    and regions, failed assertions, divergent barriers.

    >>> import numpy as np
    >>> from tscript.ir.buffer import decl_buffer
    >>> from tscript.ir.expr import IntImm, Var
    >>> from tscript.ir.stmt import BufferStore, For
    >>> i, A = Var("i"), decl_buffer((4,), "int32", name="A")
    >>> loop = For(i, IntImm("int32", 0), IntImm("int32", 4), 0, BufferStore(A, i * i, (i,)))
    >>> a = np.zeros(4, "int32")
    >>> run(PrimFunc((A,), loop), a)
    >>> a.tolist()
    [0, 1, 4, 9]
    """
    options = Options(check_uninitialized, check_regions, max_steps is not None)
    known = _translations.find_or_start(func_or_mod, entry, options)
    return Interpreted(func_or_mod, entry, options, max_steps, known)(*args)


__all__ = ["Interpreted", "Pointer", "compile", "register_extern", "run"]
