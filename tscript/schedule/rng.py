"""The random numbers of a schedule: a small generator whose state is one integer, the same on every machine."""

from __future__ import annotations

import secrets

_MODULUS = 2147483647
_MULTIPLIER = 48271


class LinearCongruential:
    """x <- 48271 x mod 2147483647 (the minimal standard generator of Park and Miller)."""

    __slots__ = ("state",)

    def __init__(self, seed: int = -1) -> None:
        self.state = 1
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Start anew; -1 takes a seed from the operating system, 0 counts as 1."""
        if seed == -1:
            seed = secrets.randbelow(_MODULUS - 1) + 1
        self.state = seed % _MODULUS or 1

    def draw(self) -> int:
        """The next number, from 1 to 2147483646."""
        self.state = self.state * _MULTIPLIER % _MODULUS
        return self.state

    def fork(self) -> int:
        """A seed for another generator; this one moves on."""
        return self.draw() * 32767 % 1999999973

    def below(self, n: int) -> int:
        """A number from 0 to n - 1, evenly (draws that would favour some are thrown away)."""
        limit = (_MODULUS - 1) // n * n
        while True:
            x = self.draw() - 1
            if x < limit:
                return x % n

    def choice(self, weights: list[float]) -> int:
        """An index, as often as its weight says."""
        total = sum(weights)
        point = (self.draw() - 1) / (_MODULUS - 1) * total
        for i, w in enumerate(weights):
            point -= w
            if point < 0:
                return i
        return max(i for i, w in enumerate(weights) if w > 0)
