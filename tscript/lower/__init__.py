"""Lowering: blocks and multi-dimensional buffers to plain loops over flat memory, in small named passes."""
