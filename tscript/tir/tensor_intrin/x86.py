"""Names of `tscript.tensor_intrin.x86`."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.tensor_intrin.x86 import *
