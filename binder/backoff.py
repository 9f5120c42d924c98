"""Which works are held back after a write that failed, and until when. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared.kube.pace import backoff

STALE_SECONDS_MIN: Final = 0.05
STALE_SECONDS_MAX: Final = 5.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A work that could not be finished; `is_stale` where only its inputs had changed."""

    key: str
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """How often in a row a work failed, and until when it rests; monotonic seconds."""

    failures: int
    until: float


@dataclass(frozen=True, slots=True)
class Holds:
    """All works that failed lately."""

    holds: Mapping[str, Hold] = field(default_factory=dict)

    def held(self, now: float) -> frozenset[str]:
        """The works that rest now."""
        return frozenset(key for key, hold in self.holds.items() if hold.until > now)

    def next(self, under_way: Container[str] = frozenset()) -> float:
        """When the first of them is due again; infinite where none rests.

        Who is being tried again is due when that is over, and nobody knows when that is.
        """
        dues = (hold.until for key, hold in self.holds.items() if key not in under_way)
        return min(dues, default=float("inf"))

    def after(
        self,
        began: float,
        failed: Iterable[Failure],
        now: float,
        chance: float,
        under_way: Container[str] = frozenset(),
    ) -> Holds:
        """What holds after a pass: who rested goes on resting, who failed rests longer each time.

        A work that was due and did not fail is forgotten, be it that it was done or that there
        was nothing left to do; but not while it is under way.

        Args:
            began: when the last pass decided.
            failed: the works that failed since.
            now: monotonic.
            chance: from 0 to 1.
            under_way: keys of works that are not over.
        """
        holds = {
            key: hold for key, hold in self.holds.items() if hold.until > began or key in under_way
        }
        for failure in failed:
            before = self.holds.get(failure.key)
            failures = 1 + (before.failures if before is not None else 0)
            rest = _stale(failures) if failure.is_stale else backoff(failures, chance)
            holds[failure.key] = Hold(failures, now + rest)
        return Holds(holds)


def _stale(failures: int) -> float:
    """Short: what changed is known in a moment. Longer where it changes again and again."""
    return min(STALE_SECONDS_MIN * float(1 << min(failures - 1, 10)), STALE_SECONDS_MAX)
