"""Memory of large results: a free list behind a NumPy memory handler (NEP 49).

A result made from it is an ordinary array that owns its data; when it dies NumPy gives the memory back here, and the
next result of that size costs no page faults. All functions are called with the interpreter lock held.

A block is known by the address of its data. Its capacity and the address to be freed lie just below. Data begin at
changing offsets, so that several results do not compete for the same lines of the cache.
"""

from __future__ import annotations

import ctypes
import functools
import sys

from symgrad.codegen.llvm.cache import default_cache
from symgrad.codegen.llvm.call.layout import entry_points
from symgrad.codegen.llvm.jit import load_plain

NAME = "symgrad_pool"
FROM = 1 << 20  # bytes of the smallest result that comes from here
MOST_KEPT = 1 << 28  # bytes in the free list
_SLOTS = 8
_HUGE_PAGE = 1 << 21
_ADVISED = 1 << 22  # bytes from which huge pages are asked for
_FUNCTIONS = ("malloc", "calloc", "realloc", "free")

_ADVICE = "%advised = call i32 @madvise(ptr %aligned, i64 %capacity, i32 14)" if sys.platform == "linux" else ""
_TEXT = f"""
@list = internal global [{_SLOTS} x ptr] zeroinitializer
@kept = internal global i64 0
@turn = internal global i64 0
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare i32 @madvise(ptr, i64, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @capacity(ptr %data) {{
  %at = getelementptr i8, ptr %data, i64 -16
  %capacity = load i64, ptr %at
  ret i64 %capacity
}}

define internal void @release(ptr %data) {{
  %at = getelementptr i8, ptr %data, i64 -8
  %block = load ptr, ptr %at
  call void @PyMem_RawFree(ptr %block)
  ret void
}}

; Take a block out of the list, or put one in (then %change is positive).
define internal void @count(i64 %change) {{
  %before = load i64, ptr @kept
  %after = add i64 %before, %change
  store i64 %after, ptr @kept
  ret void
}}

define internal i64 @next_turn() {{
  %turn = load i64, ptr @turn
  %next = add i64 %turn, 1
  store i64 %next, ptr @turn
  %slot = and i64 %turn, {_SLOTS - 1}
  ret i64 %slot
}}

define internal ptr @make(i64 %capacity) {{
  %total = add i64 %capacity, {_HUGE_PAGE + 16384}
  %block = call ptr @PyMem_RawMalloc(i64 %total)
  %full = icmp eq ptr %block, null
  br i1 %full, label %fail, label %made
fail:
  ret ptr null
made:
  %start = ptrtoint ptr %block to i64
  %above = add i64 %start, {_HUGE_PAGE + 15}
  %word = and i64 %above, -{_HUGE_PAGE}
  %near.above = add i64 %start, 79
  %near = and i64 %near.above, -64
  %large = icmp uge i64 %capacity, {_ADVISED}
  %base = select i1 %large, i64 %word, i64 %near
  %aligned = inttoptr i64 %base to ptr
  br i1 %large, label %advise, label %place
advise:
  {_ADVICE}
  br label %place
place:
  %slot = call i64 @next_turn()
  %offset = mul i64 %slot, 1088
  %data = getelementptr i8, ptr %aligned, i64 %offset
  %capacity.at = getelementptr i8, ptr %data, i64 -16
  store i64 %capacity, ptr %capacity.at
  %block.at = getelementptr i8, ptr %data, i64 -8
  store ptr %block, ptr %block.at
  ret ptr %data
}}

define ptr @pool.malloc(ptr %context, i64 %size) {{
entry:
  %above = add i64 %size, 65535
  %capacity = and i64 %above, -65536
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %on ]
  %at = getelementptr ptr, ptr @list, i64 %i
  %data = load ptr, ptr %at
  %empty = icmp eq ptr %data, null
  br i1 %empty, label %on, label %compare
compare:
  %found = call i64 @capacity(ptr %data)
  %same = icmp eq i64 %found, %capacity
  br i1 %same, label %take, label %on
take:
  store ptr null, ptr %at
  %less = sub i64 0, %capacity
  call void @count(i64 %less)
  ret ptr %data
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {_SLOTS}
  br i1 %more, label %look, label %new
new:
  %made = call ptr @make(i64 %capacity)
  ret ptr %made
}}

define void @pool.free(ptr %context, ptr %data, i64 %size) {{
entry:
  %capacity = call i64 @capacity(ptr %data)
  %huge = icmp ugt i64 %capacity, {MOST_KEPT}
  br i1 %huge, label %give, label %again
give:
  call void @release(ptr %data)
  ret void
again:
  %before = load i64, ptr @kept
  %after = add i64 %before, %capacity
  %much = icmp ugt i64 %after, {MOST_KEPT}
  br i1 %much, label %evict, label %look
look:
  %i = phi i64 [ 0, %again ], [ %next, %on ]
  %at = getelementptr ptr, ptr @list, i64 %i
  %there = load ptr, ptr %at
  %empty = icmp eq ptr %there, null
  br i1 %empty, label %put, label %on
put:
  store ptr %data, ptr %at
  call void @count(i64 %capacity)
  ret void
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {_SLOTS}
  br i1 %more, label %look, label %evict
evict:
  %slot = call i64 @next_turn()
  %old.at = getelementptr ptr, ptr @list, i64 %slot
  %old = load ptr, ptr %old.at
  %none = icmp eq ptr %old, null
  br i1 %none, label %again, label %out
out:
  store ptr null, ptr %old.at
  %room = call i64 @capacity(ptr %old)
  %less = sub i64 0, %room
  call void @count(i64 %less)
  call void @release(ptr %old)
  br label %again
}}

define ptr @pool.calloc(ptr %context, i64 %count, i64 %each) {{
  %size = mul i64 %count, %each
  %data = call ptr @pool.malloc(ptr %context, i64 %size)
  %full = icmp eq ptr %data, null
  br i1 %full, label %out, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 false)
  br label %out
out:
  ret ptr %data
}}

define ptr @pool.realloc(ptr %context, ptr %data, i64 %size) {{
  %new = call ptr @pool.malloc(ptr %context, i64 %size)
  %full = icmp eq ptr %new, null
  br i1 %full, label %out, label %move
move:
  %capacity = call i64 @capacity(ptr %data)
  %less = icmp ult i64 %capacity, %size
  %length = select i1 %less, i64 %capacity, i64 %size
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %data, i64 %length, i1 false)
  call void @pool.free(ptr %context, ptr %data, i64 0)
  br label %out
out:
  ret ptr %new
}}
"""


class _Handler(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((name, ctypes.c_void_p) for name in _FUNCTIONS),
    )


@functools.cache
def symbols() -> dict[str, int]:
    """The pool of this process, for code that makes results. Never freed: arrays may outlive everything else."""
    names = [f"pool.{name}" for name in _FUNCTIONS]
    library = load_plain(_TEXT, names, entry_points(), cache=default_cache())
    handler = _Handler(NAME.encode(), 1, None, *(library[name] for name in names))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    name = b"mem_handler"
    capsule = make(ctypes.addressof(handler), name, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object((library, handler, name, capsule)))
    return {"pool.malloc": library["pool.malloc"], "pool.free": library["pool.free"], "pool.handler": id(capsule)}
