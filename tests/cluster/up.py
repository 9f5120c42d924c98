"""`make up` and `make down`: start, refresh and end the supervisor from the foreground."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.cluster import supervisor
from tests.cluster.build import REPOSITORY, Binaries
from tests.cluster.cache import Say, locked

START_SECONDS_MAX = 300.0
STOP_SECONDS_MAX = 120.0
ANSWER_SECONDS_MAX = 5.0

EMPTIED = "starting anew with an empty cluster; what was created in the old one is gone"


class Failed(Exception):
    """It did not come up, or not go down; the message says why."""


def up(folder: Path, binaries: Binaries, say: Say) -> None:
    """Have everything running in the background with what the checkout holds now.

    What runs already is refreshed, or started anew if it can not take up what changed; anew
    means empty, and says so. Interrupted, it leaves nothing behind that it started; what ran
    before goes on.

    Raises:
        Failed: when something does not come up.
    """
    folder.mkdir(exist_ok=True)
    with locked(folder / "up.lock", "running make up or make down here", say):
        with _connected(folder) as running:
            if running is not None:
                _tell(running, f"refresh {supervisor.key(binaries)}")
                outcome = _heard(running, say, START_SECONDS_MAX)
                if outcome == supervisor.OK:
                    return
                why = outcome.removeprefix(supervisor.FAILED).partition("\n")[0]
                why = why.partition("; the end of ")[0]  # last words, which are in the log
                say(f"{why or 'what runs is ending'}: {EMPTIED}")
            elif (folder / "data").exists():
                say(f"what ran here before ended without make down: {EMPTIED}")
        _end(folder, say)
        _start(folder, binaries, say)


def down(folder: Path, say: Say) -> bool:
    """End everything and wait until it has ended; returns whether there was something to end."""
    if not folder.exists():
        return False
    with locked(folder / "up.lock", "running make up or make down here", say):
        return _end(folder, say)


def remains(folder: Path) -> str:
    """What an interrupted `up` or `down` leaves, in words."""
    with _connected(folder) as running:
        if running is None:
            return "nothing is left running"
        _tell(running, "state")
        try:
            outcome = _heard(running, _to_nobody, ANSWER_SECONDS_MAX)
        except TimeoutError:
            outcome = supervisor.OK  # it is busy, not ending
    if outcome in {"", supervisor.FAILED + supervisor.ENDING}:
        return "what ran before is ending by itself: make down waits for it"
    return "what ran before goes on: make down ends it"


def _to_nobody(_line: str) -> None:
    """For an answer without progress."""


def _start(folder: Path, binaries: Binaries, say: Say) -> None:
    log = folder / "log" / "supervisor.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    ours, theirs = socket.socketpair()
    with ours:
        with theirs, log.open("wb") as output:
            subprocess.run(  # ends once the supervisor is on its own, as nobody's child
                [sys.executable, "-m", "tests.cluster", "supervise", folder, binaries.folder],
                cwd=REPOSITORY,
                stdin=theirs.fileno(),
                stdout=output,
                stderr=output,
                start_new_session=True,
                check=False,  # the connection tells
            )
        try:
            outcome = _heard(ours, say, START_SECONDS_MAX)
        except BaseException:
            ours.shutdown(socket.SHUT_WR)  # it stops when we go; the other half tells when it has
            _heard(ours, say, STOP_SECONDS_MAX)
            supervisor.clean(folder)
            raise
        if outcome == supervisor.OK:
            _tell(ours, "stay")
            return
        _heard(ours, say, STOP_SECONDS_MAX)
    supervisor.clean(folder)
    raise Failed(outcome.removeprefix(supervisor.FAILED) or f"it ended; see {log}")


def _end(folder: Path, say: Say) -> bool:
    with _connected(folder) as running:
        if running is not None:
            _stop(running, say)
    supervisor.clean(folder)
    return running is not None


def _stop(running: socket.socket, say: Say) -> None:
    """Stop the supervisor at the other end and wait until it has ended."""
    try:
        # It lived when we connected; this holds on to it, whoever gets its id later.
        process = os.pidfd_open(supervisor.peer(running)[0])
    except ProcessLookupError:
        return  # it ended just now
    try:
        _tell(running, "stop")
        try:
            _heard(running, say, STOP_SECONDS_MAX)
        except TimeoutError:
            say("it does not end by itself: killing it, and what is tied to it")
            signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [])  # until it has ended
    finally:
        os.close(process)


@contextlib.contextmanager
def _connected(folder: Path) -> Iterator[socket.socket | None]:
    """A connection to the supervisor of a folder, None when there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(supervisor.address(folder))
        except ConnectionRefusedError:
            yield None
        else:
            yield connection


def _tell(connection: socket.socket, line: str) -> None:
    with contextlib.suppress(ConnectionError):  # it ended: what we hear next will say so
        connection.sendall(f"{line}\n".encode())


def _heard(connection: socket.socket, say: Say, seconds: float) -> str:
    """Show the progress that comes over a connection.

    Returns:
        The outcome, or nothing when the connection ended without one.

    Raises:
        TimeoutError: when neither came in time.
    """
    end = time.monotonic() + seconds
    rest = b""
    while True:
        connection.settimeout(max(0.001, end - time.monotonic()))
        try:
            got = connection.recv(65536)
        except ConnectionResetError:
            got = b""  # it ended before it took our call
        if not got:
            return ""
        *lines, rest = (rest + got).split(b"\n")
        for line in lines:
            text = line.decode().replace("\r", "\n")
            if text == supervisor.OK or text.startswith(supervisor.FAILED):
                return text
            say(text)
