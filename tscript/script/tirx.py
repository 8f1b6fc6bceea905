"""`T` under the name it has in newer versions of TVM: `from tscript.script import tirx as T`."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.parser.dialect.dtype_functions import require_dtype as __getattr__  # noqa: F401
from tscript.script.tir import *
