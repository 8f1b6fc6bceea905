"""The vector registers of a processor, as far as tiles depend on them."""

from __future__ import annotations

from dataclasses import dataclass

from tscript.target.target import Target


@dataclass(frozen=True)
class VectorRegisters:
    """`count` registers of `size` bytes each.

    >>> VectorRegisters(64, 32).lanes(32), VectorRegisters(64, 32).rows_beside(2)
    (16, 14)
    """

    size: int
    count: int

    @staticmethod
    def of(target: Target) -> VectorRegisters:
        """The registers of a target, by its features; those that any processor has where it does not tell.

        >>> VectorRegisters.of(Target("llvm -mcpu=skylake-avx512 -num-cores 1"))
        VectorRegisters(size=64, count=32)
        """
        features = target.features
        if "avx512f" in features:
            return VectorRegisters(64, 32)
        if "avx" in features:
            return VectorRegisters(32, 16)
        return VectorRegisters(16, 32 if "neon" in features else 16)

    def lanes(self, bits: int) -> int:
        """How many values of a number of bits one register holds."""
        return max(1, self.size * 8 // bits)

    def rows_beside(self, vectors: int) -> int:
        """How many rows of `vectors` registers fit, beside a row of one operand and a value of the other."""
        return (self.count - vectors - 1) // vectors
