"""The demo, on a control plane of its own: its classes and its KubeVirt are cluster-wide."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.binder import BRISK
from tests.cluster.build import REPOSITORY, Binaries
from tests.cluster.everything import everything
from tests.harness.programs import HEEDS_INTERRUPTS


@pytest.fixture(scope="module")
async def shown(run: Path, binaries: Binaries) -> AsyncIterator[Path]:
    """All that `make up` starts, in a folder of its own, with a binder in a hurry."""
    folder = run / "demo"

    async def to_nobody(_line: str) -> None:
        """Nobody waits for progress here."""

    async with everything(folder, binaries, to_nobody, BRISK):
        yield folder


async def demo(shown: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.demo", "--run", str(shown), *arguments]
    return await asyncio.to_thread(
        subprocess.run, command, cwd=REPOSITORY, capture_output=True, text=True
    )


async def kubectl(shown: Path, *arguments: str, stdin: str = "") -> str:
    done = await asyncio.to_thread(
        subprocess.run,
        [str(shown / "bin" / "kubectl"), *arguments],
        input=stdin,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_the_demo_shows_each_tenant_its_figures_again_and_again(shown: Path) -> None:
    """One story in three acts, since each needs the one before and the control plane costs."""
    first = await demo(shown)
    assert first.returncode == 0, first.stderr
    assert "a100-80gb   Passthrough   80Gi     15     8         4/10        4 " in first.stdout
    assert 'cannot list resource "gpuclassoptions"' in first.stdout

    assert "asked 3: at most 2 can be had together, 3 free" in first.stdout
    assert "condition met" in first.stdout

    # Somebody follows the advice at the demo's end, then runs it again.
    await kubectl(shown, "uncordon", "gpu-node-04")
    label = "gpu.cozystack.io/vgpu=entitled"
    await kubectl(shown, "label", "--overwrite", "namespace", "tenant-globex", label)
    order = (
        "{apiVersion: gpu.cozystack.io/v1alpha1, kind: GPUClaim, metadata: {name: more},"
        " spec: {className: l40s, count: 1}}"
    )
    tenant = f"--kubeconfig={shown / 'tenant.kubeconfig'}"
    await kubectl(shown, tenant, "create", "-f", "-", stdin=order)
    again = await demo(shown)
    assert again.returncode == 0, again.stderr

    # What the demo does not know of is in the way: a wrong figure is named, and fails it.
    stranger = (
        "{apiVersion: v1, kind: Pod, metadata: {name: stranger, namespace: tenant-acme},"
        " spec: {containers: [{name: main, image: registry.example/cuda, resources: {limits:"
        " {nvidia.com/AD102GL_L40S: '1'}}}]}}"
    )
    await kubectl(shown, "create", "-f", "-", stdin=stranger)
    failed = await demo(shown, "--within", "1")
    assert failed.returncode == 1
    assert "tenant-acme does not see what it must" in failed.stderr
    assert "l40s: remaining is 1, worked out by hand: 2" in failed.stderr


async def test_without_a_cluster_the_demo_says_how_to_get_one(tmp_path: Path) -> None:
    done = await demo(tmp_path / "nothing")
    assert done.returncode == 1
    assert "run `make demo`, or `make up` first" in done.stderr


async def test_an_interrupted_demo_ends_with_one_line(tmp_path: Path) -> None:
    """The cluster is a kubectl that never ends."""
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    kubectl.chmod(0o755)
    for name in ("kubeconfig", "tenant.kubeconfig"):
        (tmp_path / name).touch()
    code = HEEDS_INTERRUPTS + "import runpy\nrunpy.run_module('tests.demo', run_name='__main__')\n"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, "--run", str(tmp_path)),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async for line in process.stdout:
        if b" apply " in line:
            process.send_signal(signal.SIGINT)
            break
    _, told = await process.communicate()
    assert process.returncode == 130
    assert told.decode() == "\ninterrupted; what make up started goes on: make down ends it\n"
