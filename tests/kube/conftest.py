"""What the tests of the door to Kubernetes share."""

from __future__ import annotations

import contextlib
import random
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster import components
from tests.cluster.access import ADMIN, Access
from tests.cluster.api import Api
from tests.cluster.build import Binaries
from tests.cluster.components import HOST, SERVING_CA, Layout, Options
from tests.cluster.plane import Component, _prepare, system_clock


@dataclass(slots=True)
class Lone:
    """An etcd and a kube-apiserver that a drill may stop, start and set back."""

    at: Layout
    etcd: Component
    apiserver: Component
    access: Access
    api: Api


@contextlib.asynccontextmanager
async def lone_plane(folder: Path, binaries: Binaries) -> AsyncIterator[Lone]:
    """Start one, in a folder of its own."""
    at = Layout(folder)
    client_ca = _prepare(at, system_clock)
    chance = random.Random()
    tls = ssl.create_default_context(cafile=at.authority(SERVING_CA))
    async with contextlib.AsyncExitStack() as ending:
        etcd = Component(
            "etcd",
            at.logs / "etcd.log",
            2,
            lambda client, peer: components.etcd(binaries, at, client, peer),
            lambda port: f"http://{HOST}:{port}/health",
            tls,
            chance,
        )
        ending.push_async_callback(etcd.stop)
        await etcd.start()
        apiserver = Component(
            "kube-apiserver",
            at.logs / "kube-apiserver.log",
            1,
            lambda port: components.kube_apiserver(binaries, at, Options(), etcd.port, port),
            lambda port: f"https://{HOST}:{port}/readyz",
            tls,
            chance,
        )
        ending.push_async_callback(apiserver.stop)
        await apiserver.start()
        server = f"https://{HOST}:{apiserver.port}"
        access = Access(at.users, server, at.authority(SERVING_CA), client_ca, system_clock)
        api = Api.connect(server, access.tls(ADMIN))
        ending.push_async_callback(api.close)
        yield Lone(at, etcd, apiserver, access, api)


@pytest.fixture(scope="session")
async def lone(binaries: Binaries, run: Path) -> AsyncIterator[Lone]:
    """The plane of the drills. Each drill leaves it running."""
    async with lone_plane(run / "lone", binaries) as plane:
        yield plane
