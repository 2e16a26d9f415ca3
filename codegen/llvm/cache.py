"""Object code on disk, private to the user: a name computed from everything it depends on -> bytes.

A file is a magic word, the length and the hash of the payload, and the payload. What does not fit that is treated as
missing. Files appear whole (written aside, then renamed), so that processes may share a directory. Nothing here raises
for a disk that is full, read-only or absent: there is just no cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import final

_MAGIC = b"symgrad1"
_HEADER = len(_MAGIC) + 8 + 32
_SUFFIX = ".sgo"
LIMIT = 512 << 20


@final
class ObjectCache:
    """Objects in ``directory``; the oldest go when there is more than ``limit`` bytes of them."""

    def __init__(self, directory: str | os.PathLike[str], *, limit: int = LIMIT) -> None:
        self.directory = Path(directory)
        self.limit = limit
        self._size: int | None = None  # of the directory, as far as this process knows

    @staticmethod
    def key(*parts: str) -> str:
        """A name for what ``parts`` determine."""
        digest = hashlib.sha256(_MAGIC)
        for part in parts:
            data = part.encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        return digest.hexdigest()

    def get(self, key: str) -> bytes | None:
        """The bytes put under ``key``, or None when they are missing, damaged or not surely ours."""
        try:
            if not _is_private(self.directory):
                return None
            data = self._path(key).read_bytes()
        except OSError:
            return None
        payload = data[_HEADER:]
        if data[:_HEADER] != _header(payload):
            return None
        with contextlib.suppress(OSError):
            os.utime(self._path(key))  # used lately: evicted last
        return payload

    def put(self, key: str, payload: bytes) -> None:
        with contextlib.suppress(OSError):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(self.directory):
                return
            self._write(key, _header(payload) + payload)
            self._evict(len(payload) + _HEADER)

    def _path(self, key: str) -> Path:
        return self.directory / (key + _SUFFIX)

    def _write(self, key: str, data: bytes) -> None:
        handle, aside = tempfile.mkstemp(prefix="new-", dir=self.directory)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(aside, self._path(key))
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(aside)
            raise

    def _evict(self, added: int) -> None:
        """Delete the least recently used files once the limit is passed."""
        if self._size is not None:
            self._size += added
            if self._size <= self.limit:
                return
        found = sorted(_files(self.directory))
        total = sum(size for _, size, _ in found)
        for _, size, path in found:
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size
        self._size = total


def default_cache() -> ObjectCache | None:
    """The cache that ``SYMGRAD_CACHE_DIR`` names (``off``: none), else one in the user's cache directory."""
    named = os.environ.get("SYMGRAD_CACHE_DIR", "")
    if named == "off":
        return None
    if named:
        return ObjectCache(named)
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return ObjectCache((Path(base) if base else Path.home() / ".cache") / "symgrad")
    except RuntimeError:  # no home directory
        return None


def _header(payload: bytes) -> bytes:
    return _MAGIC + len(payload).to_bytes(8, "little") + hashlib.sha256(payload).digest()


def _is_private(directory: Path) -> bool:
    """A directory of ours that nobody else can write: code in it is as trustworthy as we are."""
    status = os.stat(directory)
    if not stat.S_ISDIR(status.st_mode):
        return False
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _files(directory: Path) -> list[tuple[float, int, str]]:
    """Age, size and path of what the cache wrote, abandoned temporary files among them."""
    out = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.endswith(_SUFFIX) and not entry.name.startswith("new-"):
                continue
            with contextlib.suppress(OSError):
                status = entry.stat()
                out.append((status.st_mtime, status.st_size, entry.path))
    return out
