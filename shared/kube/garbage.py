"""Keeping Python's garbage collector out of the way of what we read.

The collector finds cycles by walking what lives. Parsed JSON and our values have no cycles, and
there are a lot of them: a page of 250 pods is some 100,000 objects, all pods of a large cluster
are a million. Left alone it walks all of them again and again while a cluster is read (measured
at 100,000 pods: half of the processor time until synced), and now and then afterwards, with
everything else waiting for some tenths of a second.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_pauses = 0


@contextmanager
def paused() -> Iterator[None]:
    """Collect nothing until this ends; for a moment in which much is made and let go again."""
    global _pauses
    if not (_pauses or gc.isenabled()):
        yield  # somebody else has switched it off, and may switch it on
        return
    gc.disable()
    _pauses += 1
    try:
        yield
    finally:
        _pauses -= 1
        if not _pauses:
            gc.enable()


def settle() -> None:
    """Collect once, then leave alone what lives now (`gc.freeze`): most of it is there to stay.

    For the end of the first reading. What is let go later is freed as ever; only cycles among
    what lives now would stay.
    """
    gc.collect()
    gc.freeze()
