"""Processes end when they are told to, and when we end without telling them."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sys
from pathlib import Path

import pytest

from tests.cluster.build import REPOSITORY
from tests.cluster.plane import Component
from tests.cluster.processes import Died, Process, is_alive
from tests.cluster.waiting import NeverHappened, wait_until

SERVER = """
import http.server, socketserver, sys
socketserver.TCPServer.allow_reuse_address = True
address = ("127.0.0.1", int(sys.argv[1]))
socketserver.TCPServer(address, http.server.SimpleHTTPRequestHandler).serve_forever()
"""
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1; done"


async def said(process: Process, word: str) -> None:
    async def it() -> bool:
        return word in process.words()

    await wait_until(it, f"{process.name} said {word!r}")


async def test_a_process_whose_parent_is_killed_ends(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "import asyncio, sys, pathlib\n"
        "from tests.cluster.processes import Process\n"
        "async def main():\n"
        "    log = pathlib.Path(sys.argv[1])\n"
        "    child = await Process.start('child', ['sh', '-c', sys.argv[2]], log)\n"
        "    print(child.pid, flush=True)\n"
        "    await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        log,
        "echo runs; exec sleep 3600",
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())

    async def runs() -> bool:
        return log.read_text() == "runs\n"

    await wait_until(runs, "the child is past its beginnings")
    assert is_alive(child)
    parent.send_signal(signal.SIGKILL)
    await parent.communicate()

    async def ended() -> bool:
        return not is_alive(child)

    await wait_until(ended, "the child has ended")


async def test_a_process_that_will_not_end_is_killed(tmp_path: Path) -> None:
    process = await Process.start("stubborn", ["sh", "-c", STUBBORN], tmp_path / "log")
    await said(process, "ready")
    assert not await process.stop(patience_seconds=0.2)
    assert not process.is_running


async def test_a_process_that_ended_tells_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("said by an earlier one: address already in use\n")
    process = await Process.start("short", ["sh", "-c", "echo why >&2; exit 7"], log)

    async def ended() -> bool:
        return not process.is_running

    await wait_until(ended, "it ended")
    with pytest.raises(Died, match=r"short ended with 7(.|\n)*why") as died:
        process.check()
    assert not died.value.port_was_taken
    assert await process.stop()


async def test_a_port_that_was_taken_meanwhile_is_chosen_anew(tmp_path: Path) -> None:
    server = Component(
        "server",
        tmp_path / "log",
        1,
        lambda port: [sys.executable, "-c", SERVER, str(port)],
        lambda port: f"http://127.0.0.1:{port}/",
        None,
        random.Random(),
    )
    taken = server.port
    with socket.socket() as other:
        other.bind(("127.0.0.1", taken))
        await server.start()
    try:
        assert server.port != taken
        kept = server.port
        await server.stop()
        await server.start()
        assert server.port == kept
    finally:
        await server.stop()


async def test_what_never_happens_is_named_with_what_was_seen() -> None:
    async def never() -> list[int]:
        return []

    with pytest.raises(NeverHappened, match=r"never happened: pigs fly .*last answer \[\]"):
        await wait_until(never, "pigs fly", deadline_seconds=0)
