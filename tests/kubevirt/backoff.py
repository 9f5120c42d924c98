"""How long KubeVirt waits before it tries again."""

from __future__ import annotations

import random
from typing import Final

START_PAUSE_SECONDS_MAX: Final = 300
_FIRST_SECONDS: Final = 10

_RETRY_FIRST_SECONDS: Final = 0.005
_RETRY_SECONDS_MAX: Final = 1000.0
_DOUBLINGS_MAX: Final = 20  # far past the longest pause


def start_pause_seconds(failures: int, chance: random.Random) -> int:
    """The pause after so many starts in a row that failed (KubeVirt observed 28).

    Ten seconds times the square of the count, up to half as much again, never more than 300:
    10 to 15, 40 to 60, 90 to 135, 160 to 240, 250 to 300, then 300.
    """
    least = _FIRST_SECONDS * failures**2
    return min(least + chance.randrange(least // 2 + 1), START_PAUSE_SECONDS_MAX)


def retry_seconds(failures: int) -> float:
    """The pause before the work on an object is tried again that failed so often in a row.

    It doubles from 5 ms up to 1000 s, and starts anew with the process (KubeVirt observed 15).
    """
    doublings = min(failures - 1, _DOUBLINGS_MAX)
    return min(_RETRY_FIRST_SECONDS * float(2**doublings), _RETRY_SECONDS_MAX)
