"""An object file -> a static library, in the format that System V's and GNU's ``ar`` write."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def archive(member: str, data: bytes, symbols: Sequence[str]) -> bytes:
    """An archive of one object, with an index of the symbols that it defines; no dates, no owners."""
    names = b"".join(s.encode() + b"\0" for s in symbols)
    index_size = 4 + 4 * len(symbols) + len(names)
    first = 8 + 60 + index_size + index_size % 2  # where the object's own header is
    index = struct.pack(f">I{len(symbols)}I", len(symbols), *[first] * len(symbols)) + names
    return b"!<arch>\n" + _entry("/", index) + _entry(f"{member}/", data)


def _entry(name: str, data: bytes) -> bytes:
    if len(name) > 16:
        name = f"{name[:15]}/"
    head = f"{name:16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n".encode()
    return head + data + b"\n" * (len(data) % 2)
