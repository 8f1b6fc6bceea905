"""The tensor IR: nodes, constructors, traversal, comparison, rules, and saving and loading."""

from tscript.ir.base import FrozenDict, Node
from tscript.ir.buffer import Buffer, decl_buffer
from tscript.ir.construct import const, convert
from tscript.ir.dtype import DataType
from tscript.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    GlobalVar,
    IntImm,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Op,
    Or,
    PointerType,
    PrimExpr,
    PrimType,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    TupleType,
    Type,
    Var,
)  # fmt: skip
from tscript.ir.function import IRModule, PrimFunc
from tscript.ir.functor import (
    Rewriter,
    Visitor,
    children,
    post_order_visit,
    pre_order_visit,
    substitute,
)  # fmt: skip
from tscript.ir.index_map import IndexMap
from tscript.ir.json_io import LoadError, load_json, save_json
from tscript.ir.rules import RULES, WellFormedError
from tscript.ir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    SeqStmt,
    Stmt,
    While,
    seq,
)  # fmt: skip
from tscript.ir.structural import StructuralMismatch, assert_structural_equal, structural_equal, structural_hash
from tscript.ir.well_formed import verify_well_formed

__all__ = [
    "EQ", "GE", "GT", "LE", "LT", "NE", "RULES", "Add", "Allocate", "AllocateConst", "And", "AssertStmt",
    "AttrStmt", "Block", "BlockRealize", "Broadcast", "Buffer", "BufferLoad", "BufferRealize", "BufferRegion",
    "BufferStore", "Call", "Cast", "CommReducer", "DataType", "DeclBuffer", "Div", "Evaluate", "FloatImm",
    "FloorDiv", "FloorMod", "For", "ForKind", "FrozenDict", "GlobalVar", "IRModule", "IfThenElse", "IndexMap",
    "IntImm", "IterVar", "Let", "LetStmt", "LoadError", "MatchBufferRegion", "Max", "Min", "Mod", "Mul", "Node",
    "Not", "Op", "Or", "PointerType", "Prefetch", "PrimExpr", "PrimFunc", "PrimType", "ProducerLoad", "Ramp",
    "Range", "Reduce", "Rewriter", "Select", "SeqStmt", "Shuffle", "SizeVar", "Stmt", "StringImm",
    "StructuralMismatch", "Sub", "TupleType", "Type", "Var", "Visitor", "WellFormedError", "While",
    "assert_structural_equal", "children", "const", "convert", "decl_buffer", "load_json", "post_order_visit",
    "pre_order_visit", "save_json", "seq", "structural_equal", "structural_hash", "substitute",
    "verify_well_formed",
]  # fmt: skip
