"""Named health checks and their report, in the words of kube-apiserver's own. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """A named check; `failing` says what is wrong, empty where nothing is. For the log only."""

    name: str
    failing: Callable[[], str]


PING = Check("ping", lambda: "")
"""The check that there is somebody to answer."""


@dataclass(frozen=True, slots=True)
class Report:
    """What to answer, and what is wrong, by check: that is for the log, not for strangers."""

    text: str
    wrong: dict[str, str]

    @property
    def fine(self) -> bool:
        """Whether all is well."""
        return not self.wrong


def report(
    endpoint: str,
    checks: Sequence[Check],
    *,
    excluded: Collection[str] = (),
    verbose: bool = False,
) -> Report:
    """Run checks.

    Args:
        endpoint: the word that a report ends with, such as `readyz`.
        checks: run in this order.
        excluded: names that do not count.
        verbose: whether to list the checks where all is well.
    """
    lines: list[str] = []
    wrong: dict[str, str] = {}
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
        elif why := check.failing():
            wrong[check.name] = why
            lines.append(f"[-]{check.name} failed: reason withheld")
        else:
            lines.append(f"[+]{check.name} ok")
    if unknown := sorted(set(excluded) - {check.name for check in checks}):
        lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
    if wrong:
        return Report("\n".join([*lines, f"{endpoint} check failed", ""]), wrong)
    if verbose:
        return Report("\n".join([*lines, f"{endpoint} check passed", ""]), wrong)
    return Report("ok", wrong)
