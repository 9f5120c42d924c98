"""One process of ours: started, watched, stopped, with its output in a log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.cluster import tether

PATIENCE_SECONDS = 30.0
"""How long a process may take to end in its own way."""

TAKEN = ("address already in use", "Address already in use")
"""What servers print when another process was quicker to take a port."""


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    return _state(pid) not in {"", "Z"}


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal, and can be continued."""
    return _state(pid) == "T"


def _state(pid: int) -> str:
    """The kernel's letter for the state of a process; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


class Died(Exception):
    """A process ended that should have gone on; the message holds its last words."""

    def __init__(self, name: str, code: int, words: str, log: Path) -> None:
        super().__init__(f"{name} ended with {code}; the end of {log}:\n{words}")
        self.port_was_taken = any(text in words for text in TAKEN)


class Process:
    """A running program. It ends when we end, however that happens."""

    def __init__(
        self, name: str, log: Path, log_start: int, handle: asyncio.subprocess.Process
    ) -> None:
        self.name = name
        self.log = log
        self._log_start = log_start  # what is before it was said by earlier starts
        self._handle = handle

    @classmethod
    async def start(
        cls,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        environ: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a program, its output appended to a log.

        In a session of its own, so that Ctrl-C in a terminal reaches only us and we stop the
        others in their order.
        """
        tied = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *command]
        with log.open("ab") as output:
            log_start = output.tell()
            handle = await asyncio.create_subprocess_exec(
                *tied,
                env=environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return cls(name, log, log_start, handle)

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._handle.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._handle.returncode is None

    def words(self, lines: int = 30) -> str:
        """The last lines that it printed."""
        text = self.log.read_bytes()[self._log_start :].decode(errors="replace")
        return "\n".join(line[:500] for line in text.splitlines()[-lines:])

    def check(self) -> None:
        """Raise `Died` when it has ended."""
        if self._handle.returncode is not None:
            raise Died(self.name, self._handle.returncode, self.words(), self.log)

    async def stop(self, patience_seconds: float = PATIENCE_SECONDS) -> bool:
        """End it and wait until it has ended.

        Returns:
            Whether it ended in its own way; it is killed when its patience is over.
        """
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(patience_seconds):
                await self._handle.wait()
        except TimeoutError:
            await self.kill()
            return False
        return True

    async def kill(self) -> None:
        """End it at once, as a crash would."""
        self._send(signal.SIGKILL)
        await self._handle.wait()

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it ended just now
            self._handle.send_signal(number)


@contextlib.contextmanager
def suspended(process: Process | None) -> Iterator[None]:
    """Let a process hang: its sockets stay open, and nobody answers."""
    assert process is not None, "it was not started"
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)
