"""The clock of the stand-in, and how long things take."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass
from typing import Protocol

from tests.cluster.plane import system_clock


class Clock(Protocol):
    """What time it is, and a way to let some pass."""

    def now(self) -> datetime.datetime:
        """The time, with its zone."""

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""


class SystemClock:
    """The time of this machine, which is the API server's too."""

    def now(self) -> datetime.datetime:
        """The time, with its zone."""
        return system_clock()

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Timing:
    """How long KubeVirt takes for what it does on purpose.

    Attributes:
        speed: divides pauses after failed starts, retries, timeouts, imports and migrations, so
            that a test need not wait for minutes. What just takes its time, such as the way from a
            watch event to a write, is not divided.
        listed_after_seconds: from a pod's creation until `status.activePods` shows it: shortest
            and longest (KubeVirt observed 13).
        stranger_after_seconds: the same for a pod that somebody else made (KubeVirt observed 17).
        import_seconds: from a bound claim to its imported disk.
        migration_seconds: from a ready target to the guest's arrival.
    """

    speed: float = 1.0
    listed_after_seconds: tuple[float, float] = (0.012, 0.066)
    stranger_after_seconds: tuple[float, float] = (0.0, 0.04)
    import_seconds: float = 60.0
    migration_seconds: float = 20.0

    def real(self, seconds: float) -> float:
        """How long a pause of so many seconds takes here."""
        return seconds / self.speed
