"""The error tree: every failure a user can cause, with the user's own line in the message."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceLine:
    """A place in the user's program: what a message points at."""

    file: str
    line: int
    text: str
    function: str = ""

    def __str__(self) -> str:
        where = f" in {self.function}" if self.function else ""
        return f"{self.file}:{self.line}{where}: {self.text}" if self.text else f"{self.file}:{self.line}{where}"


class SymgradError(Exception):
    """Base of all errors raised by symgrad."""

    where: SourceLine | None = None

    def at(self, where: SourceLine | None) -> SymgradError:
        """Attach the user's line, once: the innermost place that knows it wins."""
        if where is None or self.where is not None:
            return self
        self.where = where
        message = self.args[0] if self.args else ""
        self.args = (f"{message}\n  at {where}", *self.args[1:])
        return self


class TraceError(SymgradError):
    """A traced value was used where Python needs a concrete one."""


class ShapeError(SymgradError, ValueError):
    """Shapes or sizes do not fit together."""


class DTypeError(SymgradError, TypeError):
    """A dtype is not one the operation accepts."""


class UnsupportedError(SymgradError, NotImplementedError):
    """A function or feature that symgrad does not compile."""


class ExportError(SymgradError):
    """An ahead-of-time library could not be written."""
