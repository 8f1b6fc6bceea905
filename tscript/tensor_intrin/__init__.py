"""Tensor intrinsics of several kinds of hardware. Importing a module registers its own.

`x86`, `arm_cpu` and `cuda` hold pairs of a description and an implementation, written in the dialect.
"""
