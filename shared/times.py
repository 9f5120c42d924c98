"""Points in time as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(time: datetime) -> str:
    """A point in time, with its zone, in whole seconds of UTC (metav1.Time)."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
