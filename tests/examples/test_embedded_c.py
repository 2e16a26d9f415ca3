"""The C program of the examples, built both ways; it checks its own answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "examples" / "embedded_c"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the example, with ``symgrad`` on the path as an installation puts it there."""
    shutil.copytree(SOURCE, tmp_path / "fit")
    command = tmp_path / "bin" / "symgrad"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m symgrad "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "fit"


@pytest.mark.skipif(not shutil.which("make") or not shutil.which("cc"), reason="needs make and a C compiler")
def test_make(folder):
    subprocess.run(["make"], cwd=folder, check=True, capture_output=True)
    fitted = subprocess.run(["./fit"], cwd=folder, check=True, capture_output=True, text=True, env={})
    assert fitted.stdout.startswith("misfit ")


@pytest.mark.skipif(not shutil.which("cmake") or not shutil.which("cc"), reason="needs CMake and a C compiler")
def test_cmake(folder):
    subprocess.run(["cmake", "-B", "out"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["cmake", "--build", "out"], cwd=folder, check=True, capture_output=True)
    subprocess.run(["out/fit"], cwd=folder, check=True, capture_output=True, env={})
