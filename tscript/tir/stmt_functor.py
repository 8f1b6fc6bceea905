"""Traversal of programs."""

from __future__ import annotations

from tscript.ir.functor import Rewriter, Visitor, post_order_visit, pre_order_visit, substitute
from tscript.ir.transform import ir_transform

__all__ = ["Rewriter", "Visitor", "ir_transform", "post_order_visit", "pre_order_visit", "substitute"]
