"""A folder outside the checkout that survives it, and a lock between processes."""

from __future__ import annotations

import fcntl
import os
import pwd
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

NAME = "cozystack-gpu"

Say = Callable[[str], None]
"""Shows one line of progress to whoever waits."""


def to_terminal(line: str) -> None:
    """A `Say` that shows the line at once, also through a pipe."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


class Unusable(Exception):
    """No folder can hold the cache; the message names each candidate and what is wrong."""


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The first of the usual places that can be written.

    In order: `XDG_CACHE_HOME`, `HOME`, this user's home in the password database (a service may
    run without HOME), and a folder of this user alone among the temporary ones.

    Raises:
        Unusable: when there is none.
    """
    problems = []
    for folder in _candidates(environ):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as problem:
            problems.append(f"{folder}: {problem.strerror}")
            continue
        if folder.stat().st_uid != os.getuid():
            problems.append(f"{folder}: belongs to another user")
            continue
        return folder
    raise Unusable("nowhere to keep what is built: " + "; ".join(problems))


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if Path(environ.get("XDG_CACHE_HOME", "")).is_absolute():  # the rule of its specification
        yield Path(environ["XDG_CACHE_HOME"]) / NAME
    if Path(environ.get("HOME", "")).is_absolute():
        yield Path(environ["HOME"]) / ".cache" / NAME
    with suppress(KeyError):  # a container may run as a user that no database knows
        yield Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / NAME
    yield Path(tempfile.gettempdir()) / f"{NAME}-{os.getuid()}"


class Pulse:
    """Says a line now and then while something takes long: at most once in `every_seconds`."""

    def __init__(self, say: Say, every_seconds: float = 30) -> None:
        self._say = say
        self._every = every_seconds
        self._started = self._last = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._started

    def beat(self, text: Callable[[float], str]) -> None:
        """Say `text` of the seconds so far, when it is time again."""
        if time.monotonic() - self._last >= self._every:
            self._last = time.monotonic()
            self._say(text(self.seconds))


@contextmanager
def locked(path: Path, what: str, say: Say) -> Iterator[None]:
    """Hold the lock of a file, which the kernel releases when the holder dies in any way.

    Args:
        path: made when missing, and left behind: removing it would let two holders in.
        what: what the other holder is probably doing, for the line that says why we wait.
        say: told at once that we wait, then twice a minute.
    """
    with path.open("a") as file:
        if not _try_lock(file.fileno()):
            say(f"another process is {what}; waiting for it")
            pulse = Pulse(say)
            while not _try_lock(file.fileno()):
                pulse.beat(lambda seconds: f"another process is {what}; waited {seconds:.0f} s")
                time.sleep(0.2)
        yield


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
