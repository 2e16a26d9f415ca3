"""The LLVM back end: Program -> LLVM IR text -> native function, kept on disk between processes."""

from __future__ import annotations

from symgrad.codegen.llvm.cache import ObjectCache as ObjectCache
from symgrad.codegen.llvm.cache import default_cache as default_cache
from symgrad.codegen.llvm.emit import emit as emit
from symgrad.codegen.llvm.jit import Native as Native
from symgrad.codegen.llvm.jit import compile_object as compile_object
from symgrad.codegen.llvm.jit import load as load
from symgrad.codegen.llvm.jit import load_text as load_text
