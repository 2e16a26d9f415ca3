"""The object cache: what it refuses, what it survives, what it forgets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from symgrad.codegen.llvm import ObjectCache, default_cache


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


def files(cache: ObjectCache) -> list[Path]:
    return sorted(cache.directory.iterdir())


def test_bytes_come_back(cache: ObjectCache) -> None:
    assert cache.get("k") is None
    cache.put("k", b"machine code")
    assert (cache.get("k"), cache.get("other")) == (b"machine code", None)


def test_key_depends_on_every_part_and_on_where_parts_end() -> None:
    keys = {ObjectCache.key(*parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), ("ab", "d"))}
    assert len(keys) == 4


@pytest.mark.parametrize("damage", ["truncated", "garbage", "empty", "flipped", "longer"])
def test_damaged_file_is_missing_and_is_overwritten(cache: ObjectCache, damage: str) -> None:
    cache.put("k", b"machine code")
    (path,) = files(cache)
    good = path.read_bytes()
    flipped = bytearray(good)
    flipped[-3] ^= 1
    bad = {
        "truncated": good[:-4],
        "garbage": os.urandom(200),
        "empty": b"",
        "flipped": bytes(flipped),
        "longer": good + b"!",
    }
    path.write_bytes(bytes(bad[damage]))
    assert cache.get("k") is None
    cache.put("k", b"machine code")
    assert cache.get("k") == b"machine code"


def test_directory_is_private(cache: ObjectCache) -> None:
    cache.put("k", b"x")
    assert cache.directory.stat().st_mode & 0o777 == 0o700


def test_directory_that_others_can_write_is_not_used(cache: ObjectCache) -> None:
    cache.put("k", b"x")
    cache.directory.chmod(0o777)
    assert cache.get("k") is None
    cache.put("k2", b"y")
    assert len(files(cache)) == 1


def test_directory_of_another_user_is_not_used(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put("k", b"x")
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert cache.get("k") is None


def test_place_that_cannot_be_written_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file" / "objects")
    cache.put("k", b"x")
    assert cache.get("k") is None


def test_failed_write_leaves_nothing_behind(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put("k", b"x")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.put("k2", b"y")
    assert (len(files(cache)), cache.get("k2")) == (1, None)


def test_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, limit=4000)
    for k, name in enumerate("abc"):
        cache.put(name, bytes(1000))
        os.utime(tmp_path / f"{name}.sgo", (k + 1.0, k + 1.0))
    assert cache.get("a") is not None  # used: now younger than b
    cache.put("d", bytes(1000))
    assert [cache.get(name) is not None for name in "abcd"] == [True, False, True, True]


def test_other_files_are_not_evicted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(bytes(5000))
    ObjectCache(tmp_path, limit=100).put("a", bytes(1000))
    assert (tmp_path / "notes.txt").exists()


def test_processes_share_a_directory(tmp_path: Path) -> None:
    """Two writers and their reads of one key: always a whole value or nothing."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom symgrad.codegen.llvm import ObjectCache\n"
        "cache, fill = ObjectCache(sys.argv[1]), sys.argv[2].encode()\n"
        "for _ in range(150):\n"
        "    cache.put('k', fill * 50000)\n"
        "    got = cache.get('k')\n"
        "    assert got is not None and len(got) == 50000 and len(set(got)) == 1\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    both = [subprocess.Popen([sys.executable, script, tmp_path / "c", fill], env=env) for fill in "ab"]
    assert [p.wait(60) for p in both] == [0, 0]


def test_environment_names_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "here"))
    named = default_cache()
    assert named is not None
    assert named.directory == tmp_path / "here"


def test_environment_turns_the_cache_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", "off")
    assert default_cache() is None


def test_default_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SYMGRAD_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = []
    for base in (str(tmp_path / "xdg"), ""):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        cache = default_cache()
        assert cache is not None
        found.append(cache.directory)
    assert found == [tmp_path / "xdg" / "symgrad", tmp_path / ".cache" / "symgrad"]
