"""Every elementary function against mpmath, at special values, lane by lane, and in the assembly of its loop."""

from __future__ import annotations

import ctypes
import math
import re
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from symgrad.codegen.elementary import ARITY
from symgrad.codegen.llvm import functions
from symgrad.codegen.llvm.jit import Native, load_text, run_passes
from symgrad.codegen.llvm.target import binding

INF, NAN = math.inf, math.nan
SHARP = ("exp", "log", "sin", "cos", "tanh", "expm1", "log1p", "sigmoid")
EXACT: dict[str, Any] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "pow": mpmath.power,
}
SPECIAL: dict[str, list[tuple[float, ...]]] = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (1e300, INF), (-1e300, 0.0)],
    "exp2": [(0.0, 1.0), (INF, INF), (-INF, 0.0), (10.0, 1024.0), (-3.0, 0.125)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0)],
    "log": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (-INF, NAN)],
    "log2": [(0.0, -INF), (1.0, 0.0), (8.0, 3.0), (2.0**-100, -100.0), (INF, INF), (-1.0, NAN)],
    "log10": [(0.0, -INF), (1.0, 0.0), (1000.0, 3.0), (INF, INF), (-1.0, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-2.0, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0.0, 1.0), (INF, INF), (-INF, INF)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "erfc": [(0.0, 1.0), (INF, 0.0), (-INF, 2.0)],
    "atan": [(0.0, 0.0), (-0.0, -0.0), (INF, math.pi / 2), (-INF, -math.pi / 2)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (1.0, math.pi / 2), (-1.0, -math.pi / 2), (1.5, NAN)],
    "acos": [(1.0, 0.0), (-1.0, math.pi), (1.5, NAN), (-INF, NAN)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (INF, INF), (0.5, NAN), (-INF, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (INF, NAN)],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (27.0, 3.0), (-8.0, -2.0)],
}
TARGETS = {
    "avx512": ("x86_64-unknown-linux-gnu", "znver4", r"%zmm"),
    "avx2": ("x86_64-unknown-linux-gnu", "haswell", r"%ymm"),
    "aarch64": ("aarch64-unknown-linux-gnu", "neoverse-n1", r"v\d+\.[24][sd]"),
}
each = pytest.mark.parametrize("name", sorted(ARITY))
both = pytest.mark.parametrize("bits", [64, 32])


def loop(name: str, bits: int) -> str:
    """A module: out[i] = name(in[i], ...) for i below sizes[0]."""
    f, n, symbol = functions.type_name(bits), ARITY[name], f"@sgm.{name}.f{bits}"
    text, needed = functions.definitions([symbol], vector=True)
    places = [
        line
        for k in range(n + 1)
        for line in (f"%b{k} = getelementptr ptr, ptr %buffers, i64 {k}", f"%p{k} = load ptr, ptr %b{k}")
    ]
    loads = [
        line
        for k in range(n)
        for line in (f"%g{k} = getelementptr {f}, ptr %p{k}, i64 %i", f"%x{k} = load {f}, ptr %g{k}")
    ]
    passed = ", ".join(f"{f} %x{k}" for k in range(n))
    return "\n".join(
        [
            "define i32 @apply(ptr %buffers, ptr %sizes, ptr %workspace) {",
            "entry:",
            "%n = load i64, ptr %sizes",
            *places,
            "br label %loop",
            "loop:",
            "%i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *loads,
            f"%r = call {f} {symbol}({passed}) alwaysinline",
            f"%g = getelementptr {f}, ptr %p{n}, i64 %i",
            f"store {f} %r, ptr %g",
            "%next = add nsw i64 %i, 1",
            "%again = icmp slt i64 %next, %n",
            "br i1 %again, label %loop, label %done",
            "done:",
            "ret i32 0",
            "}",
            text,
            *sorted(needed),
            "",
        ]
    )


def apply(native: Native, *arrays: NDArray[Any]) -> NDArray[Any]:
    out = np.empty_like(arrays[0])
    buffers = (ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in (*arrays, out)))
    assert native.call(buffers, (ctypes.c_int64 * 1)(len(out)), None) == 0
    return out


def points(name: str, bits: int, count: int) -> NDArray[Any]:
    """Random bit patterns, intervals, magnitudes, neighbours of 1 and, for sin and its kin, far arguments."""
    rng = np.random.default_rng(count)
    float_, int_ = (np.float64, np.uint64) if bits == 64 else (np.float32, np.uint32)
    parts = [rng.integers(0, 1 << bits, count, dtype=np.uint64).astype(int_).view(float_)]
    parts += [rng.uniform(-s, s, count).astype(float_) for s in (0.5, 1, 3, 30, 800)]
    parts.append((np.exp(rng.uniform(-45, 8, count)) * rng.choice([-1, 1], count)).astype(float_))
    parts.append((1 + rng.normal(0, 1, count) * np.exp(rng.uniform(-30, 0, count))).astype(float_))
    parts.append((np.round(rng.uniform(-6e5, 6e5, count)) * (np.pi / 2)).astype(float_))
    parts.append(rng.integers(1, 1 << (53 if bits == 64 else 24), count, dtype=np.uint64).astype(int_).view(float_))
    parts.append(np.array([6381956970095103.0 * 2.0**797 if bits == 64 else 16367173.0 * 2.0**72]).astype(float_))
    return np.concatenate(parts)


def error(name: str, bits: int, given: tuple[float, ...], got: float) -> float:
    """In units of the last place of the true value; 0 where that is not a finite real number."""
    mantissa, least, most = (52, -1022, 1024) if bits == 64 else (23, -126, 128)
    if not all(map(math.isfinite, given)) or (name.startswith("erf") and abs(given[0]) > 30):
        return 0.0
    try:
        true = (EXACT.get(name) or getattr(mpmath, name))(*map(mpmath.mpf, given))
    except ZeroDivisionError:
        return 0.0
    if isinstance(true, mpmath.mpc) or not mpmath.isfinite(true) or true == 0:
        return 0.0
    limit = (2 - mpmath.mpf(2) ** -(mantissa + 1)) * mpmath.mpf(2) ** (most - 1)
    if not math.isfinite(got):
        return 0.0 if math.isinf(got) and abs(true) >= limit * (1 - mpmath.mpf(2) ** -mantissa) else INF
    return float(abs(mpmath.mpf(got) - true) / mpmath.mpf(2) ** (max(mpmath.frexp(true)[1] - 1, least) - mantissa))


def worst(name: str, bits: int, count: int) -> float:
    first = points(name, bits, count)
    arrays = [first, np.random.default_rng(5).permutation(first)][: ARITY[name]]
    results = apply(load_text(loop(name, bits), "apply"), *arrays)
    with mpmath.workdps(60):
        return max(
            error(name, bits, tuple(map(float, given)), float(got))
            for *given, got in zip(*arrays, results, strict=True)
        )


@each
@both
def test_within_its_bound(name: str, bits: int) -> None:
    assert worst(name, bits, 40) <= (1.0 if name in SHARP else 2.0)


@pytest.mark.slow
@each
@both
def test_within_its_bound_densely(name: str, bits: int) -> None:
    assert worst(name, bits, 3000) <= (1.0 if name in SHARP else 2.0)


@both
@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_values(name: str, bits: int) -> None:
    float_ = np.float64 if bits == 64 else np.float32
    cases = [*SPECIAL[name], (NAN, NAN)]
    with np.errstate(over="ignore"):
        given, want = (np.array(c).astype(float_) for c in zip(*cases, strict=True))
    got = apply(load_text(loop(name, bits), "apply"), given)
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@both
@pytest.mark.parametrize(("name", "reference"), [("pow", np.power), ("atan2", np.arctan2)])
def test_special_pairs(name: str, reference: Any, bits: int) -> None:
    """NumPy calls the C library, which follows C99's annex F."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 2.5, -2.5, INF, -INF, NAN, 2.0**53, 2.0**24 - 1]
    pairs = [m.ravel() for m in np.meshgrid(*[np.array(values, np.float64 if bits == 64 else np.float32)] * 2)]
    with np.errstate(all="ignore"):
        want = reference(*pairs)
    got = apply(load_text(loop(name, bits), "apply"), *pairs)
    np.testing.assert_array_max_ulp(got, want, maxulp=3)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


@each
@both
def test_a_lane_gives_what_the_remainder_gives(name: str, bits: int) -> None:
    native = load_text(loop(name, bits), "apply")
    arrays = [points(name, bits, 20)] * ARITY[name]
    together = apply(native, *arrays)
    alone = [apply(native, *(a[k : k + 1] for a in arrays))[0] for k in range(len(together))]
    np.testing.assert_array_equal(together, alone)


@each
@both
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_loop_vectorises(name: str, bits: int, target: str) -> None:
    """No call is left, but for the cold walk over lanes that are far out."""
    triple, cpu, register = TARGETS[target]
    llvm = binding()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=2, reloc="static", codemodel="small")
    module = llvm.parse_assembly(loop(name, bits), llvm.create_context())
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    run_passes(module, machine, slp=True)
    assembly = machine.emit_assembly(module)
    assert re.search(register, assembly)
    calls = re.findall(r"^\s+(?:callq?|bl)\s+\*?(\S+)", assembly, re.MULTILINE)
    assert all(c.startswith("sgm_rare_") for c in calls)
    walks = [c for c in calls if ".walk" in c]
    assert bool(walks) == (name in functions.TURNED)
