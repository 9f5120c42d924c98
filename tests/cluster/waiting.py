"""Wait for a condition: the only way in which tests let time pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

DEADLINE_SECONDS = 90.0
"""Generous: the machine may be shared. Reached only by what would never have come."""

POLL_SECONDS = 0.05

T = TypeVar("T")


class NeverHappened(AssertionError):
    """A condition was not met before the deadline; the message says what was seen last."""


async def wait_until(
    condition: Callable[[], Awaitable[T | None]],
    what: str,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> T:
    """Ask until the answer is true, and return that answer.

    Args:
        condition: asked again and again; anything that it raises passes through.
        what: completes the sentence "never happened: …".
        deadline_seconds: from now; the condition is asked at least once.

    Raises:
        NeverHappened: when the deadline passed.
    """
    end = time.monotonic() + deadline_seconds
    answer = await condition()
    while not answer:
        if time.monotonic() > end:
            raise NeverHappened(
                f"never happened: {what} (within {deadline_seconds:.0f} s; last answer {answer!r})"
            )
        await asyncio.sleep(POLL_SECONDS)
        answer = await condition()
    return answer
