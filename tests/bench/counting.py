"""How often the arithmetic is called: every call of a function of `shared.core`, by name."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Generic, TypeVar

import shared.core

T = TypeVar("T")

_CORE = str(Path(shared.core.__file__).parent)


@dataclass(frozen=True, slots=True)
class Counted(Generic[T]):
    """What some work returned, and how often it called each function of the arithmetic."""

    result: T
    by_name: Counter[str]

    @property
    def calls(self) -> int:
        """Of all functions."""
        return self.by_name.total()


def calls_of(work: Callable[[], T]) -> Counted[T]:
    """Run some work and count the calls of Python functions in `shared.core`, methods included.

    Comprehensions and generator steps count as calls: so a loop shows, whichever way it is
    written, as long as it does something of ours for each element.
    """
    counted: Counter[str] = Counter()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_CORE):
            counted[frame.f_code.co_qualname] += 1

    sys.setprofile(profile)
    try:
        result = work()
    finally:
        sys.setprofile(None)
    return Counted(result, counted)
