"""What was checked, how, and with what outcome."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One statement that was proved or tried: ``how`` is the means, ``detail`` the evidence."""

    name: str
    how: str
    passed: bool
    detail: str = ""

    def __str__(self) -> str:
        return (
            f"{'ok  ' if self.passed else 'FAIL'} {self.name}: {self.how}{f' ({self.detail})' if self.detail else ''}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """All checks of one function; true when every one passed."""

    checks: tuple[Check, ...]

    def __bool__(self) -> bool:
        return all(c.passed for c in self.checks)

    def __str__(self) -> str:
        failed = [c for c in self.checks if not c.passed]
        passed = [c for c in self.checks if c.passed]
        head = f"{len(failed)} of {len(self.checks)} checks failed" if failed else f"all {len(passed)} checks passed"
        return "\n".join([head, *map(str, failed), *map(str, passed)])
