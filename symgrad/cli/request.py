"""What a command is asked for: a function in a file, the types of its arguments, the names of those that count."""

from __future__ import annotations

import inspect
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from symgrad import api
from symgrad.errors import ExportError
from symgrad.frontend.compiled import Compiled
from symgrad.frontend.leaves import Spec, parse_spec

DEFAULT_LENGTHS = (5, 7, 4, 6, 3, 8)  # of named sizes that nobody gives a value, in order


@dataclass(frozen=True)
class Request:
    """A function with the types of its arguments; ``grad`` names those to differentiate in."""

    function: Any
    names: tuple[str, ...]
    specs: tuple[Spec, ...]
    grad: tuple[str, ...] | None

    @property
    def argnums(self) -> tuple[int, ...]:
        """Positions of the arguments to differentiate in; of all floats when none are named."""
        if self.grad is not None:
            return tuple(self.names.index(n) for n in self.grad)
        return tuple(k for k, s in enumerate(self.specs) if s.dtype.is_float)

    def compiled(self) -> Compiled:
        """The function, or its value and gradient when arguments are named, compiled."""
        if isinstance(self.function, Compiled):
            return self.function
        if self.grad is None:
            return api.jit(self.function)  # type: ignore[no-any-return]  # of a function it is that
        return self.gradient()

    def gradient(self) -> Compiled:
        """Its value and gradient."""
        argnums = self.argnums
        return api.value_and_grad(  # type: ignore[no-any-return]  # of a function it is that
            self.plain, argnums=argnums[0] if len(argnums) == 1 else argnums
        )

    @property
    def plain(self) -> Any:
        """The user's own function."""
        return self.function.__wrapped__ if isinstance(self.function, Compiled) else self.function

    def random_arguments(self) -> list[Any]:
        """Arguments of these types; floats are between 0.1 and 0.9."""
        known = {n: v for s in self.specs for n, v in s.values}
        named = dict.fromkeys(d for s in self.specs for d in s.dims if isinstance(d, str))
        free = (n for n in named if n not in known)
        known |= dict(zip(free, DEFAULT_LENGTHS * (1 + len(named)), strict=False))
        rng = np.random.default_rng(0)
        out: list[Any] = []
        for s in self.specs:
            shape = tuple(known[d] if isinstance(d, str) else d for d in s.dims)
            drawn = rng.uniform(0.1, 0.9, shape) if s.dtype.is_float else rng.integers(0, 2, shape)
            out.append(np.asarray(drawn, s.dtype.numpy) if shape or not s.dtype.is_float else float(drawn))
        return out


def request(where: str, args: str, grad: str | None) -> Request:
    """``file.py:function`` with its types; ExportError or DTypeError tells what is wrong."""
    file, colon, name = where.rpartition(":")
    if not colon or not name:
        raise ExportError(f"{where!r} is not FILE:FUNCTION, such as model.py:loss")
    function = _loaded(Path(file)).get(name)
    if not callable(function):
        raise ExportError(f"{file} has no function {name!r}")
    plain = function.__wrapped__ if isinstance(function, Compiled) else function
    names = tuple(inspect.signature(plain).parameters)
    specs = tuple(parse_spec(s) for s in split_specs(args))
    if len(specs) != len(names):
        raise ExportError(f"{name} takes {len(names)} arguments ({', '.join(names)}), --args has {len(specs)}")
    wanted = None if grad is None else tuple(n.strip() for n in grad.split(",") if n.strip())
    missing = [n for n in wanted or () if n not in names]
    if missing:
        raise ExportError(f"{name} has no argument {', '.join(missing)}; it has {', '.join(names)}")
    if wanted is not None and isinstance(function, Compiled):
        raise ExportError(f"{name} is a transform already, it is taken as it is: leave out --grad")
    return Request(function, names, specs, wanted)


def _loaded(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ExportError(f"there is no file {file}")
    sys.path.insert(0, str(file.resolve().parent))
    try:
        return runpy.run_path(str(file), run_name=file.stem)
    except Exception as e:
        raise ExportError(f"{file} does not run: {type(e).__name__}: {e}") from e
    finally:
        sys.path.pop(0)


def split_specs(text: str) -> list[str]:
    """Types separated by commas, of which those inside brackets separate lengths."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]
