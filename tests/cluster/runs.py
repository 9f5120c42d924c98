"""A folder for one run, which no other run touches and which does not pile up."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def run_folder(parent: Path) -> Iterator[Path]:
    """Make a folder below `parent` and hold it; it stays until another run begins.

    So the logs of a failed run can be read. Folders whose holder lives are left alone: the
    kernel gives their locks back when it ends, in whatever way.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / "lock").open("a") as door:
        fcntl.flock(door, fcntl.LOCK_EX)
        _remove_left_behind(parent)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
        held = os.open(folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        os.close(held)


def _remove_left_behind(parent: Path) -> None:
    for folder in parent.glob("run-*"):
        other = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder)
        finally:
            os.close(other)
