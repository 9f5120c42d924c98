"""`make up` and `make down`, in a folder of their own beside whatever else is up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from shared import vocabulary
from tests.cluster.build import REPOSITORY, Binaries
from tests.cluster.processes import is_alive
from tests.cluster.up import down, remains, up
from tests.cluster.waiting import wait_until
from tests.harness.programs import HEEDS_INTERRUPTS

PARTS = {
    "etcd",
    "gpu-apiserver",
    "gpu-binder",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "supervise",
    "tests.kubevirt",
}
OURS = {"gpu-apiserver", "gpu-binder", "tests.kubevirt"}


def quiet(_: str) -> None:
    """Nobody waits for progress here."""


def processes(folder: Path) -> dict[str, int]:
    """The living processes that were started for a folder: which part, and its id."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended while we looked
            words = path.read_text().split("\0")
            pid = int(path.parent.name)
            if any(str(folder) in word for word in words) and is_alive(pid):
                names = {Path(word).name for word in words[:4]} & PARTS
                found[", ".join(names) or " ".join(words)] = pid
    return found


def as_tenant(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [folder / "bin" / "kubectl", "--kubeconfig", folder / "tenant.kubeconfig", *arguments],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_up_is_refreshed_by_another_up_and_ended_by_down(binaries: Binaries, run: Path) -> None:
    folder = run / "up"
    up(folder, binaries, quiet)
    try:
        first = processes(folder)
        assert set(first) == PARTS
        assert as_tenant(folder, "config", "view", "-o=jsonpath={..namespace}") == "tenant-acme"
        assert as_tenant(folder, "get", vocabulary.RESOURCE_OPTIONS, "-o", "name") == ""

        up(folder, binaries, quiet)
        second = processes(folder)
        assert {part for part in PARTS if first[part] != second[part]} == OURS
    finally:
        assert down(folder, quiet)
    assert processes(folder) == {}
    assert not (folder / "kubeconfig").exists()
    assert not down(folder, quiet)


async def test_an_interrupted_up_says_that_what_ran_before_goes_on(
    binaries: Binaries, run: Path
) -> None:
    folder = run / "goes-on"
    await asyncio.to_thread(up, folder, binaries, quiet)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.cluster", "--run", folder, "up"),
            cwd=REPOSITORY,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        async for line in process.stderr:
            if line.startswith(b"it is up"):
                process.send_signal(signal.SIGTERM)  # heeded like Ctrl-C
                break
        last = await process.stderr.read()
        assert await process.wait() == 130
        assert last.decode() == "interrupted; what ran before goes on: make down ends it\n"
        assert set(processes(folder)) >= PARTS - OURS  # those are just restarted
    finally:
        assert await asyncio.to_thread(down, folder, quiet)
    assert remains(folder) == "nothing is left running"


async def test_up_says_that_it_starts_empty_when_the_cluster_had_died(
    binaries: Binaries, run: Path
) -> None:
    folder = run / "died"
    await asyncio.to_thread(up, folder, binaries, quiet)
    try:
        pid = processes(folder)["kube-apiserver"]
        os.kill(pid, signal.SIGKILL)

        async def noticed() -> bool:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True  # the supervisor has waited for it
            return False

        await wait_until(noticed, "the supervisor knows that kube-apiserver is dead")
        said: list[str] = []
        await asyncio.to_thread(up, folder, binaries, said.append)
        assert said[0] == (
            "kube-apiserver ended with -9: starting anew with an empty cluster;"
            " what was created in the old one is gone"
        )
    finally:
        assert await asyncio.to_thread(down, folder, quiet)


async def test_a_killed_supervisor_takes_everything_with_it(binaries: Binaries, run: Path) -> None:
    folder = run / "killed"
    await asyncio.to_thread(up, folder, binaries, quiet)
    supervisor = processes(folder)["supervise"]
    os.kill(supervisor, signal.SIGKILL)

    async def gone() -> bool:
        if is_alive(supervisor) or processes(folder):
            return False
        # Its threads may end after it has, and hold its socket until then.
        return await asyncio.to_thread(remains, folder) == "nothing is left running"

    await wait_until(gone, "no process is left")
    assert not await asyncio.to_thread(down, folder, quiet)


async def test_an_interrupted_up_leaves_nothing(binaries: Binaries, run: Path) -> None:
    folder = run / "interrupted"
    code = (
        HEEDS_INTERRUPTS + "import sys, pathlib\n"
        "from tests.cluster.build import Binaries\n"
        "from tests.cluster.up import up\n"
        "folder, binaries = map(pathlib.Path, sys.argv[1:])\n"
        "up(folder, Binaries(binaries, binaries.name), lambda line: print(line, flush=True))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code,
        folder,
        binaries.folder,
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert b"starting" in await process.stdout.readline()

    async def half_up() -> bool:
        return "kube-apiserver" in processes(folder)

    await wait_until(half_up, "kube-apiserver is starting")
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert process.returncode != 0

    async def gone() -> bool:
        return processes(folder) == {}

    await wait_until(gone, "no process is left")
    assert not (folder / "keys").exists()
