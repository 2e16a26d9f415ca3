"""The parts of the native call path: the callable type, what is assumed of the interpreter, estimates, the text."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest

from symgrad.codegen.llvm.call import (
    ArrayLeaf,
    Built,
    Entry,
    Given,
    NumberLeaf,
    Python,
    Read,
    Signature,
    Value,
    callable_type,
    load_path,
    publish,
    unavailable,
)
from symgrad.codegen.llvm.call.emit import emit_path
from symgrad.codegen.llvm.call.work import iterations
from symgrad.codegen.llvm.jit import load
from symgrad.ir.loops import (
    MUL,
    Apply,
    Buffer,
    Const,
    Declare,
    Extern,
    For,
    If,
    Load,
    Program,
    Store,
    Var,
    While,
    const_index,
    extent,
)
from symgrad.ir.types import boolean, f64, i64, size_named

N, M, I, J, ZERO = size_named("n"), size_named("m"), Var("i", i64), Var("j", i64), const_index(0)
pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"no native calls: {unavailable()}")
Idle = ctypes.c_int64


def scaled() -> Program:
    """``out = a * x``."""
    buffers = (
        Buffer("a", f64, 1, "input"),
        Buffer("x", f64, N, "input"),
        Buffer("out", f64, N, "output"),
    )
    value = Apply(MUL, (Load("a", ZERO, f64), Load("x", I, f64)))
    return Program("scaled", ("n",), buffers, (For(I, ZERO, extent(N), (Store("out", I, value),)),))


def signature(*reads: Read) -> Signature:
    result = Built("tuple", (Value(f64, (N,)), Python(0)))
    return Signature(1, 1, reads, (), result, "capacity")


class Base:
    def __init__(self) -> None:
        self.slow = 0

    def __call__(self, *args, **kwargs):
        self.slow += 1
        return args, kwargs

    _slow = __call__


Leaf = callable_type(Base)


def test_a_call_from_a_dict_and_an_argument():
    program, names, note = scaled(), {"a": 2.5}, "static"
    reads = (
        Read(Entry(1, 2), NumberLeaf(f64, python=True), input=0),
        Read(Given(0), ArrayLeaf(f64, ("n",)), input=1),
    )
    path = load_path(signature(*reads), program, load(program), (note, names, "a"), Idle(0))
    f, x = Leaf(), np.arange(4.0)
    publish(f, Base, path.address)
    out, kept = f(x)
    np.testing.assert_array_equal(out, 2.5 * x)
    assert (kept is note, path.hits, f.slow) == (True, 1, 0)
    names["other"], names["a"] = 0, -1.0
    np.testing.assert_array_equal(f(x)[0], -x)
    del names["a"]
    assert f(x)[1] == {} and f.slow == 1
    names["a"] = 3.0
    np.testing.assert_array_equal(f(x)[0], 3 * x)
    assert f(x[::2])[0][0].shape == (2,) and f(x, k=1)[1] == {"k": 1} and f() == ((), {})
    assert (path.hits, f.slow) == (3, 4)


def test_calls_are_left_to_python_while_a_trace_is_under_way():
    program, tracing = scaled(), Idle(0)
    reads = (
        Read(Python(1), NumberLeaf(f64, python=True), input=0),
        Read(Given(0), ArrayLeaf(f64, ("n",)), input=1),
    )
    path = load_path(signature(*reads), program, load(program), ("static", 2.0), tracing)
    f, x = Leaf(), np.ones(3)
    publish(f, Base, path.address)
    tracing.value = 1
    assert f(x)[1] == {} and path.hits == 0
    tracing.value = 0
    assert f(x)[1] == "static" and path.hits == 1


def test_code_holds_no_addresses():
    reads = (
        Read(Entry(1, 2), NumberLeaf(f64, python=True), input=0),
        Read(Given(0), ArrayLeaf(f64, ("n",)), input=1),
    )
    text = emit_path(signature(*reads), scaled(), "call.scaled", 3)
    assert text == emit_path(signature(*reads), scaled(), "call.scaled", 3)
    assert "inttoptr (i64" not in text and str(id(np.ndarray)) not in text


def test_the_callable_type_is_a_class_like_its_base():
    f = Leaf()
    assert isinstance(f, Base) and f(1, a=2) == ((1,), {"a": 2}) and Leaf.__qualname__ == "Base"
    f.loop, seen = f, weakref.ref(f)
    del f
    gc.collect()
    assert seen() is None


def loop(stop, *body):
    return For(I, ZERO, stop, body)


def of(*body):
    return iterations(Program("p", ("n", "m"), (), body))


def test_iterations_are_counted_where_they_are_known():
    store = Store("o", ZERO, Const(1.0, f64))
    assert of(store) == 1
    assert of(loop(const_index(7), store)) == 8
    assert of(loop(extent(N), loop(extent(M), store)), loop(extent(N), store)) == N * M + 2 * N + 1
    assert of(If(Const(True, boolean), (loop(extent(N), store),), (store,))) == N + 3
    assert of(While((), Const(False, boolean), ())) is None
    assert of(loop(extent(N), Extern("f", ()))) is None
    assert of(Declare(J, ZERO), loop(J, store)) is None
