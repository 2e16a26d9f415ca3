"""Variables without a value: what they hold while the compiled program decides whether they have one."""

from __future__ import annotations

from typing import Any, NoReturn

from symgrad.errors import TraceError
from symgrad.frontend.lines import located


class Unbound:
    """Stands for a variable that has no value."""

    def __repr__(self) -> str:
        return "UNBOUND"


UNBOUND = Unbound()


class Poison:
    """The value of a variable that has one after some runs of the program only; whatever uses it raises TraceError."""

    __slots__ = ("name", "place")
    __array_priority__ = 2000.0

    def __init__(self, name: str, place: str) -> None:
        self.name = name
        self.place = place

    def refuse(self, *args: Any, **keywords: Any) -> NoReturn:
        raise located(
            TraceError(
                f"{self.name} has a value only in some cases of the if or loop at {self.place}, which the compiled "
                f"program decides: give {self.name} a value before it"
            )
        )

    def __repr__(self) -> str:
        return f"<{self.name}, which may have no value since {self.place}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and not name.startswith("__array"):
            raise AttributeError(name)  # what Python and copying look for
        self.refuse()

    def __eq__(self, other: object) -> bool:
        self.refuse()

    def __ne__(self, other: object) -> bool:
        self.refuse()

    def __hash__(self) -> int:
        self.refuse()


_BINARY = """
    add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift
""".split()  # noqa: SIM905  # one line, not one word a line
_OTHERS = """
    lt le gt ge neg pos abs invert bool int float complex index round trunc floor ceil len iter next contains getitem
    setitem delitem call enter exit str format array array_ufunc array_function
""".split()  # noqa: SIM905  # as above
for _name in (*_BINARY, *(f"r{b}" for b in _BINARY), *(f"i{b}" for b in _BINARY), *_OTHERS):
    setattr(Poison, f"__{_name}__", Poison.refuse)
