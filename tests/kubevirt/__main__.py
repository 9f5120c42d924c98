"""Run the stand-in beside what `make up` started, until interrupted.

python -m tests.kubevirt [--run FOLDER] [--namespace cozy-kubevirt] [--serves NAMESPACE]
[--speed FACTOR]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from shared import vocabulary
from tests.cluster.access import Access
from tests.cluster.build import built
from tests.cluster.cache import cache_folder, to_terminal
from tests.cluster.components import CLIENT_CA, SERVING_CA, Layout
from tests.cluster.keys import Authority
from tests.cluster.plane import system_clock
from tests.cluster.session import Cluster
from tests.kubevirt import kinds
from tests.kubevirt.standin import kubevirt
from tests.kubevirt.timing import Timing


def cluster_of(folder: Path, environ: dict[str, str]) -> Cluster:
    """The control plane whose keys and kubeconfig are in a folder.

    Raises:
        SystemExit: when nothing is up there.
    """
    kubeconfig = folder / "kubeconfig"
    if not kubeconfig.exists():
        sys.exit(f"{kubeconfig} is missing: run `make up` first, or name its folder with --run")
    at = Layout(folder.resolve())
    server = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    authority = Authority.load(at.keys, CLIENT_CA)
    access = Access(at.users, server, at.authority(SERVING_CA), authority, system_clock)
    return Cluster(access, built(cache_folder(environ), to_terminal).controlplane)


async def run(cluster: Cluster, namespace: str, serves: str | None, speed: float) -> None:
    """Install the kinds and be KubeVirt until cancelled."""
    try:
        await kinds.install(cluster)
        async with kubevirt(cluster, namespace, serves=serves, timing=Timing(speed=speed)):
            to_terminal(f"KubeVirt's stand-in runs; its accounts are in {namespace}")
            await asyncio.get_running_loop().create_future()
    finally:
        await cluster.close()


async def until_told(cluster: Cluster, namespace: str, serves: str | None, speed: float) -> None:
    """The same, ended in order by a signal."""
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(run(cluster, namespace, serves, speed))
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, running.cancel)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubevirt", description=__doc__)
    parser.add_argument("--run", type=Path, default=Path(".run"), help="folder of make up")
    parser.add_argument("--namespace", default=vocabulary.KUBEVIRT_NAMESPACE)
    parser.add_argument("--serves", help="look after machines of this namespace only")
    parser.add_argument("--speed", type=float, default=1.0, help="divides pauses and timeouts")
    given = parser.parse_args()
    if given.speed <= 0:
        parser.error(f"--speed: {given.speed} is not above 0")
    cluster = cluster_of(given.run, dict(os.environ))
    asyncio.run(until_told(cluster, given.namespace, given.serves, given.speed))


if __name__ == "__main__":
    main()
