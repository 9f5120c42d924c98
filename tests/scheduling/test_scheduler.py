"""Whether a node takes a pod: we decide as the real kube-scheduler does (rule 7.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from shared.core.cluster import ClusterState
from shared.core.demand import Demand, Part
from shared.core.eligibility import fits
from shared.core.model import GpuClass, Put, Volume
from shared.core.sites import Sites
from shared.kube import decode
from tests.cluster.api import Api, Object
from tests.cluster.session import Cluster
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until
from tests.scheduling.table import GPU, Case, Objects, cases, pinned

AT_ONCE = 12
TABLE = cases()


@dataclass(frozen=True)
class Verdicts:
    """Nodes by short name: bound by the scheduler, chosen by us, refused once pinned."""

    scheduler: frozenset[str]
    ours: frozenset[str]
    pinned_waits: frozenset[str]


def _fail(problem: str) -> None:
    raise AssertionError(problem)


@dataclass
class Outcomes:
    """What the scheduler made of pods, as a watch tells it."""

    bound: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def follow(self, api: Api) -> None:
        """Take in what a watch tells, until cancelled."""
        listed = await api.call("GET", await api.path("v1/Pod"), query={"limit": "1"})
        since = listed["metadata"]["resourceVersion"]
        async with api.watch("v1/Pod", resourceVersion=since) as events:
            async for event in events:
                await self._see(event["object"])

    async def _see(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        conditions = pod.get("status", {}).get("conditions", ())
        if pod.get("spec", {}).get("nodeName"):
            self.bound.add(uid)
        elif any(each.get("reason") == "Unschedulable" for each in conditions):
            self.refused.add(uid)
        async with self.news:
            self.news.notify_all()

    async def is_bound(self, pod: Object, *, expected: bool) -> bool:
        """What became of a pod.

        One that is to be bound may be tried before the scheduler has seen all that there is, so
        that its first refusal is not the last word. Who expects a refusal sees to it before that
        the scheduler has seen all.
        """
        uid = pod["metadata"]["uid"]

        def is_told() -> bool:
            return uid in self.bound or (not expected and uid in self.refused)

        async with asyncio.timeout(DEADLINE_SECONDS), self.news:
            await self.news.wait_for(is_told)
        return uid in self.bound


@dataclass
class Trial:
    """One case on the real control plane."""

    case: Case
    objects: Objects
    cluster: Cluster
    outcomes: Outcomes

    @property
    def api(self) -> Api:
        return self.cluster.admin

    async def verdicts(self) -> Verdicts:
        bound, chosen, waits = set[str](), set[str](), set[str]()
        async with self._world():
            sites, volumes = await self._sites()
            for node in self.case.nodes:
                made = await self.api.create(self.objects.pod(node))
                if _chooses(sites, volumes, made, self.objects.names[node]):
                    chosen.add(node)
                if await self._is_bound(made, expected=node in self.case.takes):
                    bound.add(node)
            for node in [*self.case.pinned_waits, *sorted(chosen & bound)[:1]]:
                tied = pinned(self.objects.pod(node, "pin"), self.objects.names[node])
                made = await self.api.create(tied)
                if not await self._is_bound(made, expected=node not in self.case.pinned_waits):
                    waits.add(node)
        return Verdicts(frozenset(bound), frozenset(chosen), frozenset(waits))

    async def _is_bound(self, pod: Object, *, expected: bool) -> bool:
        """What becomes of a pod, which then is removed."""
        found = await self.outcomes.is_bound(pod, expected=expected)
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        await self.api.delete("v1/Pod", name, namespace, gracePeriodSeconds="0")
        return found

    @asynccontextmanager
    async def _world(self) -> AsyncIterator[None]:
        """All that there is for the case, known to the scheduler as far as can be seen."""
        for name, labels in self.objects.namespaces():
            await self.cluster.create_namespace(name, labels)
        nodes = list(self.objects.nodes())
        volumes = list(self.objects.volumes())
        try:
            for node in nodes:
                await self.api.create(node)
            for volume, claim in volumes:
                await self.api.create(volume)
                await self.api.create(claim)
            await wait_until(self._is_ready, f"{self.case.name}: nodes and volumes are ready")
            for name in self.case.nodes:
                # Where this one is bound, the scheduler knows the node with all that it has.
                if name not in self.case.takes:
                    made = await self.api.create(self.objects.bare(name))
                    await self._is_bound(made, expected=True)
            for pod in self.objects.there():
                made = await self.api.create(pod)
                if made["metadata"].get("finalizers"):
                    where = made["metadata"]["name"], made["metadata"]["namespace"]
                    await self.api.delete("v1/Pod", *where, gracePeriodSeconds="0")
            yield
        finally:
            await self._clear(nodes, volumes)

    async def _is_ready(self) -> bool:
        """Whether the nodes are ready and the volumes bound."""
        mine = {"labelSelector": f"case={self.objects.names['case']}"}
        nodes = await self.api.list("v1/Node", **mine)
        claims = await self.api.list("v1/PersistentVolumeClaim", self.objects.names["own"], **mine)
        taints = [taint["key"] for node in nodes for taint in node["spec"].get("taints", ())]
        return all(decode.node(node, _fail).ready for node in nodes) and (
            "node.kubernetes.io/not-ready" not in taints
            and all(claim["status"]["phase"] == "Bound" for claim in claims)
        )

    async def _clear(self, nodes: list[Object], volumes: list[tuple[Object, Object]]) -> None:
        for pod in self.objects.there():
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            if await self.api.find("v1/Pod", name, namespace):
                free = {"metadata": {"finalizers": None}}
                await self.api.patch("v1/Pod", name, free, namespace)
        for name, _ in self.objects.namespaces():
            await self.api.delete("v1/Namespace", name)
        for each in (*nodes, *(volume for volume, _ in volumes)):
            kind, name = f"v1/{each['kind']}", each["metadata"]["name"]
            if await self.api.find(kind, name):
                await self.api.delete(kind, name)

    async def _sites(self) -> tuple[Sites, tuple[Volume, ...]]:
        """What we read of the case."""
        sites = Sites()
        state = ClusterState(sites)
        state.apply(Put(GpuClass("gpu", GPU)))
        for name, _ in self.objects.namespaces():
            raw = await self.api.get("v1/Namespace", name)
            state.apply(Put(decode.namespace(raw, _fail, placing=True)))
        for pod in self.objects.there():
            where = pod["metadata"]["name"], pod["metadata"]["namespace"]
            state.apply(Put(decode.pod(await self.api.get("v1/Pod", *where), _fail, placing=True)))
        for node in self.objects.nodes():
            raw = await self.api.get("v1/Node", node["metadata"]["name"])
            state.apply(Put(decode.node(raw, _fail)))
        names = [volume["metadata"]["name"] for volume, _ in self.objects.volumes()]
        raws = [await self.api.get("v1/PersistentVolume", name) for name in names]
        return sites, tuple(decode.volume(raw, _fail) for raw in raws)


def _chooses(sites: Sites, volumes: tuple[Volume, ...], raw: Object, node: str) -> bool:
    """Whether we would choose a node for a pod as it is stored; launchers have an owner."""
    owner = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "controller": True,
        "uid": "u",
    }
    raw = {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}
    pod = decode.pod(raw, _fail, placing=True)
    assert pod.placing is not None
    part = Part("gpu", GPU, 1, pod.placing.tolerations)  # the pod has those of its class
    return fits(Demand((part,), pod, volumes), node, sites)


@pytest.fixture(scope="module")
async def verdicts(cluster: Cluster) -> dict[str, Verdicts | Exception]:
    """Of every case; several at once, since most of the time is waiting."""
    found: dict[str, Verdicts | Exception] = {}
    places = asyncio.Semaphore(AT_ONCE)
    outcomes = Outcomes()
    await cluster.create_namespace("fit-shared")
    names: Callable[[str], str] = _Names().make

    async def decide(case: Case) -> None:
        async with places:
            objects = case.objects(names, "fit-shared")
            try:
                found[case.name] = await Trial(case, objects, cluster, outcomes).verdicts()
            except Exception as error:  # noqa: BLE001 - of one case; its test shows it
                found[case.name] = error

    async with asyncio.TaskGroup() as around:
        watching = around.create_task(outcomes.follow(cluster.admin))
        async with asyncio.TaskGroup() as tasks:
            for case in TABLE:
                tasks.create_task(decide(case))
        watching.cancel()
    await cluster.admin.delete("v1/Namespace", "fit-shared")
    return found


@dataclass
class _Names:
    """Names that only this module has: nodes are everybody's."""

    count: int = 0

    def make(self, stem: str) -> str:
        self.count += 1
        return f"{stem}-{self.count}"


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in TABLE])
def test_we_choose_a_node_as_the_scheduler_does(
    case: Case, verdicts: dict[str, Verdicts | Exception]
) -> None:
    got = verdicts[case.name]
    if isinstance(got, Exception):
        raise got
    assert got.scheduler == case.takes
    assert got.ours == case.takes - case.ours_refuses
    assert got.pinned_waits == case.pinned_waits


def test_names_of_cases_are_their_own() -> None:
    assert len({case.name for case in TABLE}) == len(TABLE)
