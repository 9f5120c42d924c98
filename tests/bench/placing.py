"""How fast gated pods are placed on a real API server, against a client that only sends the writes.

VMs wait at the gate until the real process takes office. Its log tells when its first pass began
and how long it decided, a watch when the last pod was released. The twin sends the writes that the
same decisions make of equal VMs, made before, as the same account, in the same order and as many
at a time; it reads nothing, follows nothing, and decides nothing. The real scheduler binds what
was released, of both.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson
import uvloop

from binder.actions import BookClaim, StartPod, Work
from binder.agenda import Agenda
from binder.plan import View, plan
from binder.rendering import Create, Merge, Patch, render
from shared import vocabulary as words
from shared.core.annotations import render_record
from shared.core.cluster import ClusterState
from shared.core.model import Put, RecordEntry
from shared.core.sites import Sites
from shared.kube.collections import PLACING
from tests.bench.results import Row
from tests.binder.replica import epoch
from tests.catalog.objects import gpu_class, namespace
from tests.cluster.access import GPU_BINDER
from tests.cluster.api import JSON_PATCH, MERGE, Api, Object, Reply
from tests.cluster.binder import Binder
from tests.cluster.build import built
from tests.cluster.cache import cache_folder, to_terminal
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until
from tests.kubevirt import kinds, nodes
from tests.kubevirt import words as w
from tests.kubevirt.objects import condition, uid_of
from tests.policies.scene import owner

SETS: Final = 200
UNITS: Final = 8
"""Of the device on each node; each VM takes one."""
AT_ONCE: Final = 32
"""As many requests as the binder's writer has under way."""
RATIO_MIN: Final = 0.8
POD: Final = "v1/Pod"


@dataclass(frozen=True, slots=True)
class Fleet:
    """VMs of one run, which wait at the gate; everything is named after it."""

    plane: ControlPlane
    name: str

    @property
    def namespace(self) -> str:
        """A tenant's."""
        return f"tenant-{self.name}"

    @property
    def resource(self) -> str:
        """The device, which only its nodes have."""
        return f"example.com/{self.name}"

    async def make(self, sets: int) -> None:
        """A class, nodes with exactly as many units as VMs need, and the VMs."""
        admin = self.plane.cluster.admin
        await admin.create(gpu_class(self.name, self.resource))
        await admin.create(namespace(self.namespace))
        names = [f"{self.name}-{number}" for number in range(-(-sets // UNITS))]
        for each in names:
            await admin.create(nodes.node(each, {self.resource: UNITS}))
        await at_once(self._vm(number) for number in range(sets))

        async def ready() -> bool:
            found = [await admin.get(w.NODE, each) for each in names]
            return all(
                condition(each, "Ready").get("status") == "True" and not each["spec"].get("taints")
                for each in found
            )

        await wait_until(ready, "the nodes take pods")

    async def _vm(self, number: int) -> None:
        """An instance as it was admitted, and its launcher as it was made."""
        admin, name = self.plane.cluster.admin, f"vm-{number}"
        entry = RecordEntry("", 0, self.name, self.resource, 1)
        asked = [{"className": self.name, "count": 1}]
        annotations = {
            words.ANNOTATION_CLASSES: orjson.dumps(asked).decode(),
            words.ANNOTATION_ATTACHMENTS: render_record((entry,)),
        }
        metadata: Object = {"name": name, "namespace": self.namespace}
        vmi = await admin.create(
            {
                "apiVersion": words.KUBEVIRT_GROUP_VERSION,
                "kind": words.KIND_VMI,
                "metadata": {**metadata, "annotations": annotations},
                "spec": {"domain": {"devices": {}}},
            }
        )
        uid = uid_of(vmi)
        amounts = {"cpu": "100m", "memory": "128Mi", self.resource: "1"}
        container = {"name": "compute", "image": "none"}
        pod = await admin.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **metadata,
                    "labels": {words.LABEL_KUBEVIRT: words.LAUNCHER},
                    "annotations": {words.ANNOTATION_LAUNCHER: uid},
                    "ownerReferences": [
                        owner(words.KUBEVIRT_GROUP_VERSION, words.KIND_VMI, name, uid)
                    ],
                },
                "spec": {
                    "schedulingGates": [{"name": words.GATE}],
                    "nodeSelector": {words.LABEL_KUBEVIRT_SCHEDULABLE: "true"},
                    "containers": [
                        {**container, "resources": {"requests": amounts, "limits": amounts}}
                    ],
                },
            }
        )
        told = {"status": {"phase": "Scheduling", "activePods": {uid_of(pod): ""}}}
        await admin.patch(w.VMI, name, told, self.namespace)

    async def until_bound(self) -> None:
        """Wait until the scheduler has put every pod on the node that it is pinned to."""
        admin = self.plane.cluster.admin

        async def bound() -> bool:
            pods = await admin.list(POD, self.namespace)
            return all(_pinned(pod) == pod["spec"].get("nodeName", "nowhere") for pod in pods)

        await wait_until(bound, f"the pods of {self.name} are bound")


@dataclass(frozen=True, slots=True)
class Run:
    """One run; sets per second, and what the binder's passes say of themselves."""

    ours: float
    twin: float
    deciding: float
    passes: int


def measure(runs: int, folder: Path, sets: int = SETS) -> list[Row]:
    """Place VMs in a cluster that is thrown away, and let the twin do the same."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        TemporaryDirectory(dir=folder.resolve()) as run,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,  # the binder has it too
    ):
        found = runner.run(_measure(runs, Path(run), sets))

    def of(figure: Callable[[Run], float]) -> tuple[float, ...]:
        return tuple(map(figure, found))

    ratios = of(lambda run: run.ours / run.twin)
    holds = sorted(ratios)[len(ratios) // 2] >= RATIO_MIN
    return [
        Row(f"{sets} VMs placed: to the twin's rate", ratios, "", f"at least {RATIO_MIN}", holds),
        Row(f"{sets} VMs placed by the binder", of(lambda run: run.ours), "sets/s"),
        Row(f"{sets} VMs placed by the twin", of(lambda run: run.twin), "sets/s"),
        Row("of it the binder decides", of(lambda run: run.deciding), "s"),
        Row("in so many passes", of(lambda run: run.passes)),
    ]


async def _measure(runs: int, folder: Path, sets: int) -> list[Run]:
    async with _installed(folder) as plane:
        await _ours(Fleet(plane, "warm-ours"), sets // 4)
        await _twins(Fleet(plane, "warm-twins"), sets // 4)
        found = []
        for run in range(runs):
            ours, twins = Fleet(plane, f"ours-{run}"), Fleet(plane, f"twins-{run}")
            if run % 2:
                twin = await _twins(twins, sets)
                placed = await _ours(ours, sets)
            else:
                placed = await _ours(ours, sets)
                twin = await _twins(twins, sets)
            deciding = sum(each.deciding for each in placed.passes)
            found.append(Run(sets / placed.seconds, sets / twin, deciding, len(placed.passes)))
        return found


@asynccontextmanager
async def _installed(folder: Path) -> AsyncIterator[ControlPlane]:
    """A control plane with kinds, rights, settings and policies, and nobody of ours running."""
    async with control_plane(folder, built(cache_folder(os.environ), to_terminal)) as plane:
        catalog = Catalog(plane)
        await kinds.install(plane.cluster)
        await catalog.apply_base()
        await catalog.apply_policies()
        yield plane


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass as the binder's log has it: POSIX seconds, and seconds."""

    began: float
    deciding: float


@dataclass(frozen=True, slots=True)
class Placed:
    """The passes that began before the last pod was released, and how long all of it took."""

    passes: Sequence[Pass]
    seconds: float


async def _ours(fleet: Fleet, sets: int) -> Placed:
    """Let a binder place them."""
    await fleet.make(sets)
    name = f"binder-{fleet.name}"
    log = fleet.plane.at.logs / f"{name}.log"
    binder = Binder(fleet.plane, name, ["--log-format=json"])
    try:
        async with asyncio.TaskGroup() as tasks:
            released = tasks.create_task(_released(fleet, sets))
            await binder.start()
        await fleet.until_bound()
    finally:
        await binder.stop()
    end = released.result()
    passes = [each for each in _passes(log) if each.began < end]
    return Placed(passes, end - passes[0].began)


async def _released(fleet: Fleet, sets: int) -> float:
    """When the last of the pods was released, in POSIX seconds.

    This watch is all that the API server is asked meanwhile: more would cost it something.
    """
    names: set[str] = set()
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        fleet.plane.cluster.admin.watch(POD, fleet.namespace) as events,
    ):
        async for event in events:
            if _pinned(event["object"]):
                names.add(event["object"]["metadata"]["name"])
            if len(names) == sets:
                return time.time_ns() / 1e9
    raise AssertionError(f"the watch ended when {len(names)} of {sets} pods were released")


def _passes(log: Path) -> list[Pass]:
    lines = (line for line in log.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n")
    found = (orjson.loads(line) for line in lines if line[:1] == b"{")
    return [_pass(line) for line in found if line.get("event") == "pass"]


def _pass(line: dict[str, Any]) -> Pass:
    ended = datetime.fromisoformat(line["timestamp"]).timestamp()
    return Pass(ended - line["seconds"], line["deciding_seconds"])


async def _twins(fleet: Fleet, sets: int) -> float:
    """Send what would be written of them, and nothing else; returns the seconds."""
    await fleet.make(sets)
    cluster = fleet.plane.cluster
    works = await _works(fleet)
    assert len(works) == sets, f"{len(works)} of {sets} have a place"
    term = await epoch(fleet.plane)
    twin = _Twin(cluster.api(GPU_BINDER), term, asyncio.Semaphore(AT_ONCE))
    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for work in works:
            tasks.create_task(twin.send(work))
    took = time.perf_counter() - began
    await fleet.until_bound()
    return took


async def _works(fleet: Fleet) -> list[Work]:
    """What the binder decides about them."""
    state = ClusterState(Sites())
    admin = fleet.plane.cluster.admin
    for each in PLACING:
        for raw in (await admin.call("GET", each.path))["items"]:
            state.apply(Put(each.decode(raw, lambda *_: None)))
    works = plan(
        View(state, Agenda(state)), datetime.fromtimestamp(time.time_ns() / 1e9, UTC)
    ).works
    return [
        work
        for work in works
        if any(isinstance(each, StartPod) for step in work.steps for each in step)
    ]


@dataclass(frozen=True, slots=True)
class _Twin:
    """Sends writes as the binder does: all sets begun at once, so many requests under way."""

    bare: Api
    term: int
    free: asyncio.Semaphore

    async def send(self, work: Work) -> None:
        """The writes of one set, one after the other; only the version is taken from an answer."""
        version = ""
        for step in work.steps:
            for action in step:
                if isinstance(action, BookClaim):
                    action = replace(action, claim=replace(action.claim, version=version))
                match render(action, self.term):
                    case Create(path, body):
                        reply = await self._request("POST", path, body)
                        version = reply.body["metadata"]["resourceVersion"]
                    case Merge(path, body, seen):
                        body = {**body, "metadata": {"resourceVersion": seen}}
                        await self._request("PATCH", path, body, MERGE)
                    case Patch(path, operations):
                        await self._request("PATCH", path, list(operations), JSON_PATCH)
                    case other:
                        raise AssertionError(f"{other}: no write of a set that starts")

    async def _request(
        self, method: str, path: str, body: object, content: str = "application/json"
    ) -> Reply:
        async with self.free:
            headers = {"Content-Type": content}
            reply = await self.bare.request(method, path, body, headers=headers)
        assert reply.status in {200, 201}, reply.text
        return reply


async def at_once(works: Iterable[Any]) -> None:
    """Some works at a time, each begun when another has ended."""
    waiting: Iterator[Any] = iter(works)

    async def some() -> None:
        for work in waiting:
            await work

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(some())


def _pinned(pod: Object) -> str:
    """The node of a pod that was released, else empty."""
    if pod["spec"].get("schedulingGates"):
        return ""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return str(terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]) if terms else ""
