"""What to say of the cluster as far as it is not read, and to whom. Pure.

Whoever may read the resource learns which right is missing: a 503 that says less helps nobody to
end it. An option's condition is for tenants: it says what that means for the figures, and which
collections it is about goes to the log and the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from shared.kube.reflector import Report, Standing

OLD: Final = "figures may be old: the cluster could not be read for a while"
"""Message of Fresh=False."""


def unread(reports: Iterable[Report]) -> str:
    """Why the cluster is not read: what we may not read, with the verb, and what is to come."""
    refused: dict[str, list[str]] = {}
    awaited: list[str] = []
    for report in reports:
        match report.standing:
            case Standing.UNREADABLE:
                refused.setdefault(_verb(report), []).append(report.name)
            case Standing.STARTING:
                awaited.append(report.name)
            case _:
                pass
    told = [
        f"Forbidden: this server may not {verb}: {', '.join(names)}"
        for verb, names in sorted(refused.items())
    ]
    if awaited:
        told.append(f"not listed so far: {', '.join(awaited)}")
    return f"the cluster is not read yet: {'; '.join(told)}"


def lagging(reports: Iterable[Report], stale_seconds: float) -> list[str]:
    """The collections that figures may be behind of: not proven fresh for so long, or refused.

    What may not be read any more can be out of date from that moment on.
    """
    return sorted(
        report.name
        for report in reports
        if report.age > stale_seconds or report.standing is Standing.UNREADABLE
    )


def refusals(reports: Iterable[Report]) -> dict[str, str]:
    """Which verb we lack on each collection that we may not read, by its name."""
    return {
        report.name: _verb(report) for report in reports if report.standing is Standing.UNREADABLE
    }


def _verb(report: Report) -> str:
    """The verb that was refused, where the refusal names it as Kubernetes' authorizer does."""
    for verb in ("list", "watch"):
        if f"cannot {verb} " in report.trouble:
            return verb
    return "list and watch"
