"""Names of `tscript.tensor_intrin.arm_cpu`."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.tensor_intrin.arm_cpu import *
