"""The distribution: every package is listed, one version, and no text that only means something on one machine."""

from __future__ import annotations

import re
import subprocess
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import symgrad

ROOT = Path(__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]

# Built from parts, so that this file does not match itself.
LOCAL_PATH = re.compile(r"(?<![\w.~:/-])/(?:" + "|".join(["work", "root", "home", "tmp", "Users", "opt"]) + r")/\w")
OUTSIDE = re.compile(r"\.\./" + "shared")


def packages_under(folder: Path, name: str) -> set[str]:
    found = {folder / "__init__.py", *folder.rglob("__init__.py")}
    parents = [path.parent.relative_to(folder).parts for path in found if path.exists()]
    return {".".join([name, *parts]) for parts in parents}


def tracked_files() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name]


def test_every_package_is_listed() -> None:
    # rglob does not follow the link.
    found = packages_under(ROOT / "symgrad", "symgrad") | packages_under(ROOT / "codegen", "symgrad.codegen")
    assert found == set(SETTINGS["packages"])


def test_the_link_and_the_package_map_agree() -> None:
    assert (ROOT / "symgrad" / "codegen").resolve() == (ROOT / SETTINGS["package-dir"]["symgrad.codegen"]).resolve()


def test_installed_version_is_the_source_version() -> None:
    assert version("symgrad") == symgrad.__version__


def test_changelog_has_an_unreleased_section() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("line", ["see /" + "home/me/notes", "x = '/" + "tmp/a'", "run (../" + "shared/tool)"])
def test_the_pattern_finds_machine_paths(line: str) -> None:
    assert LOCAL_PATH.search(line) or OUTSIDE.search(line)


@pytest.mark.parametrize("line", ["https://example.org/home/x", "a/work/b", "#!/usr/bin/env bash"])
def test_the_pattern_leaves_other_paths_alone(line: str) -> None:
    assert not LOCAL_PATH.search(line) and not OUTSIDE.search(line)


def test_no_text_refers_to_one_machine() -> None:
    found = []
    for path in tracked_files():
        if path.is_symlink() or not path.is_file() or ".ci" in path.relative_to(ROOT).parts:
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        hits = [n for n, line in enumerate(lines, 1) if LOCAL_PATH.search(line) or OUTSIDE.search(line)]
        found += [f"{path.relative_to(ROOT)}:{n}" for n in hits]
    assert found == []
