"""Start and stop a control plane: etcd, kube-apiserver, controller-manager, scheduler and kwok."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import random
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson

from tests.cluster import components
from tests.cluster.access import (
    ADMIN,
    CONTROLLER_MANAGER,
    SCHEDULER,
    Access,
    Clock,
)
from tests.cluster.api import Object
from tests.cluster.build import MODULE, Binaries
from tests.cluster.components import (
    CLIENT_CA,
    FRONT_PROXY,
    FRONT_PROXY_CA,
    HOST,
    SERVING_CA,
    Layout,
    Options,
)
from tests.cluster.keys import Authority, write_service_account_key
from tests.cluster.ports import free_ports
from tests.cluster.processes import Died, Process
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

STAGES = MODULE / "stages"
PORT_ATTEMPTS_MAX = 5
SERVING_NAMES = (
    "localhost",
    "kubernetes.default.svc",
    "kubernetes.default",
    HOST,
    "10.0.0.1",  # the first address of the service range is the API server's
)


class Component:
    """A process that serves on ports of its own, and says when it is ready.

    Its ports are chosen at the first start and kept from then on, since others know them. While
    nobody does, a port that was taken under our hands is answered by choosing again.
    """

    def __init__(
        self,
        name: str,
        log: Path,
        ports: int,
        command: Callable[..., Sequence[str | Path]],
        ready: Callable[[int], str],
        tls: ssl.SSLContext | None,
        chance: random.Random,
    ) -> None:
        self.name = name
        self.ports = free_ports(ports, chance)
        self.process: Process | None = None
        self._log = log
        self._command = command
        self._ready = ready
        self._tls = tls
        self._chance = chance
        self._was_ready = False

    @property
    def port(self) -> int:
        """Where it serves."""
        return self.ports[0]

    async def start(self) -> None:
        """Start it and wait until it is ready.

        Raises:
            Died: when it ended instead.
        """
        for attempt in range(1, PORT_ATTEMPTS_MAX + 1):
            self.process = await Process.start(self.name, self._command(*self.ports), self._log)
            try:
                await wait_until(self._is_ready, f"{self.name} is ready; see {self._log}")
            except Died as death:
                if not death.port_was_taken or self._was_ready or attempt == PORT_ATTEMPTS_MAX:
                    raise
                self.ports = free_ports(len(self.ports), self._chance)
            else:
                self._was_ready = True
                return

    async def stop(self) -> None:
        """Stop it, if it runs."""
        if self.process is not None:
            await self.process.stop()

    async def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            await self.process.kill()

    async def _is_ready(self) -> bool:
        assert self.process is not None
        self.process.check()
        async with aiohttp.ClientSession() as session:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                timeout = aiohttp.ClientTimeout(total=5)
                url = self._ready(self.port)
                async with session.get(url, ssl=self._tls or True, timeout=timeout) as answer:
                    return answer.status == 200
        return False


@dataclass(slots=True)
class ControlPlane:
    """A control plane of our own. `components` are in the order of their start."""

    at: Layout
    cluster: Cluster
    components: dict[str, Component]

    def check(self) -> None:
        """Raise `Died` when a component ended that nobody stopped."""
        for component in self.components.values():
            if component.process is not None:
                component.process.check()

    def audit_events(self) -> list[Object]:
        """What the API server did so far, in order; the plane was started with `audit`."""
        return list(self.each_audit_event())

    def each_audit_event(self) -> Iterator[Object]:
        """The same, one after the other: they may be too many to hold."""
        with self.at.audit_log.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield orjson.loads(line)


def system_clock() -> datetime.datetime:
    """The time of the machine, which is what kube-apiserver checks certificates against."""
    return datetime.datetime.now(datetime.UTC)  # noqa: TID251 - here is where it comes from


@contextlib.asynccontextmanager
async def control_plane(
    folder: Path,
    binaries: Binaries,
    options: Options | None = None,
    clock: Clock = system_clock,
) -> AsyncIterator[ControlPlane]:
    """A control plane for as long as the block runs, with all that it writes in `folder`.

    Raises:
        Died: when a component does not come up; its last words are in the message.
        NeverHappened: when one comes up but does not get ready.
    """
    options = options or Options()
    at = Layout(folder)
    client_ca = _prepare(at, clock)
    chance = random.Random()
    tls = ssl.create_default_context(cafile=at.authority(SERVING_CA))

    def component(
        name: str,
        command: Callable[..., Sequence[str | Path]],
        ready: str,
        ports: int = 1,
    ) -> Component:
        log = at.logs / f"{name}.log"
        return Component(name, log, ports, command, lambda port: ready.format(port), tls, chance)

    async with contextlib.AsyncExitStack() as ending:
        # Left in reverse: kube-apiserver would wait a minute for an etcd that went first.
        etcd = component(
            "etcd",
            lambda client, peer: components.etcd(binaries, at, client, peer),
            f"http://{HOST}:{{}}/health",
            ports=2,
        )
        ending.push_async_callback(etcd.stop)
        await etcd.start()

        apiserver = component(
            "kube-apiserver",
            lambda port: components.kube_apiserver(binaries, at, options, etcd.port, port),
            f"https://{HOST}:{{}}/readyz",
        )
        ending.push_async_callback(apiserver.stop)
        await apiserver.start()

        server = f"https://{HOST}:{apiserver.port}"
        access = Access(at.users, server, at.authority(SERVING_CA), client_ca, clock)
        others = (
            component(
                "kube-controller-manager",
                lambda port: components.kube_controller_manager(
                    binaries, at, options, access.kubeconfig(CONTROLLER_MANAGER), port
                ),
                f"https://{HOST}:{{}}/healthz",
            ),
            component(
                "kube-scheduler",
                lambda port: components.kube_scheduler(
                    binaries, at, access.kubeconfig(SCHEDULER), port
                ),
                f"https://{HOST}:{{}}/healthz",
            ),
            component(
                "kwok",
                lambda port: components.kwok(
                    binaries, options, STAGES, access.kubeconfig(ADMIN), port
                ),
                f"http://{HOST}:{{}}/healthz",
            ),
        )
        for other in others:
            ending.push_async_callback(other.stop)
        async with asyncio.TaskGroup() as starting:
            for other in others:
                starting.create_task(other.start())

        cluster = Cluster(access, binaries.controlplane)
        ending.push_async_callback(cluster.close)
        yield ControlPlane(at, cluster, {one.name: one for one in (etcd, apiserver, *others)})


def _prepare(at: Layout, clock: Clock) -> Authority:
    """Make folders, keys and the audit policy; returns the authority of users."""
    for folder in (at.folder, at.keys, at.users, at.logs, at.data):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    now = clock()
    Authority.create(at.keys, SERVING_CA, now).server(at.serving, SERVING_NAMES, now)
    Authority.create(at.keys, FRONT_PROXY_CA, now).client(at.front_proxy, FRONT_PROXY, (), now)
    write_service_account_key(at.service_accounts)
    at.audit_policy.write_text(json.dumps(components.audit_policy()))
    at.admission.write_text(json.dumps(components.admission(at)))
    at.webhook_user.write_text(json.dumps(components.webhook_user(at)))
    return Authority.create(at.keys, CLIENT_CA, now)
