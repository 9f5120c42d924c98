"""What admission costs against the bare reads that it takes, and a burst of VMs, on a real cluster.

Each review is timed beside its twin: the same reads by a client that does nothing with what it
gets, in one concurrent round, in turn with ours.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import aiohttp

from shared import vocabulary as words
from tests.bench.results import Row, at_most
from tests.catalog.kubevirt import apply_kinds, deploy
from tests.catalog.objects import claim, gpu_class, node
from tests.cluster.access import GPU_APISERVER
from tests.cluster.api import Api, Object, Reply
from tests.cluster.build import built
from tests.cluster.cache import cache_folder, to_terminal
from tests.cluster.components import HOST
from tests.cluster.install import Catalog
from tests.cluster.plane import control_plane
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until

CLAIMS, NAMESPACES, CLASSES = 20_000, 1000, 50
ROUNDS = 200
"""Reviews of each sort in one run."""

BURST = 1000
AT_ONCE = 50
"""Requests that fill the cluster."""

RATIO_MAX = 1.3
UNITS = 1000

Timed = Callable[[], Awaitable[None]]


def tenant(number: int) -> str:
    """A tenant right below the root."""
    return f"tenant-t{number}"


def device(number: int) -> tuple[str, str]:
    """A class and its resource."""
    return f"device-{number}", f"example.com/device-{number}"


@dataclass(frozen=True, slots=True)
class Bench:
    """A full cluster, our server on it, and who asks both."""

    cluster: Cluster
    catalog: Catalog
    session: aiohttp.ClientSession
    ours: ssl.SSLContext
    bare: Api

    async def review(self, path: str, body: Object) -> None:
        """One review at our server, as kube-apiserver would ask for it."""
        url = f"https://{HOST}:{self.catalog.component.port}{path}"
        async with self.session.post(url, json=body, ssl=self.ours) as answer:
            told = await answer.json()
        assert told["response"]["allowed"], told

    async def read(self, paths: Sequence[str]) -> None:
        """The same reads, at once, with nothing made of them."""
        async with asyncio.TaskGroup() as tasks:
            replies = [tasks.create_task(self.bare.request("GET", path)) for path in paths]
        assert {reply.result().status for reply in replies} <= {200, 404}


def measure(
    runs: int, folder: Path, claims: int = CLAIMS, namespaces: int = NAMESPACES
) -> list[Row]:
    """Reviews beside their twins, and a burst, in one cluster that is thrown away."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.resolve()) as run:
        return asyncio.run(_measure(runs, Path(run), claims, namespaces))


async def _measure(runs: int, folder: Path, claims: int, namespaces: int) -> list[Row]:
    ratios: dict[str, list[float]] = {"a VM": [], "an order": []}
    tails: dict[str, list[float]] = {"a VM": [], "an order": []}
    times: dict[str, list[float]] = {name: [] for name in ("a VM", "an order", "7 reads")}
    bursts: list[Burst] = []
    async with _full(folder, claims, namespaces) as bench:
        for run in range(runs):
            for what, (ours, twin) in _pairs(bench, run).items():
                asked, bare = await _in_turn(ours, twin)
                ratios[what].append(median(asked) / median(bare))
                tails[what].append(_p99(asked) / _p99(bare))
                times[what].append(median(asked) * 1000)
                if what == "a VM":
                    times["7 reads"].append(median(bare) * 1000)
            bursts.append(await _burst(bench))
    size = f"{claims} claims, {namespaces} namespaces"
    return [
        Row(
            f"of {BURST} VMs at once, answered by us in time",
            tuple(float(burst.answered) for burst in bursts),
            "",
            str(BURST),
            all(burst.answered == BURST for burst in bursts),
        ),
        Row(
            f"of {BURST} VMs at once, let in",
            tuple(float(burst.let_in) for burst in bursts),
            "",
            str(BURST),
            all(burst.let_in == BURST for burst in bursts),
        ),
        *(
            at_most(f"{what}: review / its reads by a bare client; {size}", ratios[what], RATIO_MAX)
            for what in ratios
        ),
        *(Row(f"{what}: the same, p99", tuple(tails[what])) for what in tails),
        *(Row(f"{what}, median", tuple(times[what]), "ms") for what in times),
        Row("the burst, until all are answered", tuple(each.seconds for each in bursts), "s"),
        Row("the burst, the longest answer", tuple(each.longest for each in bursts), "s"),
    ]


def _pairs(bench: Bench, run: int) -> dict[str, tuple[Timed, Timed]]:
    """What is timed, each with its twin, for one tenant."""
    namespace = tenant(run)
    hoster = [
        f"/api/v1/namespaces/{words.NAMESPACE}/configmaps/{words.SETTINGS_NAME}",
        f"/apis/{words.GROUP_VERSION}/{words.RESOURCE_CLASSES}",
        f"/apis/{words.KUBEVIRT_GROUP_VERSION}/kubevirts",
        f"/api/v1/namespaces/{namespace}",
        "/api/v1/namespaces/tenant-root",
    ]
    of_a_vm = [
        *hoster,
        f"/apis/{words.GROUP_VERSION}/namespaces/{namespace}/{words.RESOURCE_CLAIMS}/claim-0",
        f"/apis/{words.KUBEVIRT_GROUP_VERSION}/namespaces/{namespace}/virtualmachines/train",
    ]
    vm = _review(words.KUBEVIRT_GROUP, words.KIND_VMI, _vmi(namespace, "train"))
    order = _review(words.GROUP, words.KIND_CLAIM, claim(namespace, "new", device(0)[0], 1))
    return {
        "a VM": (
            lambda: bench.review(words.WEBHOOK_VMIS, vm),
            lambda: bench.read(of_a_vm),
        ),
        "an order": (
            lambda: bench.review(words.WEBHOOK_CLAIMS, order),
            lambda: bench.read(hoster),
        ),
    }


async def _in_turn(ours: Timed, twin: Timed) -> tuple[list[float], list[float]]:
    """How long each takes, in seconds: one of ours, one of the twin's, and so on."""
    asked: list[float] = []
    bare: list[float] = []
    for _ in range(ROUNDS):
        for call, found in ((twin, bare), (ours, asked)):
            began = time.perf_counter()
            await call()
            found.append(time.perf_counter() - began)
    return asked, bare


@dataclass(frozen=True, slots=True)
class Burst:
    """VMs made at once.

    Attributes:
        seconds: until all are answered.
        longest: the longest answer, in seconds.
        answered: how many our webhooks decided about, also those that they refused.
        let_in: how many were made.
    """

    seconds: float
    longest: float
    answered: int
    let_in: int


async def _burst(bench: Bench) -> Burst:
    """Make VMs at once, as somebody whom the API server itself does not hold back."""
    admin, namespace = bench.cluster.admin, tenant(0)
    path = await admin.path(f"{words.KUBEVIRT_GROUP_VERSION}/{words.KIND_VMI}", namespace)

    async def make(number: int) -> tuple[float, Reply]:
        body = _vmi(namespace, f"burst-{number}", {words.ANNOTATION_CLASSES: _ENTRY})
        began = time.perf_counter()
        reply = await admin.request("POST", path, body)
        return time.perf_counter() - began, reply

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        made = [tasks.create_task(make(number)) for number in range(BURST)]
    seconds = time.perf_counter() - began
    await admin.call("DELETE", path)
    replies = [task.result()[1] for task in made]
    let_in = sum(reply.status == 201 for reply in replies)
    refused = sum(reply.status != 201 and _REFUSED in reply.text for reply in replies)
    return Burst(seconds, max(task.result()[0] for task in made), let_in + refused, let_in)


_REFUSED = "denied the request"
"""In the answer where it is a webhook's, and not about a webhook that gave none."""

_ENTRY = f'[{{"className":"{device(0)[0]}","count":2}}]'


def _vmi(namespace: str, name: str, annotations: dict[str, str] | None = None) -> Object:
    """A VM's instance that names a class, and a claim unless told otherwise."""
    both = {words.ANNOTATION_CLASSES: _ENTRY, words.ANNOTATION_CLAIMS: '["claim-0"]'}
    owner = {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": words.KIND_VM,
        "name": name,
        "uid": "11111111-2222-4333-8444-555555555555",
        "controller": True,
    }
    return {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": words.KIND_VMI,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": both if annotations is None else annotations,
            **({"ownerReferences": [owner]} if annotations is None else {}),
        },
        "spec": {"domain": {"devices": {}}},
    }


def _review(group: str, kind: str, thing: Object) -> Object:
    metadata = thing["metadata"]
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "review-1",
            "kind": {"group": group, "version": "v1", "kind": kind},
            "operation": "CREATE",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "userInfo": {"username": "somebody"},
            "object": thing,
        },
    }


def _p99(found: Sequence[float]) -> float:
    return quantiles(found, n=100)[-1]


@asynccontextmanager
async def _full(folder: Path, claims: int, namespaces: int) -> AsyncIterator[Bench]:
    """A cluster with so many claims and namespaces, and our webhooks in force."""
    binaries = built(cache_folder(os.environ), to_terminal)
    async with control_plane(folder, binaries) as plane:
        cluster, catalog = plane.cluster, Catalog(plane)
        try:
            await apply_kinds(cluster)
            await catalog.apply_base()
            await _fill(cluster, claims, namespaces)
            await catalog.install()
            await catalog.enforce()
            ours = ssl.create_default_context(cafile=catalog.authority)
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                bench = Bench(cluster, catalog, session, ours, cluster.api(GPU_APISERVER))
                await _until_orders_are_taken(bench)
                yield bench
        finally:
            await catalog.stop()


async def _fill(cluster: Cluster, claims: int, namespaces: int) -> None:
    """All that there is; claims over all tenants, each without a node."""
    admin = cluster.admin
    names = [tenant(number) for number in range(namespaces)]
    classes = [device(number) for number in range(CLASSES)]
    await deploy(cluster, [resource for _, resource in classes])
    await _make(admin, (gpu_class(name, resource) for name, resource in classes))
    made: Object = {"apiVersion": "v1", "kind": "Namespace"}
    await _make(admin, ({**made, "metadata": {"name": each}} for each in ("tenant-root", *names)))
    await _make(
        admin,
        (
            claim(names[number % namespaces], f"claim-{number // namespaces}", device(1)[0], 1)
            for number in range(claims)
        ),
    )
    await admin.create(node("gpu-1", device(0)[1], UNITS))


async def _make(admin: Api, things: Iterable[Object]) -> None:
    """Create things, some at once."""
    waiting = iter(things)

    async def some() -> None:
        for thing in waiting:
            await admin.create(thing)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(some())


async def _until_orders_are_taken(bench: Bench) -> None:
    """Wait until the server has read all of it: before that it refuses orders."""
    order = claim(tenant(0), "probe", device(0)[0], 1)
    path = await bench.cluster.admin.path(f"{words.GROUP_VERSION}/{words.KIND_CLAIM}", tenant(0))

    async def taken() -> bool:
        query = {"dryRun": "All"}
        return (await bench.cluster.admin.request("POST", path, order, query=query)).status == 201

    await wait_until(taken, "an order is taken")
