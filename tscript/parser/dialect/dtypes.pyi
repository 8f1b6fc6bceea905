# Written by `stub_text()` of the module dtype_functions; a test compares the two.
from typing import Protocol, TypeAlias

from tscript.ir.dtype import DataType
from tscript.ir.expr import PrimExpr, Type

# A protocol, because a checker wants the first parameter of a method (a kernel of a module) to fit the class,
# unless its type is one.
class handle(Protocol):
    name: str
    dtype: DataType
    type_annotation: Type
    def __init__(self, dtype: object = None, storage_scope: str = "global", *, is_size_var: object = False) -> None: ...

int8: TypeAlias = PrimExpr
int8x2: TypeAlias = PrimExpr
int8x4: TypeAlias = PrimExpr
int8x8: TypeAlias = PrimExpr
int8x16: TypeAlias = PrimExpr
int8x32: TypeAlias = PrimExpr
int8x64: TypeAlias = PrimExpr
int16: TypeAlias = PrimExpr
int16x2: TypeAlias = PrimExpr
int16x4: TypeAlias = PrimExpr
int16x8: TypeAlias = PrimExpr
int16x16: TypeAlias = PrimExpr
int16x32: TypeAlias = PrimExpr
int16x64: TypeAlias = PrimExpr
int32: TypeAlias = PrimExpr
int32x2: TypeAlias = PrimExpr
int32x4: TypeAlias = PrimExpr
int32x8: TypeAlias = PrimExpr
int32x16: TypeAlias = PrimExpr
int32x32: TypeAlias = PrimExpr
int32x64: TypeAlias = PrimExpr
int64: TypeAlias = PrimExpr
int64x2: TypeAlias = PrimExpr
int64x4: TypeAlias = PrimExpr
int64x8: TypeAlias = PrimExpr
int64x16: TypeAlias = PrimExpr
int64x32: TypeAlias = PrimExpr
int64x64: TypeAlias = PrimExpr
uint8: TypeAlias = PrimExpr
uint8x2: TypeAlias = PrimExpr
uint8x4: TypeAlias = PrimExpr
uint8x8: TypeAlias = PrimExpr
uint8x16: TypeAlias = PrimExpr
uint8x32: TypeAlias = PrimExpr
uint8x64: TypeAlias = PrimExpr
uint16: TypeAlias = PrimExpr
uint16x2: TypeAlias = PrimExpr
uint16x4: TypeAlias = PrimExpr
uint16x8: TypeAlias = PrimExpr
uint16x16: TypeAlias = PrimExpr
uint16x32: TypeAlias = PrimExpr
uint16x64: TypeAlias = PrimExpr
uint32: TypeAlias = PrimExpr
uint32x2: TypeAlias = PrimExpr
uint32x4: TypeAlias = PrimExpr
uint32x8: TypeAlias = PrimExpr
uint32x16: TypeAlias = PrimExpr
uint32x32: TypeAlias = PrimExpr
uint32x64: TypeAlias = PrimExpr
uint64: TypeAlias = PrimExpr
uint64x2: TypeAlias = PrimExpr
uint64x4: TypeAlias = PrimExpr
uint64x8: TypeAlias = PrimExpr
uint64x16: TypeAlias = PrimExpr
uint64x32: TypeAlias = PrimExpr
uint64x64: TypeAlias = PrimExpr
float16: TypeAlias = PrimExpr
float16x2: TypeAlias = PrimExpr
float16x4: TypeAlias = PrimExpr
float16x8: TypeAlias = PrimExpr
float16x16: TypeAlias = PrimExpr
float16x32: TypeAlias = PrimExpr
float16x64: TypeAlias = PrimExpr
float32: TypeAlias = PrimExpr
float32x2: TypeAlias = PrimExpr
float32x4: TypeAlias = PrimExpr
float32x8: TypeAlias = PrimExpr
float32x16: TypeAlias = PrimExpr
float32x32: TypeAlias = PrimExpr
float32x64: TypeAlias = PrimExpr
float64: TypeAlias = PrimExpr
float64x2: TypeAlias = PrimExpr
float64x4: TypeAlias = PrimExpr
float64x8: TypeAlias = PrimExpr
float64x16: TypeAlias = PrimExpr
float64x32: TypeAlias = PrimExpr
float64x64: TypeAlias = PrimExpr
bfloat16: TypeAlias = PrimExpr
bfloat16x2: TypeAlias = PrimExpr
bfloat16x4: TypeAlias = PrimExpr
bfloat16x8: TypeAlias = PrimExpr
bfloat16x16: TypeAlias = PrimExpr
bfloat16x32: TypeAlias = PrimExpr
bfloat16x64: TypeAlias = PrimExpr
float8_e4m3fn: TypeAlias = PrimExpr
float8_e4m3fnx2: TypeAlias = PrimExpr
float8_e4m3fnx4: TypeAlias = PrimExpr
float8_e4m3fnx8: TypeAlias = PrimExpr
float8_e4m3fnx16: TypeAlias = PrimExpr
float8_e4m3fnx32: TypeAlias = PrimExpr
float8_e4m3fnx64: TypeAlias = PrimExpr
float8_e5m2: TypeAlias = PrimExpr
float8_e5m2x2: TypeAlias = PrimExpr
float8_e5m2x4: TypeAlias = PrimExpr
float8_e5m2x8: TypeAlias = PrimExpr
float8_e5m2x16: TypeAlias = PrimExpr
float8_e5m2x32: TypeAlias = PrimExpr
float8_e5m2x64: TypeAlias = PrimExpr
float4_e2m1fn: TypeAlias = PrimExpr
float4_e2m1fnx2: TypeAlias = PrimExpr
float4_e2m1fnx4: TypeAlias = PrimExpr
float4_e2m1fnx8: TypeAlias = PrimExpr
float4_e2m1fnx16: TypeAlias = PrimExpr
float4_e2m1fnx32: TypeAlias = PrimExpr
float4_e2m1fnx64: TypeAlias = PrimExpr
bool: TypeAlias = PrimExpr
boolx2: TypeAlias = PrimExpr
boolx4: TypeAlias = PrimExpr
boolx8: TypeAlias = PrimExpr
boolx16: TypeAlias = PrimExpr
boolx32: TypeAlias = PrimExpr
boolx64: TypeAlias = PrimExpr
boolean: TypeAlias = PrimExpr
void: TypeAlias = PrimExpr
