"""LLVM IR that every call path has with it: the table's places, the way to Python, workspaces, new arrays."""

from __future__ import annotations

from symgrad.codegen.llvm.call import layout, pool

TABLE = "call.table"
HITS, CAPACITY, NEXT, FIRST_OBJECT = range(4)  # places in the table
KERNEL = "call.kernel"
KEPT_ARENA = 1 << 28

RUNTIME = f"""
@py.name.slow = external global i8
@py.none = external global i8
@py.arena = external global i64
@py.tracing = external global i64
declare i32 @{KERNEL}(ptr, ptr, ptr)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare ptr @PyList_New(i64)
declare ptr @PyArray_New(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)
declare ptr @py.scalar.alloc(ptr, i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)

define internal void @drop(ptr %o) noinline cold {{
  %none = icmp eq ptr %o, null
  br i1 %none, label %out, label %go
go:
  call void @Py_DecRef(ptr %o)
  br label %out
out:
  ret void
}}

define internal ptr @slow(ptr %self, ptr %args, i64 %nargsf, ptr %names) noinline cold {{
  %method = call ptr @PyObject_GetAttr(ptr %self, ptr @py.name.slow)
  %none = icmp eq ptr %method, null
  br i1 %none, label %out, label %go
go:
  %result = call ptr @PyObject_Vectorcall(ptr %method, ptr %args, i64 %nargsf, ptr %names)
  call void @Py_DecRef(ptr %method)
  ret ptr %result
out:
  ret ptr null
}}
"""
# One workspace is kept for the process. Who takes it leaves none, so that calls at the same time each have their own.
# Its size and the address to be freed lie just below it.
ARENA = f"""
define internal ptr @arena_take(i64 %size) noinline {{
  %word = atomicrmw xchg ptr @py.arena, i64 0 seq_cst
  %held = inttoptr i64 %word to ptr
  %none = icmp eq i64 %word, 0
  br i1 %none, label %make, label %look
look:
  %room.at = getelementptr i8, ptr %held, i64 -16
  %room = load i64, ptr %room.at
  %fits = icmp uge i64 %room, %size
  br i1 %fits, label %use, label %replace
use:
  ret ptr %held
replace:
  call void @arena_free(ptr %held)
  br label %make
make:
  %large = icmp ugt i64 %size, {KEPT_ARENA}
  br i1 %large, label %fail, label %allocate
allocate:
  %total = add i64 %size, 128
  %block = call ptr @PyMem_RawMalloc(i64 %total)
  %full = icmp eq ptr %block, null
  br i1 %full, label %fail, label %made
made:
  %start = ptrtoint ptr %block to i64
  %above = add i64 %start, 127
  %aligned = and i64 %above, -64
  %arena = inttoptr i64 %aligned to ptr
  %size.at = getelementptr i8, ptr %arena, i64 -16
  store i64 %size, ptr %size.at
  %block.at = getelementptr i8, ptr %arena, i64 -8
  store ptr %block, ptr %block.at
  ret ptr %arena
fail:
  ret ptr null
}}

define internal void @arena_free(ptr %arena) noinline {{
  %block.at = getelementptr i8, ptr %arena, i64 -8
  %block = load ptr, ptr %block.at
  call void @PyMem_RawFree(ptr %block)
  ret void
}}

define internal void @arena_give(ptr %arena) noinline {{
  %word = ptrtoint ptr %arena to i64
  %other = atomicrmw xchg ptr @py.arena, i64 %word seq_cst
  %none = icmp eq i64 %other, 0
  br i1 %none, label %out, label %free
free:
  %extra = inttoptr i64 %other to ptr
  call void @arena_free(ptr %extra)
  br label %out
out:
  ret void
}}
"""

FRESH = layout.PLAIN | layout.WRITEABLE
# Small arrays have NumPy's memory, large ones that of the pool, which the array then owns.
ARRAYS = f"""
@pool.handler = external global i8
declare ptr @pool.malloc(ptr, i64)
declare void @pool.free(ptr, ptr, i64)

define internal ptr @new_array(ptr %kind, i32 %rank, ptr %dims, i32 %number, i64 %size) noinline {{
  %large = icmp sge i64 %size, {pool.FROM}
  br i1 %large, label %take, label %plain
take:
  %data = call ptr @pool.malloc(ptr null, i64 %size)
  %none = icmp eq ptr %data, null
  br i1 %none, label %plain, label %wrap
wrap:
  %array = call ptr @PyArray_New(ptr %kind, i32 %rank, ptr %dims, i32 %number, ptr null, ptr %data, i32 0,
    i32 {FRESH}, ptr null)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %back, label %own
back:
  call void @pool.free(ptr null, ptr %data, i64 0)
  ret ptr null
own:
  %flags.at = getelementptr i8, ptr %array, i64 {layout.FLAGS}
  %flags = load i32, ptr %flags.at
  %owning = or i32 %flags, {layout.OWNS_DATA}
  store i32 %owning, ptr %flags.at
  call void @Py_IncRef(ptr @pool.handler)
  %handler.at = getelementptr i8, ptr %array, i64 {layout.HANDLER}
  store ptr @pool.handler, ptr %handler.at
  ret ptr %array
plain:
  %usual = call ptr @PyArray_New(ptr %kind, i32 %rank, ptr %dims, i32 %number, ptr null, ptr null, i32 0,
    i32 0, ptr null)
  ret ptr %usual
}}
"""
