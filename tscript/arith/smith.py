"""The Smith normal form of an integer matrix: `U * A * V` is diagonal, `U` and `V` are invertible."""

from __future__ import annotations

from typing import NamedTuple

Matrix = list[list[int]]


class SmithForm(NamedTuple):
    """`left * A * right` has `diagonal` on its diagonal, each entry dividing the next, and zeros elsewhere.

    `right_inverse` is the inverse of `right`.
    """

    left: Matrix
    diagonal: list[int]
    right: Matrix
    right_inverse: Matrix


def identity(n: int) -> Matrix:
    """The identity matrix."""
    return [[int(i == j) for j in range(n)] for i in range(n)]


def smith_normal_form(matrix: Matrix, columns: int) -> SmithForm:
    """The Smith normal form of a matrix with the given number of columns (it may have no rows).

    >>> smith_normal_form([[2, 4], [6, 8]], 2).diagonal
    [2, 4]
    """
    a = [list(row) for row in matrix]
    rows = len(a)
    left, right, inverse = identity(rows), identity(columns), identity(columns)
    diagonal: list[int] = []
    for k in range(min(rows, columns)):
        if not _clear(a, k, left, right, inverse):
            break
        if a[k][k] < 0:
            _scale_row(a, left, k)
        diagonal.append(a[k][k])
    return SmithForm(left, diagonal, right, inverse)


def _clear(a: Matrix, k: int, left: Matrix, right: Matrix, inverse: Matrix) -> bool:
    """Make row and column `k` zero beyond the diagonal; False where nothing is left."""
    while True:
        pivot = _smallest(a, k)
        if pivot is None:
            return False
        i, j = pivot
        _swap_rows(a, left, k, i)
        _swap_columns(a, right, inverse, k, j)
        p = a[k][k]
        for r in range(k + 1, len(a)):
            _add_row(a, left, r, k, -(a[r][k] // p))
        for c in range(k + 1, len(a[0])):
            _add_column(a, right, inverse, c, k, -(a[k][c] // p))
        if any(a[r][k] for r in range(k + 1, len(a))) or any(a[k][c] for c in range(k + 1, len(a[0]))):
            continue
        rest = next((r for r in range(k + 1, len(a)) if any(x % p for x in a[r][k + 1 :])), None)
        if rest is None:
            return True
        _add_row(a, left, k, rest, 1)


def _smallest(a: Matrix, k: int) -> tuple[int, int] | None:
    best: tuple[int, int] | None = None
    for i in range(k, len(a)):
        for j in range(k, len(a[i])):
            if a[i][j] and (best is None or abs(a[i][j]) < abs(a[best[0]][best[1]])):
                best = i, j
    return best


def _swap_rows(a: Matrix, left: Matrix, i: int, j: int) -> None:
    a[i], a[j] = a[j], a[i]
    left[i], left[j] = left[j], left[i]


def _scale_row(a: Matrix, left: Matrix, i: int) -> None:
    a[i] = [-x for x in a[i]]
    left[i] = [-x for x in left[i]]


def _add_row(a: Matrix, left: Matrix, to: int, source: int, factor: int) -> None:
    if factor:
        a[to] = [x + factor * y for x, y in zip(a[to], a[source], strict=True)]
        left[to] = [x + factor * y for x, y in zip(left[to], left[source], strict=True)]


def _swap_columns(a: Matrix, right: Matrix, inverse: Matrix, i: int, j: int) -> None:
    for m in (a, right):
        for row in m:
            row[i], row[j] = row[j], row[i]
    inverse[i], inverse[j] = inverse[j], inverse[i]


def _add_column(a: Matrix, right: Matrix, inverse: Matrix, to: int, source: int, factor: int) -> None:
    if factor:
        for m in (a, right):
            for row in m:
                row[to] += factor * row[source]
        # The inverse of the step acts on rows, the other way round.
        inverse[source] = [x - factor * y for x, y in zip(inverse[source], inverse[to], strict=True)]
