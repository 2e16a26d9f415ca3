"""Loading a call path: its code from the compiler or the disk cache, its table filled with the objects it refers to."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from symgrad.codegen.llvm.cache import ObjectCache
from symgrad.codegen.llvm.call import emit, layout, pool, support
from symgrad.codegen.llvm.call.signature import Signature
from symgrad.codegen.llvm.jit import Native, load_plain
from symgrad.ir.loops import Program

_arena = ctypes.c_uint64(0)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_arena))  # threads may use it until the process ends


@final
@dataclass(frozen=True, eq=False, slots=True)
class Path:
    """A loaded call path at ``address``; it keeps alive what its code refers to."""

    address: int
    table: Any
    kept: Any

    @property
    def hits(self) -> int:
        """How many calls it answered."""
        return int(self.table[support.HITS])

    def set_capacity(self, trips: int) -> None:
        self.table[support.CAPACITY] = trips

    def follow(self, other: Path | None) -> None:
        """Say who takes the calls that do not fit: another path, or Python."""
        self.table[support.NEXT] = 0 if other is None else other.address


def load_path(
    signature: Signature,
    program: Program,
    kernel: Native,
    objects: Sequence[object],
    tracing: Any,
    *,
    cache: ObjectCache | None = None,
) -> Path:
    """Make the path of ``kernel`` for a signature whose places are those of ``objects``.

    ``tracing`` is a ctypes integer; while it is not zero every call goes on to the next path.
    """
    name = f"call.{program.name}"
    source = emit.emit_path(signature, program, name, len(objects))
    symbols = {
        **layout.addresses(),
        "py.arena": ctypes.addressof(_arena),
        "py.tracing": ctypes.addressof(tracing),
        support.KERNEL: kernel.address,
    }
    if emit.uses_pool(signature):
        symbols |= pool.symbols()
    library = load_plain(source, (name, support.TABLE), symbols, cache=cache)
    table = (ctypes.c_uint64 * (support.FIRST_OBJECT + len(objects))).from_address(library[support.TABLE])
    for place, thing in enumerate(objects, support.FIRST_OBJECT):
        table[place] = id(thing)
    return Path(library[name], table, (library, kernel, tuple(objects), tracing))
