"""What admission costs against the bare reads that it takes, and a burst of VMs, on a real cluster.

Each review is timed beside two twins, in turn with it: the same reads by a client that does nothing
with what it gets, in one concurrent round; and a server that takes these reads and then answers the
same bytes without a look at them (`tests.bench.constant`), which is the least that a review can
cost on our stack. All of them run on the same loop (uvloop).
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import orjson
import uvloop

from shared import vocabulary as words
from tests.bench.caller import Caller, calling, post
from tests.bench.constant import READY, Constant, Setting, read_at_once
from tests.bench.results import Row, at_most
from tests.catalog.kubevirt import apply_kinds, deploy
from tests.catalog.objects import claim, gpu_class, node
from tests.cluster.access import GPU_APISERVER
from tests.cluster.api import Api, Object, Reply
from tests.cluster.build import built
from tests.cluster.cache import cache_folder, to_terminal
from tests.cluster.components import HOST
from tests.cluster.install import Catalog
from tests.cluster.keys import Pair
from tests.cluster.plane import Component, control_plane
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

Timed = Callable[[], Awaitable[bytes | None]]


def tenant(number: int) -> str:
    """A tenant right below the root."""
    return f"tenant-t{number}"


def device(number: int) -> tuple[str, str]:
    """A class and its resource."""
    return f"device-{number}", f"example.com/device-{number}"


@dataclass(frozen=True, slots=True)
class Review:
    """A review, and the paths that are read to decide about it.

    `path` is that of our webhook, `mark` the one at the server of constant answers.
    """

    path: str
    mark: str
    body: bytes
    reads: Sequence[str]


@dataclass(frozen=True, slots=True)
class Bench:
    """A full cluster, our server on it, and who asks both."""

    cluster: Cluster
    catalog: Catalog
    tls: ssl.SSLContext
    bare: Api

    def calling(self) -> AbstractAsyncContextManager[Caller]:
        """A caller of our webhooks, as kube-apiserver is one."""
        return calling(self.catalog.component.port, self.tls)


def measure(
    runs: int, folder: Path, claims: int = CLAIMS, namespaces: int = NAMESPACES
) -> list[Row]:
    """Reviews beside their twins, and a burst, in one cluster that is thrown away."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(dir=folder.resolve()) as run,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_measure(runs, Path(run), claims, namespaces))


async def _measure(runs: int, folder: Path, claims: int, namespaces: int) -> list[Row]:
    found: dict[str, list[Times]] = {"a VM": [], "an order": []}
    async with _full(folder, claims, namespaces) as bench:
        reviews = [_reviews(run) for run in range(runs)]
        every = [review for each in reviews for review in each.values()]
        async with _constant(bench, every) as constant:
            for each in reviews:
                for what, review in each.items():
                    found[what].append(await _in_turn(bench, review, constant))
        # After all reviews: the cluster is busy for a while with what a burst leaves behind.
        bursts = [await _burst(bench) for _ in range(runs)]
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
        *(row for what, times in found.items() for row in _rows(what, times, size)),
        Row("the burst, until all are answered", tuple(each.seconds for each in bursts), "s"),
        Row("the burst, the longest answer", tuple(each.longest for each in bursts), "s"),
    ]


def _rows(what: str, runs: Sequence[Times], size: str) -> Iterable[Row]:
    """What a sort of review costs against its twins."""
    yield at_most(
        f"{what}: review / its reads by a bare client; {size}",
        [median(run.ours) / median(run.bare) for run in runs],
        RATIO_MAX,
    )
    yield Row(
        f"{what}: review / the same reads behind a server of constant answers",
        tuple(median(run.ours) / median(run.constant) for run in runs),
    )
    yield Row(
        f"{what}: server of constant answers / the same reads by a bare client",
        tuple(median(run.constant) / median(run.bare) for run in runs),
    )
    yield Row(
        f"{what}: review / its reads by a bare client, p99",
        tuple(_p99(run.ours) / _p99(run.bare) for run in runs),
    )
    for name, times in (
        ("review", [run.ours for run in runs]),
        ("server of constant answers", [run.constant for run in runs]),
        ("reads by a bare client", [run.bare for run in runs]),
    ):
        yield Row(f"{what}: {name}, median", tuple(median(each) * 1000 for each in times), "ms")
    for name, seconds in (
        ("our server", [run.busy for run in runs]),
        ("the server of constant answers", [run.constant_busy for run in runs]),
    ):
        each = tuple(busy / ROUNDS * 1000 for busy in seconds)
        yield Row(f"{what}: processor time of {name}, each", each, "ms")


def _reviews(run: int) -> dict[str, Review]:
    """What is timed for one tenant."""
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
        "a VM": Review(words.WEBHOOK_VMIS, f"/{run}/vm", orjson.dumps(vm), of_a_vm),
        "an order": Review(words.WEBHOOK_CLAIMS, f"/{run}/order", orjson.dumps(order), hoster),
    }


@dataclass(slots=True)
class Times:
    """How long each of a run took, in seconds: the review, and its twins.

    `busy` and `constant_busy` are the processor time of the two servers meanwhile: unlike the
    rest they hardly change where other programs share the processors.
    """

    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    constant: list[float] = field(default_factory=list)
    busy: float = 0.0
    constant_busy: float = 0.0


async def _in_turn(bench: Bench, review: Review, constant: Component) -> Times:
    """Time one of each, and so on; `constant` is the server of constant answers."""
    times = Times()
    ours, theirs = post(review.path, review.body), post(review.mark, review.body)
    async with bench.calling() as us, calling(constant.port, bench.tls) as them:
        calls: tuple[tuple[Timed, list[float]], ...] = (
            (lambda: read_at_once(bench.bare, review.reads), times.bare),
            (lambda: us.call(ours), times.ours),
            (lambda: them.call(theirs), times.constant),
        )
        before = _busy(bench.catalog.component), _busy(constant)
        for _ in range(ROUNDS):
            for call, found in calls:
                began = time.perf_counter()
                told = await call()
                found.append(time.perf_counter() - began)
                assert told is None or _ALLOWED in told, told
        times.busy = _busy(bench.catalog.component) - before[0]
        times.constant_busy = _busy(constant) - before[1]
    return times


_ALLOWED = b'"allowed":true'


def _busy(component: Component) -> float:
    """The processor time of a process so far, in seconds."""
    assert component.process is not None
    told = Path(f"/proc/{component.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime; proc(5)


@asynccontextmanager
async def _constant(bench: Bench, reviews: Iterable[Review]) -> AsyncIterator[Component]:
    """Serve what our server answers to some reviews, as constants."""
    async with bench.calling() as us:
        answers = {
            each.mark: Constant(each.reads, (await us.call(post(each.path, each.body))).decode())
            for each in reviews
        }
    at = bench.catalog.plane.at
    serving = Pair.at(at.keys, words.SERVICE_APISERVER)
    kubeconfig = bench.cluster.access.kubeconfig(GPU_APISERVER)

    def command(port: int) -> list[str | Path]:
        told = at.folder / "constant.json"
        files = (str(kubeconfig), str(serving.certificate), str(serving.key))
        Setting(*files, HOST, port, answers).write(told)
        return [sys.executable, "-m", "tests.bench.constant", told]

    component = Component(
        "constant",
        at.logs / "constant.log",
        1,
        command,
        lambda port: f"https://{HOST}:{port}{READY}",
        bench.tls,
        random.Random(),
    )
    await component.start()
    try:
        yield component
    finally:
        await component.stop()


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
            tls = ssl.create_default_context(cafile=catalog.authority)
            bench = Bench(cluster, catalog, tls, cluster.api(GPU_APISERVER))
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
