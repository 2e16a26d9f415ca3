"""The command line: what it prints, its exit status, one line for what cannot be."""

from __future__ import annotations

import re
import shutil

import pytest

from symgrad.cli import EXAMPLES, main

MODEL = """
import numpy as np
import symgrad as sg

def loss(w, X, y):
    h = np.tanh(X @ w)
    return np.mean((h - y) ** 2)

def area(x, y):
    return x * np.exp(y)

@sg.custom_vjp
def wrong(x):
    return x ** 3

wrong.defvjp(lambda x: (x ** 3, x), lambda x, ct: (2.0 * x * ct,))

def uses_wrong(x):
    return wrong(x) + 1.0

@sg.grad
def slope(x):
    return x ** 3
"""
LOSS = ["model.py:loss", "--args", "f64[d], f64[n,d], f64[n]"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_compile_writes_what_it_prints(folder, capsys):
    assert main(["compile", *LOSS, "--grad", "w,y", "-o", "out", "--emit", "header,object,llvm"]) == 0
    assert capsys.readouterr().out.split() == ["out/loss.h", "out/loss.o", "out/loss.ll"]
    header = (folder / "out" / "loss.h").read_text()
    assert "double *value, double *grad_w, double *grad_y, void *workspace" in header
    assert "define" in (folder / "out" / "loss.ll").read_text()


def test_a_transform_is_compiled_as_it_is(folder, capsys):
    assert main(["compile", "model.py:slope", "--args", "f64", "-o", "out", "--emit", "header"]) == 0
    assert "int slope_grad(const double *x, double *grad_x," in (folder / "out" / "slope.h").read_text()
    assert main(["compile", "model.py:slope", "--args", "f64", "--grad", "x", "-o", "other"]) == 2
    assert "leave out --grad" in capsys.readouterr().err and not (folder / "other").exists()


def test_formula(capsys):
    assert main(["formula", "model.py:area", "--args", "f64, f64"]) == 0
    assert capsys.readouterr().out.splitlines() == ["area(x, y) = x*exp(y)", "∂area/∂x = exp(y)", "∂area/∂y = x*exp(y)"]
    assert main(["formula", "model.py:area", "--args", "f64, f64", "--grad", "x", "--latex"]) == 0
    assert "\\partial" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "piece"), [("latex", "\\frac"), ("markdown", "$$"), ("numpy", "def area(x, y):"), ("c", "double area(")]
)
def test_formula_in_other_forms(kind, piece, capsys):
    assert main(["formula", "model.py:area", "--args", "f64, f64", f"--{kind}"]) == 0
    assert piece in capsys.readouterr().out


def test_show(capsys):
    assert main(["show", *LOSS, "--stage", "loops"]) == 0
    assert "for i" in capsys.readouterr().out
    assert main(["show", *LOSS, "--stage", "nothing"]) == 2
    assert "stages are" in capsys.readouterr().err


def test_check_fails_where_a_rule_is_wrong(capsys):
    assert main(["check", "model.py:loss", "--args", "f64[d=3], f64[n=4,d], f64[n]"]) == 0
    assert main(["check", "model.py:uses_wrong", "--args", "f64"]) == 1
    assert "FAIL" in capsys.readouterr().out.upper()


def test_check_of_every_rule(capsys):
    assert main(["check", "--rules"]) == 0
    told = capsys.readouterr().out
    assert re.match(r"all \d\d+ checks passed\n", told)
    assert "ok   sin: proved by sympy" in told and "ok   gather: compared with differences" in told
    assert main(["check"]) == 2
    assert "or --rules" in capsys.readouterr().err


def test_bench(capsys):
    assert main(["bench", "model.py:loss", "--args", "f64[d=3], f64[n=40,d], f64[n]", "--grad", "w"]) == 0
    assert re.search(r"forward +\d.* (ns|µs)\ngradient +\d.* times as long\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["model.py:nothing", "--args", "f64"], "model.py has no function 'nothing'"),
        (["absent.py:loss", "--args", "f64"], "there is no file absent.py"),
        (["model.py", "--args", "f64"], "is not FILE:FUNCTION"),
        (["model.py:loss", "--args", "f64[d], q32[n,d], f64"], "unknown dtype 'q32'"),
        (["model.py:loss", "--args", "f64[d]"], "loss takes 3 arguments (w, X, y), --args has 1"),
        ([*LOSS, "--grad", "v"], "loss has no argument v; it has w, X, y"),
        (["model.py:loss", "--args", "f64[d], f64[n,e], f64[n]"], "X @ w"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "show"])
def test_what_cannot_be_is_one_line(argv, message, command, capsys):
    assert main([command, *argv]) == 2
    told = capsys.readouterr().err
    assert message in told and told.count("\n") == 1 and told.startswith(f"symgrad {command}: ")


@pytest.mark.parametrize("command", EXAMPLES)
def test_help_shows_an_example(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"symgrad {command} model.py:" in capsys.readouterr().out


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
def test_the_usual_files(folder, capsys):
    assert main(["compile", "model.py:area", "--args", "f64, f64", "--grad", "x", "--name", "box"]) == 0
    assert {"box.h", "box.o", "libbox.a", "libbox.so"} <= {p.name for p in folder.iterdir()}
