"""``cache_info``, and compiled code kept on disk between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg

ROOT = Path(sg.__file__).parents[1]
PROGRAM = """
import numpy as np, symgrad as sg
f = sg.grad(lambda x: np.sum(np.tanh(x) * x ** 2))
x = np.array([0.5, -1.0, 2.0])
wanted = x**2 / np.cosh(x) ** 2 + 2 * x * np.tanh(x)
assert np.allclose(f(x), wanted, rtol=1e-12), f(x)
assert f.cache_info().misses == 1
print(f.cache_info().compiled)
"""


def run(directory):
    """How many programs another process had to compile."""
    env = {**os.environ, "SYMGRAD_CACHE_DIR": str(directory), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.fixture
def directory(tmp_path):
    made = tmp_path / "cache"
    made.mkdir(mode=0o700)
    return made


def test_hits_misses_and_size():
    f = sg.jit(lambda x: x * 2)
    assert f.cache_info() == (0, 0, 0, 0)
    f(1.0)
    assert f.cache_info()[:3] == (0, 1, 1)
    f(2.0)
    f(3.0)
    assert f.cache_info()[:3] == (2, 1, 1)
    f(np.ones(3))
    assert f.cache_info()[:3] == (2, 2, 2)
    assert f.cache_info().currsize == 2


def test_an_error_counts_as_nothing():
    f = sg.jit(lambda x: x @ np.ones(3))
    with pytest.raises(sg.ShapeError):
        f(np.ones(2))
    assert f.cache_info() == (0, 0, 0, 0)


def test_a_cache_of_many_programs_is_bounded():
    mode = "0"
    f = sg.jit(lambda x: x + len(mode))
    for k in range(80):
        mode = "m" * k
        assert f(1.0) == 1.0 + k
    assert f.cache_info().currsize <= 64
    assert f.cache_info().misses == 80


def test_another_process_finds_the_code(directory):
    assert run(directory) == 1
    assert any(directory.iterdir())
    assert run(directory) == 0


def test_damaged_files_are_recompiled(directory):
    run(directory)
    (file,) = directory.iterdir()
    data = file.read_bytes()
    for damage in (data[: len(data) // 2], b"", data[:-1] + bytes([data[-1] ^ 1]), b"x" + data[1:]):
        file.write_bytes(damage)
        assert run(directory) == 1
        assert file.read_bytes() == data


def test_off_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("off") == 1
    assert run("off") == 1
    assert not list(tmp_path.iterdir())


def test_a_directory_that_others_can_write_is_not_used(directory):
    directory.chmod(0o777)
    assert run(directory) == 1
    assert not list(directory.iterdir())


def test_a_directory_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert run(tmp_path / "file" / "below") == 1


def test_the_same_program_in_one_process_is_compiled_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "c"))
    fs = [sg.jit(lambda x: np.sin(x) * 3.25) for _ in range(2)]
    assert [f(1.0) for f in fs] == [np.sin(1.0) * 3.25] * 2
    assert [f.cache_info().compiled for f in fs] == [1, 0]
