"""The data types of `T`: `T.int8`, `T.float32x4`, `T.handle`, ... For type checkers they are listed in `dtypes.pyi`."""

from __future__ import annotations

from tscript.parser.dialect.dtype_functions import DtypeFunction, HandleFunction, dtype_names

handle = HandleFunction()
globals().update({n: DtypeFunction(n) for n in dtype_names()})

__all__ = ["handle", *dtype_names()]  # pyright: ignore[reportUnsupportedDunderAll]
