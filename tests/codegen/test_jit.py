"""Loading: threads, lifetimes, what the machine code looks like, how long huge programs take."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from symgrad.codegen.llvm import ObjectCache, load, load_text
from symgrad.errors import UnsupportedError
from symgrad.ir.loops import (
    ADD,
    MUL,
    Apply,
    Assign,
    Block,
    Buffer,
    Const,
    Declare,
    Expr,
    For,
    Let,
    Load,
    Program,
    Store,
    Var,
    const_index,
    extent,
)
from symgrad.ir.types import f64, i64, size_named

Array = NDArray[np.float64]
N, I, ZERO = size_named("n"), Var("i", i64), const_index(0)
X, Y, O = Buffer("x", f64, N, "input"), Buffer("y", f64, N, "input"), Buffer("o", f64, N, "output")
is_x86 = pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="reads x86 assembly")


def axpy(a: float = 2.5) -> Program:
    value = Apply(ADD, (Apply(MUL, (Const(a, f64), Load("x", I, f64))), Load("y", I, f64)))
    return Program("axpy", ("n",), (X, Y, O), (For(I, ZERO, extent(N), (Store("o", I, value),)),))


def total(reassoc: bool) -> Program:
    s = Var("s", f64)
    step = Assign(s, Apply(ADD, (s, Load("x", I, f64)), reassoc=reassoc))
    body = (Declare(s, Const(0.0, f64)), For(I, ZERO, extent(N), (step,)), Store("o", ZERO, s))
    return Program("total", ("n",), (X, Buffer("o", f64, 1, "output")), body)


def run_axpy(call: object, x: Array, y: Array) -> Array:
    o = np.zeros_like(x)
    pointers = (ctypes.c_void_p * 3)(x.ctypes.data, y.ctypes.data, o.ctypes.data)
    assert callable(call)
    assert call(pointers, (ctypes.c_int64 * 1)(x.size), None) == 0
    return o


@is_x86
def test_simple_loop_uses_vectors() -> None:
    asm = load(axpy()).asm
    assert re.search(r"v?fmadd\w*pd|mulpd", asm)
    assert ("ymm" in asm or "zmm" in asm) == ("vaddpd" in asm or "fmadd" in asm)  # with AVX, its registers


@is_x86
def test_only_a_sum_that_may_be_reordered_is_vectorised() -> None:
    assert "addpd" in load(total(reassoc=True)).asm
    assert "addpd" not in load(total(reassoc=False)).asm


def test_written_buffers_need_no_check_for_overlap_at_run_time() -> None:
    assert "vector.memcheck" not in load(axpy()).llvm
    assert "vector.body" in load(axpy()).llvm


def test_call_outlives_the_object_that_held_it() -> None:
    call = load(axpy(3.0)).call
    for k in range(20):
        load(axpy(float(k)))  # would take the memory of code that was freed
        gc.collect()
    x = np.arange(5.0)
    np.testing.assert_array_equal(run_axpy(call, x, x), 4 * x)


def test_threads_may_compile_and_call_at_once() -> None:
    x = np.arange(1000.0)

    def work(k: int) -> bool:
        return bool(np.array_equal(run_axpy(load(axpy(float(k))).call, x, x), k * x + x))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(24)))


def test_missing_function_is_an_error() -> None:
    source = "declare void @no_such_function()\ndefine i32 @f(ptr %a, ptr %b, ptr %c) {\n"
    source += "  call void @no_such_function()\n  ret i32 0\n}\n"
    with pytest.raises(UnsupportedError, match="not found: no_such_function"):
        load_text(source, "f")


def test_missing_blas_routine_is_an_error() -> None:
    source = "declare void @sg_dnothing()\ndefine i32 @f(ptr %a, ptr %b, ptr %c) {\n"
    source += "  call void @sg_dnothing()\n  ret i32 0\n}\n"
    with pytest.raises(UnsupportedError, match="dnothing is not a routine"):
        load_text(source, "f")


def test_symbols_given_by_address_are_called() -> None:
    seen: list[int] = []
    callback = ctypes.CFUNCTYPE(None)(lambda: seen.append(1))
    source = "declare void @hook()\ndefine i32 @f(ptr %a, ptr %b, ptr %c) {\n  call void @hook()\n  ret i32 7\n}\n"
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    assert load_text(source, "f", symbols={"hook": address}).call(None, None, None) == 7
    assert seen == [1]


def test_huge_straight_line_program_compiles_in_seconds() -> None:
    values: list[Expr] = [Load("x", const_index(k), f64) for k in range(50)]
    body: list[Let | Store] = []
    for k in range(25_000):
        var = Var(f"v{k}", f64)
        body.append(Let(var, Apply((ADD, MUL)[k % 2], (values[-1 - k % 37], values[-1 - k % 41]))))
        values.append(var)
    block: Block = (*body, Store("o", ZERO, values[-1]))
    program = Program("huge", (), (Buffer("x", f64, 50, "input"), Buffer("o", f64, 1, "output")), block)
    numbers = [float(v) for v in np.linspace(0.1, 0.5, 50)]
    start = time.perf_counter()
    call = load(program).call
    assert time.perf_counter() - start < 10
    for k in range(25_000):
        a, b = numbers[-1 - k % 37], numbers[-1 - k % 41]
        numbers.append(a * b if k % 2 else a + b)
    x, o = np.linspace(0.1, 0.5, 50), np.zeros(1)
    assert call((ctypes.c_void_p * 2)(x.ctypes.data, o.ctypes.data), None, None) == 0
    np.testing.assert_allclose(o[0], numbers[-1], rtol=1e-12)


def test_light_import() -> None:
    code = "import symgrad.codegen.llvm, sys; assert not {'llvmlite', 'scipy', 'sympy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_process_ends_cleanly_with_code_alive(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from symgrad.codegen.llvm import load\nfrom symgrad.ir.loops import Program\n"
        "kept = [load(Program(f'p{k}', (), (), ())) for k in range(3)]\nassert kept[0].call(None, None, None) == 0\n"
    )
    subprocess.run([sys.executable, script], check=True, env=_environment())


def test_second_load_comes_from_the_cache(tmp_path: Path) -> None:
    cache, x = ObjectCache(tmp_path / "c"), np.arange(7.0)
    first, second = load(axpy(), cache=cache), load(axpy(), cache=cache)
    assert (first.compiled, second.compiled) == (True, False)
    np.testing.assert_array_equal(run_axpy(second.call, x, x), 3.5 * x)
    assert second.llvm == first.llvm


def test_another_program_does_not_hit(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "c")
    load(axpy(1.0), cache=cache)
    assert load(axpy(2.0), cache=cache).compiled


def test_another_process_runs_the_cached_object(tmp_path: Path) -> None:
    """BLAS, libm and constants are found again where the other process has them."""
    script = tmp_path / "script.py"
    script.write_text(_CACHED)
    runs = [
        subprocess.run([sys.executable, script, tmp_path / "c"], check=True, env=_environment(), capture_output=True)
        for _ in range(2)
    ]
    assert [r.stdout.split() for r in runs] == [[b"True", b"5.0"], [b"False", b"5.0"]]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


_CACHED = """
import ctypes, sys
import numpy as np
from symgrad.codegen.llvm import ObjectCache, load
from symgrad.ir.loops import *
from symgrad.ir.types import *
z = const_index(0)
one = ByReference(Const(1, i64), i32)
unit = ByReference(Const(1.0, f64), f64)
data = np.array([3.0]).tobytes()
buffers = (Buffer("c", f64, 1, "constant", data=data), Buffer("t", f64, 1, "temp"), Buffer("o", f64, 1, "output"))
cos = fn("cos", "", f="libm cos")
a = Address("c", z)
body = (
    Store("o", z, Apply(ADD, (Const(1.0, f64), Apply(cos, (Load("t", z, f64),))))),
    Extern("sg_dgemv", (Text("N"), one, one, unit, a, one, a, one, unit, Address("t", z), one)),
    Store("o", z, Apply(ADD, (Load("o", z, f64), Const(-6.0, f64)))),
    Store("o", z, Apply(ADD, (Load("o", z, f64), Load("t", z, f64)))),
)
native = load(Program("p", (), buffers, body, workspace_bytes=8), cache=ObjectCache(sys.argv[1]))
o, w = np.zeros(1), np.zeros(16)
at = w.ctypes.data + -w.ctypes.data % 64
assert native.call((ctypes.c_void_p * 1)(o.ctypes.data), None, at) == 0
print(native.compiled, o[0])
"""
