"""The process itself: how it starts without rights, takes a new certificate, and ends.

Checks 3, 33, 103 and 104 of the contract.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from shared import vocabulary
from tests.cluster.access import GPU_APISERVER, User
from tests.cluster.api import Object
from tests.cluster.install import SERVICE_HOST, Catalog, gpu_apiserver
from tests.cluster.keys import Authority, Pair
from tests.cluster.plane import ControlPlane
from tests.cluster.ports import free_ports
from tests.cluster.processes import Process
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

Unique = Callable[[str], str]


@dataclass(slots=True)
class Started:
    """A process of ours and a client that verifies it."""

    process: Process
    port: int
    authority: Authority
    serving: Pair
    session: aiohttp.ClientSession = field(init=False)

    def context(self) -> ssl.SSLContext:
        """A verifying client's."""
        return ssl.create_default_context(cafile=self.authority.files.certificate)

    async def get(self, path: str, token: str = "") -> tuple[int, str]:
        """Status and text; status 0 where nothing answers."""
        url = f"https://127.0.0.1:{self.port}{path}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with self.session.get(
                url, server_hostname=SERVICE_HOST, headers=headers
            ) as answer:
                return answer.status, await answer.text()
        except aiohttp.ClientError:
            return 0, ""

    async def until(self, path: str, status: int) -> str:
        """Wait for a status."""

        async def reached() -> str | None:
            code, text = await self.get(path)
            return (text or "-") if code == status else None

        return await wait_until(reached, f"{path} answers {status}; see {self.process.log}")


OPTIONS = f"/apis/{vocabulary.CATALOG_GROUP_VERSION}/{vocabulary.RESOURCE_OPTIONS}"
RBAC = "rbac.authorization.k8s.io"


def binding(name: str, role: str, user: User) -> Object:
    """Bind a user to a role in kube-system."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": "kube-system"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user.name}],
    }


def cluster_binding(name: str, role: str, user: User) -> Object:
    """Bind a user to a cluster role."""
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user.name}],
    }


async def token_of(cluster: Cluster, unique: Unique) -> str:
    """The token of a service account that may do anything."""
    namespace, name = unique("test"), unique("binding")
    await cluster.create_namespace(namespace)
    account = User(f"system:serviceaccount:{namespace}:default")
    await cluster.admin.create(cluster_binding(name, "cluster-admin", account))
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await cluster.admin.call("POST", path, body)
    token: str = made["status"]["token"]
    return token


Start = Callable[..., Awaitable[Started]]


@pytest.fixture
async def start(
    plane: ControlPlane, catalog: Catalog, unique: Unique, tmp_path: Path
) -> AsyncIterator[Start]:
    """Starts a further process of ours, as any user, with further flags."""
    assert catalog.component.port  # the manifests are applied: roles and kinds are there
    running: list[Started] = []
    access = plane.cluster.access

    async def start(user: User, *flags: str, environ: Mapping[str, str] | None = None) -> Started:
        authority = Authority.create(tmp_path, unique("ca"), access.clock())
        serving = Pair.at(tmp_path, "serving")
        authority.server(serving, (SERVICE_HOST,), access.clock())
        (port,) = free_ports(1, random.Random())
        command = [*gpu_apiserver(access.kubeconfig(user), serving, port), *flags]
        log = plane.at.logs / f"{unique('gpu-apiserver')}.log"
        process = await Process.start("gpu-apiserver", command, log, environ)
        started = Started(process, port, authority, serving)
        started.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=started.context(), force_close=True)
        )
        running.append(started)
        return started

    yield start
    for started in running:
        await started.session.close()
        await started.process.stop()


async def test_check_33_without_any_right_it_lives_is_not_ready_and_says_what_is_missing(
    start: Start, unique: Unique
) -> None:
    started = await start(User(unique("stranger")))

    assert await started.until("/livez", 200) == "ok"
    report = await started.until("/readyz", 500)
    assert "[-]request-header-ca failed: reason withheld" in report
    status, body = await started.get("/apis")
    assert (status, '"kind":"Status"' in body) == (503, True)

    async def told() -> bool:
        return "extension-apiserver-authentication-reader" in started.process.log.read_text()

    await wait_until(told, "the log names the missing binding")
    assert started.process.is_running


async def test_check_103_it_is_ready_once_trust_and_cluster_are_read(start: Start) -> None:
    started = await start(GPU_APISERVER)

    assert await started.until("/readyz", 200) == "ok"


async def test_check_124_proxies_in_the_environment_are_not_asked(start: Start) -> None:
    """Whatever they are called: nobody out there knows the cluster's addresses."""
    asked: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(100))
        writer.close()

    proxy = await asyncio.start_server(record, "127.0.0.1", 0)
    async with proxy:
        url = f"http://somebody:secret@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
        variables = {each: url for name in names for each in (name, name.lower())}
        started = await start(GPU_APISERVER, environ=dict(os.environ) | variables)

        assert await started.until("/readyz", 200) == "ok"
    assert asked == []
    assert "secret" not in started.process.log.read_text()


async def test_check_103_a_cluster_that_cannot_be_read_delays_readiness_only_for_a_while(
    start: Start, cluster: Cluster, unique: Unique
) -> None:
    """Else one missing right would take discovery away, and namespaces could not be deleted."""
    user = User(unique("reader-of-nothing"))
    await cluster.admin.create(
        binding(unique("trust"), "extension-apiserver-authentication-reader", user)
    )
    await cluster.admin.create(cluster_binding(unique("delegator"), "system:auth-delegator", user))
    started = await start(user, "--sync-delay=2")

    assert "[-]informer-sync failed" in await started.until("/readyz?verbose", 500)
    assert await started.until("/readyz", 200) == "ok"
    token = await token_of(cluster, unique)
    assert (await started.get("/apis", token))[0] == 200

    async def refused() -> str | None:
        status, body = await started.get(OPTIONS, token)
        assert status == 503
        return body if "not listed so far" not in body else None

    told = await wait_until(refused, "every collection was refused")
    assert "Forbidden: this server may not list: nodes, pods" in told
    assert user.name not in told
    assert "rights are missing" in started.process.log.read_text()


async def test_check_27_a_service_accounts_token_is_believed_and_a_made_up_one_is_not(
    start: Start, cluster: Cluster, unique: Unique
) -> None:
    started = await start(GPU_APISERVER)
    await started.until("/readyz", 200)

    assert (await started.get(OPTIONS, await token_of(cluster, unique)))[0] == 200
    assert (await started.get(OPTIONS, "made-up"))[0] == 401
    assert (await started.get(OPTIONS))[0] == 403


async def test_check_3_a_certificate_replaced_on_disk_is_taken_up(
    start: Start, plane: ControlPlane
) -> None:
    started = await start(GPU_APISERVER)
    await started.until("/readyz", 200)

    async def shown() -> bytes:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", started.port, ssl=started.context(), server_hostname=SERVICE_HOST
        )
        certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return certificate

    before = await shown()
    started.authority.server(started.serving, (SERVICE_HOST,), plane.cluster.access.clock())

    async def renewed() -> bool:
        return await shown() != before

    await wait_until(renewed, "the new certificate is shown")
    assert (await started.get("/readyz"))[0] == 200


async def test_check_104_asked_to_end_it_serves_on_for_the_delay_and_then_ends(
    start: Start,
) -> None:
    started = await start(GPU_APISERVER, "--shutdown-delay=2")
    await started.until("/readyz", 200)

    os.kill(started.process.pid, signal.SIGTERM)

    report = await started.until("/readyz", 500)
    assert "[-]shutdown failed" in report
    assert (await started.get("/livez"))[0] == 200

    async def ended() -> bool:
        return not started.process.is_running

    await wait_until(ended, "the process has ended")
    assert '"event":"ended"' in started.process.words(3)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        pytest.param([], ["--tls-cert-file", "--tls-private-key-file"], id="no certificate"),
        pytest.param(["--secure-port=0"], ["--secure-port", "'0'"], id="port 0"),
        pytest.param(
            ["--kubeconfig=/none", "--tls-cert-file=/x", "--tls-private-key-file=/x"],
            ["/none"],
            id="a kubeconfig that is not there",
        ),
        pytest.param(
            [
                "--kubeconfig={kubeconfig}",
                "--tls-cert-file=/x.crt",
                "--tls-private-key-file=/x.key",
            ],
            ["certificate /x.crt, key /x.key: ", "No such file"],
            id="a certificate that is not there",
        ),
    ],
)
def test_what_cannot_be_used_is_told_without_a_trace(
    plane: ControlPlane, flags: list[str], told: list[str]
) -> None:
    kubeconfig = plane.cluster.access.kubeconfig(GPU_APISERVER)
    program = gpu_apiserver(kubeconfig, Pair.at(kubeconfig, "x"), 1)[0]
    command = [program, *(flag.format(kubeconfig=kubeconfig) for flag in flags)]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(("gpu-apiserver: ", "--"))
    for word in told:
        assert word in ended.stderr
    assert "Traceback" not in ended.stderr
