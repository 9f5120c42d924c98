"""The stand-in as a process of its own, beside a control plane that somebody else started."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from pathlib import Path

from tests.cluster.access import ADMIN
from tests.cluster.build import REPOSITORY
from tests.cluster.plane import ControlPlane
from tests.kubevirt_live.world import World

COMMAND = (sys.executable, "-m", "tests.kubevirt")


async def test_it_runs_machines_until_it_is_told_to_stop(plane: ControlPlane, world: World) -> None:
    shutil.copy2(world.cluster.access.kubeconfig(ADMIN), plane.at.folder / "kubeconfig")
    await world.node()
    arguments = ("--run", str(plane.at.folder), "--serves", world.namespace, "--speed", "20")
    process = await asyncio.create_subprocess_exec(*COMMAND, *arguments, cwd=REPOSITORY)
    try:
        await world.machine()
        await world.until_shown("Running")
    finally:
        process.send_signal(signal.SIGTERM)
        code = await process.wait()
    assert code == 0


async def test_without_a_control_plane_it_says_what_to_do(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--run", str(tmp_path), cwd=REPOSITORY, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    assert process.returncode == 1
    assert f"{tmp_path}/kubeconfig is missing: run `make up` first" in err.decode()
