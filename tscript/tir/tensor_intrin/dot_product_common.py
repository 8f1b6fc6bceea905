"""Names of `tscript.tensor_intrin.dot_product`."""

# ruff: noqa: F403

from __future__ import annotations

from tscript.tensor_intrin.dot_product import *
