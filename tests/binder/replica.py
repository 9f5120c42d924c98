"""One replica of the binder, and what the API server remembers of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from shared import vocabulary
from tests.cluster.access import GPU_BINDER, User
from tests.cluster.api import Object
from tests.cluster.binder import BRISK, PROGRAM, SYSTEM, Binder
from tests.cluster.components import HOST
from tests.cluster.plane import ControlPlane
from tests.cluster.processes import is_stopped
from tests.cluster.waiting import wait_until

LEASE = "coordination.k8s.io/v1/Lease"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


class Replica:
    """A process that can be stopped, continued and killed.

    Args:
        plane: where it works.
        name: its log's, and a group of its user by which the audit log knows it.
        user: who it is.
        port: of a relay to the API server; straight without.
        program: what to start instead of our binder.
        flags: how much of a hurry it is in.
    """

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        user: User,
        port: int | None,
        program: Sequence[str | Path],
        flags: Sequence[str],
    ) -> None:
        self.plane = plane
        self.name = name
        kubeconfig = plane.cluster.access.kubeconfig(user)
        if port is not None:
            kubeconfig = _through(kubeconfig, port)
        self._binder = Binder(plane, name, (*flags, "--log-level=debug"), kubeconfig, program)
        self._is_stopped = False
        self._found = 0
        """The epoch that was there before it started."""

    async def start(self) -> None:
        """Start it, and wait until it is ready to lead."""
        self._found = await epoch(self.plane)
        await self._binder.start()

    async def end(self) -> None:
        """End it in its own way."""
        if self._is_stopped:
            self.go_on()
        await self._binder.stop()

    async def kill(self) -> None:
        """End it as a crash would."""
        await self._binder.component.kill()

    def stop(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)
        self._is_stopped = True

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        self._is_stopped = False

    async def until_stopped(self) -> None:
        """Wait until it has stopped itself."""

        async def stopped() -> bool:
            return is_stopped(self._pid)

        await wait_until(stopped, f"{self.name} stops; see {self.log}")
        self._is_stopped = True

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self._pid, number)

    @property
    def _pid(self) -> int:
        process = self._binder.component.process
        assert process is not None
        return process.pid

    @property
    def port(self) -> int:
        """Where it tells of its health, and its metrics."""
        return self._binder.component.port

    async def figures(self) -> dict[str, float]:
        """Its metrics, by name with labels."""
        url = f"http://{HOST}:{self.port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            lines = [line for line in (await answer.text()).splitlines() if line[:1] != "#"]
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    async def until_in_office(self, above: int = 0) -> int:
        """Wait until it leads in a term of its own above this one; returns its epoch."""
        above = max(above, self._found)

        async def begun() -> int | None:
            figures = await self.figures()
            term = int(figures["gpu_binder_epoch"])
            leads = figures["gpu_binder_leader"] == 1.0 and figures["gpu_binder_passes_total"] > 0
            return term if leads and term > above else None

        return await wait_until(begun, f"{self.name} leads above {above}; see {self.log}")

    @property
    def log(self) -> Path:
        """What it says."""
        return self.plane.at.logs / f"{self.name}.log"

    def requests(self) -> list[Object]:
        """Everything that it asked of the API server and was answered, in order."""
        return [
            event
            for event in self.plane.audit_events()
            if self.name in event["user"].get("groups", ())
        ]

    def writes(self, *, leases: bool = False) -> list[str]:
        """Verb, path and code of its writes, the Lease's left out unless asked for."""
        return [
            f"{event['verb']} {event['requestURI']} {event['responseStatus']['code']}"
            for event in self.requests()
            if event["verb"] in WRITES
            and (leases or event["objectRef"]["resource"] != "leases")
            and event["stage"] == "ResponseComplete"
        ]


async def epoch(plane: ControlPlane) -> int:
    """The epoch that the GPUSystem has, 0 where there is none."""
    found = await plane.cluster.admin.find(SYSTEM, vocabulary.SYSTEM_NAME)
    value: Any = (found or {}).get("status", {}).get("epoch", 0)
    return int(value)


async def holder(plane: ControlPlane) -> str:
    """Who holds the Lease."""
    lease = await plane.cluster.admin.find(LEASE, vocabulary.LEASE_NAME, vocabulary.NAMESPACE)
    return str((lease or {}).get("spec", {}).get("holderIdentity", ""))


def _through(kubeconfig: Path, port: int) -> Path:
    """The same credentials, with the server reached at another port of this machine."""
    content = json.loads(kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = f"https://{HOST}:{port}"
    path = kubeconfig.with_suffix(f".{port}")
    path.touch(mode=0o600)
    path.write_text(json.dumps(content))
    return path


Start = Callable[..., Awaitable[Replica]]
"""Starts a replica: `port` is a relay's, `mind` that of `tests.binder.booker`, or its own."""


@contextlib.asynccontextmanager
async def replicas(
    plane: ControlPlane, unique: Callable[[str], str], flags: Sequence[str] = BRISK
) -> AsyncIterator[Start]:
    """Starts replicas, each with a certificate of its own, by which the audit log tells them."""
    running: list[Replica] = []

    async def start(port: int | None = None, mind: str = "") -> Replica:
        name = unique("replica")
        user = User(GPU_BINDER.name, (*GPU_BINDER.groups, name))
        simple = [sys.executable, "-m", "tests.binder.booker", mind]
        replica = Replica(plane, name, user, port, simple if mind else [PROGRAM], flags)
        running.append(replica)
        await replica.start()
        return replica

    yield start
    for replica in running:
        await replica.end()
