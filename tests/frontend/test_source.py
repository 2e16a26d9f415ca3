"""Finding a function's tree: by text that compiles to the very code, exact among lambdas, never stale."""

from __future__ import annotations

import ast
import functools
import importlib.util
import linecache
import os
import subprocess
import sys

import pytest

from symgrad.frontend.source import clone, file_of, find, locate

# fmt: off
several = [lambda x: x + 1, lambda x: x + 2, lambda y: y + 1, lambda x=1, *, k=lambda: 5: x * k()]  # type: ignore[misc]  # odd on purpose
twins = (lambda: 0), (lambda: 0)
nested = lambda a: (lambda b: (lambda c: a + b + c))  # noqa: E731  the lambda is the point
defaults = (lambda f=lambda: 1: f)  # noqa: E731
spanning = dict(
    a=lambda x: (x +
                 1), b=lambda x: (x -
                                  1),
)
# fmt: on


def passes(fun):
    @functools.wraps(fun)
    def wrapper(*args):
        return fun(*args)

    return wrapper


def same(fun):
    return fun


class Klass:
    attribute = lambda self: self.__hidden  # noqa: E731  a lambda in a class body

    def method(self, x):
        return x

    class Inner:
        @staticmethod
        def static(x):
            return x

        def __private(self, __x):
            return lambda: __x


def shown(fun):
    node = find(fun)
    return None if node is None else ast.unparse(node)


def test_lambdas_on_one_line():
    assert [shown(fun) for fun in several] == [
        "lambda x: x + 1",
        "lambda x: x + 2",
        "lambda y: y + 1",
        "lambda x=1, *, k=lambda: 5: x * k()",
    ]


def test_equal_lambdas_on_one_line_have_their_own_places():
    first, second = map(find, twins)
    assert ast.unparse(first) == ast.unparse(second) == "lambda: 0"
    assert first.col_offset < second.col_offset


def test_lambda_in_lambda():
    assert shown(nested) == "lambda a: lambda b: lambda c: a + b + c"
    assert shown(nested(1)) == "lambda b: lambda c: a + b + c"
    assert shown(nested(1)(2)) == "lambda c: a + b + c"


def test_lambda_as_default():
    assert shown(defaults) == "lambda f=lambda: 1: f"
    assert shown(defaults()) == "lambda: 1"


def test_lambdas_over_several_lines():
    assert shown(spanning["a"]) == "lambda x: x + 1"
    assert shown(spanning["b"]) == "lambda x: x - 1"


def test_line_numbers_are_those_of_the_file():
    node = find(shown)
    assert linecache.getline(file_of(shown), node.lineno).startswith("def shown(fun)")
    assert node.lineno == shown.__code__.co_firstlineno


def test_methods_and_class_bodies():
    assert shown(Klass.method).startswith("def method(self, x)")
    assert shown(Klass.Inner.static).startswith("@staticmethod\ndef static(x)")
    assert shown(Klass.attribute) == "lambda self: self.__hidden"
    private = Klass.Inner._Inner__private
    assert locate(private).class_name == "Inner"
    assert shown(private(None, 1)) == "lambda: __x"


def test_decorated():
    @same
    @passes
    def decorated(x):
        return x

    assert shown(decorated).startswith("@functools.wraps(fun)\ndef wrapper(*args)")
    assert shown(decorated.__wrapped__).startswith("@same\n@passes\ndef decorated(x)")


def test_same_name_twice():
    def f():
        return 1

    first = f

    def f():
        return 2

    assert shown(first).endswith("return 1") and shown(f).endswith("return 2")


def test_function_with_assertions_is_found_though_a_test_runner_rewrote_it():
    def f(x):
        assert x > 0, "positive"
        return x

    assert shown(f) == "def f(x):\n    assert x > 0, 'positive'\n    return x"


def test_no_source():
    space = {}
    exec("def f(x): return x\ng = lambda x: x", space)
    assert find(space["f"]) is None and find(space["g"]) is None
    assert find(len) is None and file_of(len) is None


def test_code_that_borrows_a_file_name_has_no_source():
    space = {}
    line = shown.__code__.co_firstlineno
    exec(compile("\n" * (line - 1) + "def shown(fun):\n    return fun", __file__, "exec"), space)
    assert space["shown"].__code__.co_firstlineno == line
    assert find(space["shown"]) is None


def module_from(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "changed", ["def f(x):\n    return x * 3\n", "# moved\ndef f(x):\n    return x * 2\n", "def f(", ""]
)
def test_stale_source(tmp_path, changed):
    path = tmp_path / "stale.py"
    module = module_from(path, "def f(x):\n    return x * 2\n")
    path.write_text(changed)
    os.utime(path, (1, 1))
    assert find(module.f) is None


def test_reloaded_from_a_changed_file(tmp_path):
    path = tmp_path / "changing.py"
    assert shown(module_from(path, "def f(x):\n    return x * 2\n").f).endswith("x * 2")
    path.unlink()
    again = module_from(path, "# more\ndef f(x):\n    return x * 33\n")
    assert shown(again.f).endswith("x * 33") and find(again.f).lineno == 2


def test_text_held_by_linecache_alone():
    text = "def f(x):\n    return x\n"
    linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
    space = {}
    exec(compile(text, "<cell 1>", "exec"), space)
    assert shown(space["f"]) == text.rstrip() and file_of(space["f"]) == "<cell 1>"


def test_relative_name_after_leaving_the_directory(tmp_path, monkeypatch):
    (tmp_path / "script.py").write_text("f = lambda x: x\n")
    code = compile("f = lambda x: x\n", "script.py", "exec")
    space = {"__file__": str(tmp_path / "script.py")}
    exec(code, space)
    monkeypatch.chdir("/")
    assert shown(space["f"]) == "lambda x: x"


def test_without_columns_only_a_lone_lambda_is_found(tmp_path):
    (tmp_path / "plain.py").write_text("alone = lambda x: x\ntwo = (lambda x: x), (lambda x: -x)\n")
    program = "import plain; from symgrad.frontend.source import find as f; print(f(plain.alone), f(plain.two[0]))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-X", "no_debug_ranges", "-c", program]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("<ast.Lambda") and shown.endswith(" None\n")


def test_clone_is_deep_and_equal():
    deep = ast.parse("+".join(["a"] * 1500))
    copied = clone(deep)
    one, two, levels = deep.body[0].value, copied.body[0].value, 0
    while isinstance(one, ast.BinOp):
        assert one is not two and one.right.id == two.right.id and one.right.col_offset == two.right.col_offset
        one, two, levels = one.left, two.left, levels + 1
    assert levels == 1499


def test_found_once():
    assert find(shown) is find(shown)
