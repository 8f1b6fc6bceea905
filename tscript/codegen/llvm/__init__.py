"""LLVM: lowered functions to LLVM IR text, and that to machine code. The only importer of llvmlite."""
