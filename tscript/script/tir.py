"""`T`, the language of kernels: `from tscript.script import tir as T`. Checkers and editors read `tir.pyi`."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.parser.dialect.arithmetic import *
from tscript.parser.dialect.calls import *
from tscript.parser.dialect.control import *
from tscript.parser.dialect.dtype_functions import require_dtype as __getattr__  # noqa: F401
from tscript.parser.dialect.dtypes import *
from tscript.parser.dialect.gpu import *
from tscript.parser.dialect.math import *
from tscript.parser.dialect.memory import *
from tscript.parser.dialect.nodes import *
from tscript.parser.dialect.vectors import *
from tscript.parser.frames import *
