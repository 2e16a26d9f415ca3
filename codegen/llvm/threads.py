"""Threads that help with shared loops: a pool whose whole state is a few words.

One word says what there is to do: the number of the region, how many may work on it, how many turns it has and which
is next. A turn is taken by changing that word as a whole, so that a thread that comes late takes nothing of another
region, and the caller waits only for turns that were begun. A helper that finds nothing to do looks on for a while,
then sleeps on a lock of CPython's, which needs no interpreter. One region runs at a time: a call that meets another
thread's region, or has no helpers, does its turns alone.

Turns that call BLAS are shared by threads that each call it for themselves: meanwhile its own threads, which would wait
for each other, are switched off where SciPy's library is OpenBLAS.

No thread is there before the first program with a shared loop is loaded. After a fork the child has none, until it
loads such a program itself.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import threading
from typing import Any

SHARE = (
    "sgt_share"  # void (ptr body, ptr words, i64 turns, i64 workers); body is void (ptr words, i64 turn, i64 worker)
)
SHARE_BLAS = "sgt_share_blas"  # the same for turns that call BLAS
MOST = 64  # workers, the caller included
_LOOKS = 2000  # pauses before a helper sleeps: some 50 to 100 microseconds
_PATIENCE = 10_000  # pauses before the caller, which waits for turns that others have begun, gives its core away

_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "AMD64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    "arm64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_DECLARE_PAUSE, _PAUSE = _PAUSES.get(platform.machine(), ("", ""))
_YIELDS = hasattr(os, "sched_yield")
_DECLARE_YIELD, _YIELD = ("declare i32 @sched_yield()", "%y = call i32 @sched_yield()") if _YIELDS else ("", "")

# The word, from its low bits: 20 of the next turn, 20 of how many there are, 8 of workers, 16 of the region's number.
TEXT = f"""
@word = internal global i64 0, align 64
@done = internal global i64 0, align 64
@region = internal global i64 0, align 64
@busy = internal global i64 0, align 64
@body = internal global ptr null, align 64
@words = internal global ptr null
@helpers = internal global i64 0
@blas_get = internal global ptr null
@blas_set = internal global ptr null
@asleep = internal global [{MOST} x i64] zeroinitializer, align 64
@locks = internal global [{MOST} x ptr] zeroinitializer, align 64
declare ptr @PyThread_allocate_lock()
declare i32 @PyThread_acquire_lock(ptr, i32)
declare void @PyThread_release_lock(ptr)
declare i64 @llvm.umin.i64(i64, i64)
{_DECLARE_PAUSE}
{_DECLARE_YIELD}

; Take a turn and do it; false when there is none for this worker.
define internal i1 @take(i64 %worker) {{
entry:
  %first = load atomic i64, ptr @word seq_cst, align 8
  br label %try
try:
  %word = phi i64 [ %first, %entry ], [ %seen, %claim ]
  %next = and i64 %word, 1048575
  %after = lshr i64 %word, 20
  %count = and i64 %after, 1048575
  %high = lshr i64 %word, 40
  %workers = and i64 %high, 255
  %left = icmp ult i64 %next, %count
  %welcome = icmp ult i64 %worker, %workers
  %some = and i1 %left, %welcome
  br i1 %some, label %claim, label %none
claim:
  %more = add i64 %word, 1
  %pair = cmpxchg ptr @word, i64 %word, i64 %more seq_cst seq_cst
  %seen = extractvalue {{ i64, i1 }} %pair, 0
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %do, label %try
do:
  %body = load ptr, ptr @body
  %words = load ptr, ptr @words
  call void %body(ptr %words, i64 %next, i64 %worker)
  %n = atomicrmw add ptr @done, i64 1 seq_cst
  ret i1 true
none:
  ret i1 false
}}

define internal void @take_all(i64 %worker) {{
entry:
  br label %turn
turn:
  %some = call i1 @take(i64 %worker)
  br i1 %some, label %turn, label %end
end:
  ret void
}}

; True when it was asleep: then whoever asked owes it a release of its lock, or, itself, need not wait for one.
define internal i1 @was_asleep(i64 %worker) {{
  %at = getelementptr i64, ptr @asleep, i64 %worker
  %was = atomicrmw xchg ptr %at, i64 0 seq_cst
  %yes = icmp ne i64 %was, 0
  ret i1 %yes
}}

define internal void @wake(i64 %worker) {{
entry:
  %at = getelementptr i64, ptr @asleep, i64 %worker
  %flag = load atomic i64, ptr %at seq_cst, align 8
  %seems = icmp ne i64 %flag, 0
  br i1 %seems, label %ask, label %end
ask:
  %is = call i1 @was_asleep(i64 %worker)
  br i1 %is, label %release, label %end
release:
  %where = getelementptr ptr, ptr @locks, i64 %worker
  %lock = load ptr, ptr %where
  call void @PyThread_release_lock(ptr %lock)
  br label %end
end:
  ret void
}}

define internal void @alone(ptr %body, ptr %words, i64 %turns) {{
entry:
  %some = icmp sgt i64 %turns, 0
  br i1 %some, label %turn, label %end
turn:
  %k = phi i64 [ 0, %entry ], [ %next, %turn ]
  call void %body(ptr %words, i64 %k, i64 0)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %turns
  br i1 %more, label %turn, label %end
end:
  ret void
}}

define void @{SHARE}(ptr %body, ptr %words, i64 %turns, i64 %workers) {{
entry:
  %helpers = load i64, ptr @helpers
  %several = icmp sgt i64 %turns, 1
  %helped = icmp sgt i64 %helpers, 0
  %asked = icmp sgt i64 %workers, 1
  %fits = icmp slt i64 %turns, 1048576
  %a = and i1 %several, %helped
  %b = and i1 %asked, %fits
  %worth = and i1 %a, %b
  br i1 %worth, label %enter, label %serial
enter:
  %pair = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %free = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %free, label %publish, label %serial
serial:
  call void @alone(ptr %body, ptr %words, i64 %turns)
  ret void
publish:
  store ptr %body, ptr @body
  store ptr %words, ptr @words
  store atomic i64 0, ptr @done seq_cst, align 8
  %before = load atomic i64, ptr @region seq_cst, align 8
  %region = add i64 %before, 1
  %number = shl i64 %region, 48
  %all = add i64 %helpers, 1
  %hands = call i64 @llvm.umin.i64(i64 %workers, i64 %all)
  %who = shl i64 %hands, 40
  %what = shl i64 %turns, 20
  %u = or i64 %number, %who
  %word = or i64 %u, %what
  store atomic i64 %word, ptr @word seq_cst, align 8
  store atomic i64 %region, ptr @region seq_cst, align 8 ; after the word: who sees the region finds its turns
  br label %waking
waking:
  %h = phi i64 [ 1, %publish ], [ %following, %waking ]
  call void @wake(i64 %h)
  %following = add i64 %h, 1
  %others = icmp slt i64 %following, %hands
  br i1 %others, label %waking, label %work
work:
  call void @take_all(i64 0)
  br label %wait
wait:
  %looked = phi i64 [ 0, %work ], [ 0, %give ], [ %looks, %look ]
  %done = load atomic i64, ptr @done seq_cst, align 8
  %finished = icmp eq i64 %done, %turns
  br i1 %finished, label %leave, label %look
look:
  {_PAUSE}
  %looks = add i64 %looked, 1
  %tired = icmp sgt i64 %looks, {_PATIENCE}
  br i1 %tired, label %give, label %wait
give:
  {_YIELD}
  br label %wait
leave:
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
}}

define void @{SHARE_BLAS}(ptr %body, ptr %words, i64 %turns, i64 %workers) {{
entry:
  %get = load ptr, ptr @blas_get
  %set = load ptr, ptr @blas_set
  %known = icmp ne ptr %get, null
  br i1 %known, label %look, label %plain
look:
  %before = call i32 %get()
  %several = icmp sgt i32 %before, 1
  br i1 %several, label %quiet, label %plain
quiet:
  call void %set(i32 1)
  call void @{SHARE}(ptr %body, ptr %words, i64 %turns, i64 %workers)
  call void %set(i32 %before)
  ret void
plain:
  call void @{SHARE}(ptr %body, ptr %words, i64 %turns, i64 %workers)
  ret void
}}

define void @sgt_blas(ptr %get, ptr %set) {{
  store ptr %get, ptr @blas_get
  store ptr %set, ptr @blas_set
  ret void
}}

; The life of a helper; never returns.
define void @sgt_help(i64 %worker) {{
entry:
  %place = getelementptr ptr, ptr @locks, i64 %worker
  %lock = load ptr, ptr %place
  %asleep = getelementptr i64, ptr @asleep, i64 %worker
  br label %begin
begin:
  %region = load atomic i64, ptr @region seq_cst, align 8
  call void @take_all(i64 %worker)
  br label %look
look:
  %looked = phi i64 [ 0, %begin ], [ %looks, %again ]
  %now = load atomic i64, ptr @region seq_cst, align 8
  %same = icmp eq i64 %now, %region
  br i1 %same, label %again, label %begin
again:
  {_PAUSE}
  %looks = add i64 %looked, 1
  %tired = icmp sgt i64 %looks, {_LOOKS}
  br i1 %tired, label %lie, label %look
lie:
  store atomic i64 1, ptr %asleep seq_cst, align 8
  %late = load atomic i64, ptr @region seq_cst, align 8
  %quiet = icmp eq i64 %late, %region
  br i1 %quiet, label %sleep, label %rise
rise: ; a region has begun meanwhile; whoever began it may have released the lock already
  %mine = call i1 @was_asleep(i64 %worker)
  br i1 %mine, label %begin, label %sleep
sleep:
  %slept = call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  br label %begin
}}

define void @sgt_prepare(i64 %worker) {{
  %lock = call ptr @PyThread_allocate_lock()
  %taken = call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  %place = getelementptr ptr, ptr @locks, i64 %worker
  store ptr %lock, ptr %place
  %asleep = getelementptr i64, ptr @asleep, i64 %worker
  store i64 0, ptr %asleep
  ret void
}}

define void @sgt_helpers(i64 %count) {{
  store i64 %count, ptr @helpers
  ret void
}}

; In a child of a fork: nobody helps, nothing is going on.
define void @sgt_forked() {{
  store i64 0, ptr @helpers
  store i64 0, ptr @word
  store i64 0, ptr @busy
  ret void
}}
"""
EXPORTS = (SHARE, SHARE_BLAS, "sgt_blas", "sgt_help", "sgt_prepare", "sgt_helpers", "sgt_forked")

_starting = threading.Lock()
_started = 0


def keep(code: Any) -> Any:
    """The pool's code, for the life of the process: helpers may be in it when the interpreter goes."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=functools.partial(_forked, code))
    return code


def quieten(code: Any, threads: tuple[int, int] | None) -> None:
    """Tell the pool how BLAS says and is told how many threads it has, where that is known."""
    if threads is not None:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code["sgt_blas"])(*threads)


def start(code: Any, workers: int) -> None:
    """Have a helper for each of ``workers`` but the first, which is the caller of a program."""
    global _started
    prepare, announce = (ctypes.CFUNCTYPE(None, ctypes.c_int64)(code[name]) for name in ("sgt_prepare", "sgt_helpers"))
    help_ = ctypes.CFUNCTYPE(None, ctypes.c_int64)(code["sgt_help"])
    with _starting:
        for worker in range(_started + 1, min(workers, MOST)):
            prepare(worker)
            threading.Thread(target=help_, args=(worker,), name=f"symgrad-{worker}", daemon=True).start()
            _started = worker
        announce(_started)


def _forked(code: Any) -> None:
    global _started, _starting
    _started, _starting = 0, threading.Lock()
    ctypes.CFUNCTYPE(None)(code["sgt_forked"])()
