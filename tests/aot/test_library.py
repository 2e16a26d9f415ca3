"""Exported libraries, called as C calls them: values, statuses, and what they leave alone."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import ExportError, ShapeError, UnsupportedError

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
C_TYPES = {"f8": ctypes.c_double, "f4": ctypes.c_float, "i8": ctypes.c_int64}


class Loaded:
    """A function of a shared library, on NumPy arrays; everything around outputs and workspace is watched."""

    def __init__(self, folder, name, suffix="_vag"):
        self.code = ctypes.CDLL(str(folder / f"lib{name}.so"))
        self.function, self.room = self.code[f"{name}{suffix}"], self.code[f"{name}{suffix}_workspace"]
        self.room.restype = ctypes.c_size_t
        self.strerror = self.code[f"{name}_strerror"]
        self.strerror.restype = ctypes.c_char_p

    def __call__(self, sizes, inputs, outputs, *, given=None, unwanted=(), trips=None):
        lengths = [ctypes.c_int64(n) for n in sizes]
        size = self.room(*lengths) if all(n >= 0 for n in sizes) else 1 << 12
        size = size if given is None else given
        watched = [np.full(16 + o.size, 7, o.dtype) for o in outputs]
        workspace = np.full(size + 64, 0xA5, np.uint8)
        places = [None if k in unwanted else w[8:].ctypes.data for k, w in enumerate(watched)]
        kept = [None if a is None else np.ascontiguousarray(a) for a in inputs]
        pointers = [ctypes.c_void_p(None if a is None else a.ctypes.data) for a in kept]
        status = self.function(
            *lengths, *pointers, *map(ctypes.c_void_p, places), ctypes.c_void_p(workspace.ctypes.data),
            ctypes.c_size_t(size),
        )  # fmt: skip
        assert (workspace[size:] == 0xA5).all(), "written beyond the workspace"
        for o, w in zip(outputs, watched, strict=True):
            assert (w[:8] == 7).all() and (w[8 + o.size :] == 7).all(), "written beyond an output"
            o[...] = w[8 : 8 + o.size].reshape(o.shape)
        return status


def loss(w, x, y):
    h = np.tanh(x @ w)
    return np.mean((h - y) ** 2)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    sg.value_and_grad(loss, argnums=(0, 1)).export(folder, "f64[d]", "f64[n,d]", "f64[n]")
    return folder


@pytest.mark.parametrize(("d", "n"), [(1, 1), (3, 5), (7, 1), (1, 13), (64, 101), (0, 3)])
def test_value_and_gradients_of_any_sizes(built, d, n):
    rng = np.random.default_rng(d)
    w, x, y = rng.normal(size=d), rng.normal(size=(n, d)), rng.normal(size=n)
    value, of_w, of_x = np.zeros(()), np.zeros(d), np.zeros((n, d))
    assert Loaded(built, "loss")((d, n), (w, x, y), (value, of_w, of_x)) == 0
    h = np.tanh(x @ w)
    slope = 2 * (h - y) * (1 - h * h) / n
    np.testing.assert_allclose(value, np.mean((h - y) ** 2), rtol=1e-13)
    np.testing.assert_allclose(of_w, x.T @ slope, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(of_x, np.outer(slope, w), rtol=1e-11, atol=1e-13)


def test_outputs_that_are_not_wanted_stay_as_they_are(built):
    w, x, y = np.array([0.3, -0.2]), np.arange(6.0).reshape(3, 2), np.ones(3)
    value, of_w, of_x = np.zeros(()), np.zeros(2), np.zeros((3, 2))
    assert Loaded(built, "loss")((2, 3), (w, x, y), (value, of_w, of_x), unwanted=(0, 2)) == 0
    assert value == 7 and (of_x == 7).all()
    h = np.tanh(x @ w)
    np.testing.assert_allclose(of_w, x.T @ (2 * (h - y) * (1 - h * h) / 3), rtol=1e-12)


def test_statuses(built):
    f = Loaded(built, "loss")
    w, x, y = np.ones(2), np.ones((3, 2)), np.ones(3)
    outputs = (np.zeros(()), np.zeros(2), np.zeros((3, 2)))
    cases = [
        (f((-1, 3), (w, x, y), outputs), b"a size is negative"),
        (f((2, -5), (w, x, y), outputs), b"a size is negative"),
        (f((2, 3), (w, x, y), outputs, given=8), b"the workspace is too small"),
        (f((2, 3), (w, None, y), outputs), b"a pointer that is needed is null"),
        (0, b"success"),
        (99, b"an unknown status"),
    ]
    for status, message in cases:
        assert f.strerror(status) == message
    assert all((o == 7).all() for o in outputs)


def test_the_same_source_gives_the_same_bytes(built, tmp_path):
    sg.value_and_grad(loss, argnums=(0, 1)).export(tmp_path, "f64[d]", "f64[n,d]", "f64[n]")
    for file in ("loss.o", "libloss.a", "loss.h"):
        assert (tmp_path / file).read_bytes() == (built / file).read_bytes()


def test_calls_from_several_threads(built):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(200, 8)), rng.normal(size=200)

    def one(k):
        w, value = np.full(8, 0.01 * k), np.zeros(())
        f = Loaded(built, "loss")
        assert f((8, 200), (w, x, y), (value, np.zeros(8), np.zeros((200, 8)))) == 0
        return abs(value - loss(w, x, y)) < 1e-13

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(64)))


@pytest.mark.skipif(not shutil.which("nm"), reason="needs binutils")
def test_nothing_is_asked_of_the_system(built, tmp_path):
    def undefined(file):
        listed = subprocess.run(["nm", "-u", str(file)], capture_output=True, text=True, check=True).stdout
        return set(re.findall(r" U (\S+)", listed))

    assert undefined(built / "loss.o") <= {"memset", "memcpy"}
    many = sg.grad(lambda x: np.sum(np.sin(x) + np.exp(x) ** 1.5 + np.arctan(x) + np.log1p(x * x)))
    many.export(tmp_path, "f64[n]", name="many")
    assert undefined(tmp_path / "many.o") <= {"memset", "memcpy"}


@pytest.mark.skipif(not shutil.which("ar"), reason="needs binutils")
def test_the_archive_is_one_that_ar_reads(built):
    listed = subprocess.run(["ar", "t", str(built / "libloss.a")], capture_output=True, text=True, check=True).stdout
    assert listed.split() == ["loss.o"]
    index = subprocess.run(["nm", "-s", str(built / "libloss.a")], capture_output=True, text=True, check=True).stdout
    assert "loss_vag in loss.o" in index and "loss_strerror in loss.o" in index


@pytest.mark.parametrize("language", [["gcc", "-std=c99", "-x", "c"], ["g++", "-std=c++17", "-x", "c++"]])
def test_the_header_without_a_warning(built, tmp_path, language):
    if not shutil.which(language[0]):
        pytest.skip(f"needs {language[0]}")
    main = tmp_path / "main.c"
    main.write_text('#include "loss.h"\n#include "loss.h"\nint main(void) { return loss_abi_version() != 1; }\n')
    flags = ["-pedantic", "-Wall", "-Wextra", "-Werror", f"-I{built}"]
    run = [*language, str(main), "-x", "none", str(built / "loss.o"), "-o", str(tmp_path / "main")]
    subprocess.run([run[0], *flags, *run[1:]], check=True)
    assert subprocess.run([str(tmp_path / "main")]).returncode == 0


def test_sizes_that_the_function_does_not_take(tmp_path):
    sg.value_and_grad(lambda x: np.sum((x[2:] - x[:-2]) ** 2)).export(tmp_path, "f64[n]", name="far_apart")
    f = Loaded(tmp_path, "far_apart")
    x, value, slope = np.array([1.0, 4.0, 9.0]), np.zeros(()), np.zeros(3)
    assert f((3,), (x,), (value, slope)) == 0 and value == 64.0 and slope.tolist() == [-16.0, 0.0, 16.0]
    status = f((1,), (x[:1],), (value, slope[:1]))
    assert f.strerror(status) == b"a size is one that the function does not take"


# --- what functions may be ---


def test_single_precision_integers_and_what_is_read_from_outside(tmp_path):
    table = np.array([1.0, 2.0, 4.0], np.float32)

    def picked(x, k):
        return np.sum(x * table[k])

    sg.value_and_grad(picked).export(tmp_path, "f32[n]", "i64[n]")
    x, k = np.array([1.5, -2.0], np.float32), np.array([2, 0])
    value, slope = np.zeros((), np.float32), np.zeros(2, np.float32)
    assert Loaded(tmp_path, "picked")((2,), (x, k), (value, slope)) == 0
    assert value == 4.0 and slope.tolist() == [4.0, 1.0]
    assert "const float *x, const int64_t *k, float *value, float *grad_x" in (tmp_path / "picked.h").read_text()


def test_an_index_out_of_range_is_a_status(tmp_path):
    sg.jit(lambda x, k: x[k]).export(tmp_path, "f64[n]", "i64", name="at")
    f, out = Loaded(tmp_path, "at", ""), np.zeros(())
    assert f((3,), (np.arange(3.0), np.array(1)), (out,)) == 0 and out == 1.0
    status = f((3,), (np.arange(3.0), np.array(5)), (out,))
    assert out == 7
    assert status > 3 and f.strerror(status).startswith(b"IndexError: ")


def test_products_of_matrices_without_blas(tmp_path):
    def network(w1, w2, x):
        return np.sum(np.tanh(np.tanh(x @ w1) @ w2) ** 2)

    gradient = sg.value_and_grad(network, argnums=(0, 1))
    gradient.export(tmp_path, "f64[a,b]", "f64[b,c]", "f64[n,a]", emit=("object", "shared"))
    rng = np.random.default_rng(0)
    for a, b, c, n in ((1, 1, 1, 1), (17, 33, 5, 41), (64, 32, 10, 100)):
        args = rng.normal(size=(a, b)) / a, rng.normal(size=(b, c)) / b, rng.normal(size=(n, a))
        value, first, second = np.zeros(()), np.zeros((a, b)), np.zeros((b, c))
        assert Loaded(tmp_path, "network")((a, b, c, n), args, (value, first, second)) == 0
        wanted, slopes = gradient(*args)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(first, slopes[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(second, slopes[1], rtol=1e-9, atol=1e-12)


def test_hessians_and_jacobians(tmp_path):
    def energy(x, a):
        return np.sum(np.exp(a * x)) + np.prod(x)

    sg.hessian(energy).export(tmp_path, "f64[n]", "f64")
    sg.jacobian(lambda x: np.cumsum(x * x)).export(tmp_path, "f64[n]", name="sums")
    x, a = np.array([0.3, -0.7, 1.1]), np.array(0.4)
    hess, jac = np.zeros((3, 3)), np.zeros((3, 3))
    assert Loaded(tmp_path, "energy", "_hess")((3,), (x, a), (hess,)) == 0
    wanted = np.array(
        [[a**2 * np.exp(a * x[i]) if i == j else np.prod(x) / (x[i] * x[j]) for i in range(3)] for j in range(3)]
    )
    np.testing.assert_allclose(hess, wanted, rtol=1e-12)
    assert Loaded(tmp_path, "sums", "_jac")((3,), (x,), (jac,)) == 0
    np.testing.assert_allclose(jac, np.tril(np.tile(2 * x, (3, 1))), rtol=1e-14)
    assert "double *hess, void" in (tmp_path / "energy.h").read_text()


def test_arguments_of_sin_beyond_reduction(tmp_path):
    sg.value_and_grad(lambda x: np.sum(np.sin(x))).export(tmp_path, "f64[n]", name="far")
    x = np.array([1e22, -3e300, 0.5, 1e5, 7e15, 2.0, 1e308, -1e19, 3.0])
    value, slope = np.zeros(()), np.zeros(9)
    assert Loaded(tmp_path, "far")((9,), (x,), (value, slope)) == 0
    np.testing.assert_allclose(value, np.sum(np.sin(x)), rtol=1e-14)
    np.testing.assert_allclose(slope, np.cos(x), rtol=1e-15)


def root(a):
    x = 1.0
    while True:
        step = (x * x * x - a) / (3.0 * x * x)
        x = x - step
        if abs(step) < 1e-13:
            break
    return x


def test_a_loop_that_ends_by_itself_has_room_for_so_many_trips(tmp_path):
    sg.value_and_grad(root).export(tmp_path, "f64", trips=20)
    f = Loaded(tmp_path, "root")
    trips = f.code["root_vag_workspace_trips"]
    trips.restype = ctypes.c_size_t
    assert trips(ctypes.c_int64(20)) == f.room() < trips(ctypes.c_int64(1000))
    for a in (7.3, 0.02):
        value, slope = np.zeros(()), np.zeros(())
        assert f((), (np.array(a),), (value, slope)) == 0
        np.testing.assert_allclose([value, slope], [a ** (1 / 3), a ** (-2 / 3) / 3], rtol=1e-11)
    far = np.array(1e-12)  # 27 trips
    status = f((), (far,), (value, slope))
    assert value == slope == 7
    assert f.strerror(status) == b"the workspace is too small for so many trips of a loop"
    assert f((), (far,), (value, slope), given=trips(ctypes.c_int64(500))) == 0
    np.testing.assert_allclose(value, 1e-4, rtol=1e-11)


# --- other machines ---

MAGIC = {
    "x86_64-linux-gnu": b"\x7fELF\x02",
    "aarch64-linux-gnu": b"\x7fELF\x02",
    "riscv64-linux-gnu": b"\x7fELF\x02",
    "arm64-apple-macosx11": b"\xcf\xfa\xed\xfe",
    "x86_64-apple-macosx11": b"\xcf\xfa\xed\xfe",
    "x86_64-pc-windows-msvc": b"\x64\x86",
}


@pytest.mark.parametrize("target", MAGIC)
def test_objects_for_other_machines(tmp_path, target):
    made = sg.value_and_grad(loss).export(tmp_path, "f64[d]", "f64[n,d]", "f64[n]", target=target)
    assert (tmp_path / "loss.o").read_bytes().startswith(MAGIC[target])
    if "linux" not in target:
        assert "no shared library" in made.skipped["shared"] and not (tmp_path / "libloss.so").exists()


# --- what cannot be ---


@pytest.mark.parametrize(
    ("export", "error", "message"),
    [
        (lambda p: sg.jit(loss).export(p, "f64[d]"), ExportError, r"takes 3 arguments \(w, x, y\), 1 were given"),
        (lambda p: sg.jit(loss).export(p, "f64[d]", "f64[n,e]", "f64[n]"), ShapeError, "x @ w"),
        (lambda p: sg.jit(loss).export(p, "f64[d]", "f64[n,d]", "f64[n]", emit=("dll",)), ExportError, "emit dll"),
        (lambda p: sg.jit(loss).export(p, "f64[d]", "f64[n,d]", "f64[n]", target="pdp11"), ExportError, "pdp11"),
        (lambda p: sg.jit(loss).export(p, "f64", "f64", "f64", name="two words"), ExportError, "not a name in C"),
        (lambda p: sg.jit(lambda n: n[0]).export(p, "f64[n]"), ExportError, "n is an argument and a length"),
        (lambda p: sg.jit(lambda double: double).export(p, "f64"), ExportError, "double is a word of C"),
        (lambda p: sg.jit(lambda value: value).export(p, "f64"), ExportError, "value is an argument and an output"),
        (lambda p: sg.vmap(loss).export(p, "f64[d]", "f64[n,d]", "f64[n]"), UnsupportedError, "are exported"),
    ],
)
def test_what_cannot_be_is_named_and_leaves_nothing(tmp_path, export, error, message):
    with pytest.raises(error, match=message):
        export(tmp_path / "none")
    assert not (tmp_path / "none").exists()


# --- what lies beside ---


def test_the_python_wrapper_needs_numpy_alone(built):
    program = f"""
import sys
sys.path.insert(0, {str(built)!r})
import numpy as np
import loss
w, x, y = np.array([0.3, -0.2]), np.arange(6.0).reshape(3, 2), np.ones(3)
value, of_w, of_x = loss.loss_vag(w, x, y)
h = np.tanh(x @ w)
slope = 2 * (h - y) * (1 - h * h) / 3
np.testing.assert_allclose(value, np.mean((h - y) ** 2), rtol=1e-13)
np.testing.assert_allclose(of_w, x.T @ slope, rtol=1e-12)
np.testing.assert_allclose(of_x, np.outer(slope, w), rtol=1e-12)
for wrong in ((w, x, y[:2]), (w, x[0], y), (w, x.T, y)):
    try:
        loss.loss_vag(*wrong)
    except ValueError:
        continue
    raise AssertionError(wrong)
assert not [m for m in sys.modules if m.startswith(("symgrad", "llvmlite", "sympy", "scipy"))]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_wrapper_of_results_with_other_lengths(tmp_path):
    sg.jit(lambda x: (x[1:] - x[:-1], np.sum(x))).export(tmp_path, "f64[n]", name="steps")
    spec = importlib.util.spec_from_file_location("steps", tmp_path / "steps.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    differences, total = module.steps([1.0, 4.0, 9.0])
    assert differences.tolist() == [3.0, 5.0] and total == 14.0
    (strided, _), every_other = module.steps(np.arange(6.0)[::2]), np.full(2, 2.0)
    assert (strided == every_other).all()


def test_a_wrapper_of_numbers(tmp_path):
    sg.value_and_grad(lambda x, y: x * np.exp(y), argnums=(0, 1)).export(tmp_path, "f64", "f64", name="plain")
    spec = importlib.util.spec_from_file_location("plain", tmp_path / "plain.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.testing.assert_allclose(module.plain_vag(2.0, 0.5), np.exp(0.5) * np.array([2.0, 1.0, 2.0]), rtol=1e-15)
    with pytest.raises(ValueError, match="x has 1 dimensions, 0 are wanted"):
        module.plain_vag([2.0], 0.5)


MAIN = """
#include <stdio.h>
#include "loss.h"
int main(void) {
  static double workspace[1 << 16];
  double w[2] = {0.3, -0.2}, x[6] = {0, 1, 2, 3, 4, 5}, y[3] = {1, 1, 1}, value;
  if (loss_vag(2, 3, w, x, y, &value, NULL, NULL, workspace, sizeof workspace)) return 1;
  return !(value > 0.3 && value < 1.5);
}
"""


GUARDED = """
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "loss.h"

/* So many bytes that end where a page begins that nobody may touch. */
static void *guarded(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
  char *at = mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(at + whole, page, PROT_NONE)) exit(2);
  return at + whole - bytes;
}

int main(void) {
  const int64_t lengths[] = {0, 1, 2, 3, 5, 7, 8, 13, 16, 31, 67};
  for (size_t a = 0; a < sizeof lengths / sizeof *lengths; a++)
    for (size_t b = 0; b < sizeof lengths / sizeof *lengths; b++) {
      int64_t d = lengths[a], n = lengths[b];
      size_t bytes = loss_vag_workspace(d, n);
      double *w = guarded(8 * d), *x = guarded(8 * n * d), *y = guarded(8 * n), *value = guarded(8);
      double *of_w = guarded(8 * d), *of_x = guarded(8 * n * d);
      char *workspace = guarded((bytes + 15) / 16 * 16);
      if (loss_vag(d, n, w, x, y, value, of_w, of_x, workspace, bytes)) return 1;
    }
  return 0;
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pages are guarded as Linux does it")
def test_nothing_is_read_or_written_beyond_the_buffers(built, tmp_path):
    (tmp_path / "main.c").write_text(GUARDED)
    build = ["cc", "-std=gnu99", f"-I{built}", "main.c", str(built / "loss.o"), "-lm", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "main")]).returncode == 0


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="needs pkg-config")
def test_a_program_that_asks_pkg_config(built, tmp_path):
    (tmp_path / "main.c").write_text(MAIN)
    env = {**os.environ, "PKG_CONFIG_PATH": str(built)}
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "loss"], env=env, capture_output=True, text=True, check=True
    )
    given = flags.stdout.split()
    subprocess.run(["cc", "main.c", *given, f"-Wl,-rpath,{built}", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "main")]).returncode == 0


@pytest.mark.skipif(not shutil.which("cmake"), reason="needs CMake")
def test_a_program_that_asks_cmake(built, tmp_path):
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(main C)\nfind_package(loss CONFIG REQUIRED)\n"
        "add_executable(main main.c)\ntarget_link_libraries(main loss::loss)\n"
    )
    subprocess.run(["cmake", "-B", "out", f"-Dloss_DIR={built}"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", "out"], cwd=tmp_path, check=True, capture_output=True)
    assert subprocess.run([str(tmp_path / "out" / "main")]).returncode == 0
