"""The command line: compile a function into a C library, print its formula or its code, check it, time it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from symgrad.cli import commands
from symgrad.errors import SymgradError

EXAMPLES = {
    "compile": 'symgrad compile model.py:loss --args "f64[d], f64[n,d], f64[n]" --grad w -o build/',
    "formula": 'symgrad formula model.py:loss --args "f64, f64" --latex',
    "show": 'symgrad show model.py:loss --args "f64[n]" --grad x --stage llvm',
    "check": 'symgrad check model.py:loss --args "f64[d=5], f64[n=8,d], f64[n]"',
    "bench": 'symgrad bench model.py:loss --args "f64[n=1000]" --grad x',
}
FORMATS = {
    "latex": "as LaTeX",
    "markdown": "as mathematics in Markdown",
    "numpy": "as the text of a Python function",
    "c": "as the text of a C function",
}
Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0; 1 where a check fails; 2 for a request that cannot be met, told in one line on stderr."""
    options = _parser().parse_args(argv)
    command: Command = options.run
    try:
        return command(options)
    except (SymgradError, TypeError, ValueError, OSError) as error:
        print(f"symgrad {options.command}: {_one_line(error)}", file=sys.stderr)
        return 2


def _one_line(error: BaseException) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="symgrad", description=__doc__)
    several = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Command, text: str, *, optional: bool = False) -> Any:
        one = several.add_parser(name, help=text, description=text, epilog=f"example: {EXAMPLES[name]}")
        one.set_defaults(run=run)
        one.add_argument("function", metavar="FILE:FUNCTION", nargs="?" if optional else None)
        one.add_argument("--args", required=not optional, help='types of the arguments, such as "f64, f64[n,3]"')
        one.add_argument("--grad", metavar="NAMES", help="arguments to differentiate in, separated by commas")
        return one

    compiling = add("compile", commands.compile_, "Write a C library: header, object, static and shared library.")
    compiling.add_argument("-o", "--output", default=".", metavar="FOLDER", help="where to (default: here)")
    compiling.add_argument("--name", help="of the library and the prefix of its functions (default: the function's)")
    compiling.add_argument("--emit", help="instead: header, object, static, shared, llvm, bitcode, asm, by commas")
    compiling.add_argument("--target", help="an LLVM triple, such as aarch64-linux-gnu (default: this machine)")
    compiling.add_argument("--cpu", help="a processor, or native (default: a common one)")
    compiling.add_argument("--trips", type=int, default=1024, help="of loops that end by themselves, in the workspace")
    formula = add("formula", commands.formula, "Print the function and its gradient as formulas.")
    for kind, what in FORMATS.items():
        formula.add_argument(f"--{kind}", dest="format", action="store_const", const=kind, help=what)
    show = add("show", commands.show, "Print the program at one of its stages.")
    show.add_argument("--stage", default="loops", help="graph, loops, llvm or asm (default: loops)")
    check = add(
        "check", commands.check, "Check the gradient, rule by rule and as a whole; exit status 1 where it fails.",
        optional=True,
    )  # fmt: skip
    check.add_argument("--rules", action="store_true", help="instead: the derivative rule of every primitive there is")
    add("bench", commands.bench, "Time the function and its gradient on random arguments.")
    return parser
