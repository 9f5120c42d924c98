"""The process behind `make up`: it holds the control plane and our processes until told to stop.

It listens on a socket that is named after its folder. The kernel ties that name to the living
process, so there is no file with a process id that could be stale: whoever can connect talks to
the right one, and the socket says which process that is. What it says are lines: progress, then
`ok` or `failed …`. What it is told:

    stay            by who started it, once it is up; the end of that connection before means stop
    refresh KEY     apply the manifests and restart our processes with the code as it is now
    state           say whether it goes on or is ending
    stop            end everything; the connection ends with the process
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import os
import shutil
import signal
import socket
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.build import MODULE, REPOSITORY, Binaries
from tests.cluster.everything import Everything, everything
from tests.cluster.processes import Died
from tests.cluster.waiting import NeverHappened

OK, FAILED = "ok", "failed "
ENDING = "it is ending"
KEPT_BY_NOBODY = ("bin", "data", "keys", "users", "manifests", "kubeconfig", "tenant.kubeconfig")
"""What a control plane leaves in its folder that the next one must not find; logs stay."""


def address(folder: Path) -> str:
    """The socket's name. Not a file: it needs no cleaning up, and a path may be too long."""
    mark = hashlib.sha256(bytes(folder.resolve())).hexdigest()[:32]
    return f"\0cozystack-gpu-{os.getuid()}-{mark}"


def peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user id of who holds the other end."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", found)
    return pid, uid


def key(binaries: Binaries) -> str:
    """Changes whenever a running supervisor can not take up what changed, and must start anew."""
    digest = hashlib.sha256(binaries.key.encode())
    for path in sorted([*Path(__file__).parent.glob("*.py"), *MODULE.glob("stages/*.yaml")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def clean(folder: Path) -> None:
    """Remove what is left of an earlier control plane, but for its logs."""
    for name in KEPT_BY_NOBODY:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@dataclass(slots=True)
class Supervisor:
    """Holds everything in one task, whose cancellation ends everything in order."""

    folder: Path
    binaries: Binaries
    key: str
    _running: Everything | None = None
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    _life: asyncio.Task[None] | None = None
    _stopping: list[asyncio.StreamWriter] = field(default_factory=list)

    async def run(self, starter: socket.socket) -> None:
        """Bring everything up, and keep it until told to stop or the starter goes away."""
        server = await asyncio.start_unix_server(self._serve, path=address(self.folder))
        reader, writer = await asyncio.open_unix_connection(sock=starter)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                self._life = group.create_task(self._live(reader, writer))
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    loop.add_signal_handler(number, self._stop)
        finally:
            server.close()
            writer.close()

    def _stop(self) -> None:
        """End everything; a second call must not interrupt the ending."""
        if self._life is not None:
            self._life.cancel()
            self._life = None

    async def _live(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.TaskGroup() as watching:
            watching.create_task(self._stop_unless_told_to_stay(reader))
            try:
                tell = functools.partial(_tell, writer)
                async with everything(self.folder, self.binaries, tell) as self._running:
                    await _tell(writer, OK)
                    await asyncio.get_running_loop().create_future()  # until cancelled
            except (Died, NeverHappened, AssertionError, ExceptionGroup) as problem:
                await _tell(writer, FAILED + _one_line(problem))
                raise

    async def _stop_unless_told_to_stay(self, reader: asyncio.StreamReader) -> None:
        if await reader.readline() != b"stay\n":
            self._stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection. That of a stop is left open: it ends with this process."""
        connection = writer.get_extra_info("socket")
        if peer(connection)[1] != os.getuid():
            writer.close()
            return
        command = (await reader.readline()).decode().split()
        match command:
            case ["stop"]:
                self._stopping.append(writer)  # it would close when nobody held it
                await _tell(writer, "stopping")
                self._stop()
                return
            case ["state"]:
                await _tell(writer, FAILED + ENDING if self._life is None else OK)
            case ["refresh", wanted] if wanted == self.key:
                await self._refresh(writer)
            case _:
                await _tell(writer, FAILED + "what runs is of other code")
        writer.close()

    async def _refresh(self, writer: asyncio.StreamWriter) -> None:
        async with self._busy:
            try:
                if self._running is None:
                    await _tell(writer, FAILED + "what runs is still starting")
                    return
                self._running.plane.check()
                await _tell(writer, "it is up: applying manifests/ and restarting what is ours")
                await self._running.refresh()
                await _tell(writer, OK)
            except (Died, NeverHappened, AssertionError) as problem:
                await _tell(writer, FAILED + _one_line(problem))


async def _tell(writer: asyncio.StreamWriter, line: str) -> None:
    with contextlib.suppress(ConnectionError):
        writer.write(line.encode() + b"\n")
        await writer.drain()


def _one_line(problem: BaseException) -> str:
    """The innermost message, with its lines as the protocol can carry them."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return str(problem).replace("\n", "\r")


def main(folder: Path, binaries: Binaries) -> None:
    """Become the supervisor: standard input is the connection to who started it.

    The connection stays open until the very end of the process, which its loss therefore tells.
    """
    os.chdir(REPOSITORY)
    if os.fork():
        os._exit(0)  # who started us waits for this much; the other goes on, as nobody's child
    starter = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    asyncio.run(Supervisor(folder, binaries, key(binaries)).run(starter))
