"""Data types of scalars and vectors, written as TVM writes them: `"float32"`, `"int8x4"`."""

from __future__ import annotations

import difflib
import re
from typing import ClassVar, Final

from tscript.support.wording import kind_of

_SIZED: Final = re.compile(r"(int|uint|float|bfloat)([1-9][0-9]*)(?:x([1-9][0-9]*))?")
_NAMED: Final = re.compile(r"(bool|handle|void|float8_e4m3fn|float8_e5m2|float4_e2m1fn)(?:x([1-9][0-9]*))?")
_ALIASES: Final = {
    "float8_e4m3": "float8_e4m3fn",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
    "float": "float32",
    "int": "int32",
    "uint": "uint32",
    "boolean": "bool",
    "": "void",
}
_BITS: Final = {
    "int": (1, 4, 8, 16, 32, 64),
    "uint": (1, 4, 8, 16, 32, 64),
    "float": (16, 32, 64),
    "bfloat": (16,),
}
_NAMED_BITS: Final = {
    "bool": 1,
    "handle": 64,
    "void": 0,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float4_e2m1fn": 4,
}


def _similar(text: str) -> str:
    scalars = [f"{code}{bits}" for code, widths in _BITS.items() for bits in widths] + [*_NAMED_BITS]
    found = difflib.get_close_matches(text.lower(), scalars, n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(f) for f in found)}?" if found else ""


class DataType(str):
    """A scalar or vector type. Equal to, and usable as, its text.

    Attributes: `code` (`"int"`, `"uint"`, `"bool"`, `"float"`, `"bfloat"`, `"float8_e4m3fn"`,
    `"float8_e5m2"`, `"float4_e2m1fn"`, `"handle"`, `"void"`), `bits` per lane, `lanes`.

    Raises ValueError for a name that is no type.

    >>> DataType("int8x4").lanes, DataType("bool").bits
    (4, 1)
    """

    code: str
    bits: int
    lanes: int
    is_int: bool
    is_uint: bool
    is_bool: bool
    is_float: bool
    is_handle: bool
    _pool: ClassVar[dict[str, DataType]] = {}

    def __new__(cls, text: str) -> DataType:
        if isinstance(text, DataType):
            return text
        found = cls._pool.get(text)
        return found if found is not None else cls._parse(text)

    @classmethod
    def _parse(cls, text: str) -> DataType:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a data type is written as text such as 'float32', not {kind_of(text)}")
        name = _ALIASES.get(text, text)
        if match := _SIZED.fullmatch(name):
            code, bits = match[1], int(match[2])
            lanes = int(match[3] or 1)
            if bits not in _BITS[code]:
                raise ValueError(f"unknown data type '{text}': {code} comes in {_BITS[code]} bits")
            scalar = f"{code}{bits}"
            if scalar == "uint1":
                code = scalar = "bool"
        elif match := _NAMED.fullmatch(name):
            code = scalar = match[1]
            bits, lanes = _NAMED_BITS[code], int(match[2] or 1)
        else:
            raise ValueError(f"unknown data type '{text}'{_similar(text)}")
        name = scalar if lanes == 1 else f"{scalar}x{lanes}"
        self = str.__new__(cls, name)
        self.code, self.bits, self.lanes = code, bits, lanes
        self.is_int = code == "int"
        self.is_uint = code == "uint"
        self.is_bool = code == "bool"
        self.is_float = code in ("float", "bfloat", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")
        self.is_handle = code == "handle"
        kept = cls._pool.setdefault(name, self)
        cls._pool[text] = kept
        return kept

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.is_int or self.is_uint

    @property
    def is_scalar(self) -> bool:
        """True for a single lane."""
        return self.lanes == 1

    @property
    def element(self) -> DataType:
        """The type of one lane."""
        return self if self.lanes == 1 else self.with_lanes(1)

    @property
    def bytes(self) -> int:
        """Bytes one lane takes in memory (a bool takes one)."""
        return (self.bits + 7) // 8

    def with_lanes(self, lanes: int) -> DataType:
        """The same element type with `lanes` lanes."""
        if lanes == self.lanes:
            return self
        base = self if self.lanes == 1 else str(self)[: str(self).rindex("x")]
        return DataType(str(base) if lanes == 1 else f"{base!s}x{lanes}")

    def __str__(self) -> str:
        return str.__str__(self)

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return DataType, (str(self),)

    # -- spellings TVM users know ------------------------------------------------------------

    @property
    def type_code(self) -> str:
        """Same as `code`."""
        return self.code


BOOL: Final = DataType("bool")
INT32: Final = DataType("int32")
INT64: Final = DataType("int64")
FLOAT32: Final = DataType("float32")
HANDLE: Final = DataType("handle")
VOID: Final = DataType("void")


def int_range(dtype: DataType) -> tuple[int, int]:
    """Smallest and largest value of an integer or bool type, both inclusive."""
    if dtype.is_bool:
        return 0, 1
    if dtype.is_uint:
        return 0, (1 << dtype.bits) - 1
    if dtype.is_int:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    raise ValueError(f"{dtype!s} is not an integer type")
