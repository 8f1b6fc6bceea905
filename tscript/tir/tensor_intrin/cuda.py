"""Names of `tscript.tensor_intrin.cuda`."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.tensor_intrin.cuda import *
