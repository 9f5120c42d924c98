"""A small cluster for the plan: state only what matters, and look at what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from binder.actions import Action, BookClaim, Plan, StartPod, Work
from binder.agenda import Agenda, Task
from binder.hindrances import HINDRANCES, Hindrance
from binder.memory import Memory
from binder.plan import View, plan
from binder.underway import UnderWay
from shared.core.cluster import ClusterState
from shared.core.model import (
    Attachment,
    Claim,
    Gone,
    GpuClass,
    Namespace,
    Node,
    Object,
    Pod,
    Put,
    Quota,
    RecordEntry,
    Vmi,
)
from shared.core.placing import ClaimWritten, ClassWritten, PodPlacing, VmiPlacing, Waiting
from shared.core.placing import Condition as Written
from shared.core.scheduling import Toleration
from shared.core.sites import Sites
from shared.vocabulary import FINALIZER_CLAIM, GATE
from tests.unit.binder.applier import Applier, actions

A100 = "nvidia.com/A100"
L40S = "nvidia.com/L40S"
CLASSES = {"a100": A100, "l40s": L40S}
TENANT = "tenant-a"
START = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
OFTEN = 20
"""So many passes are enough for everything here to come to rest."""


class World:
    """A cluster with the classes a100 and l40s, one tenant, and no nodes."""

    def __init__(self) -> None:
        state = ClusterState(Sites())
        self.applier = Applier(state, Agenda(state))
        self.state = state
        self.now = START
        self.backed_off: frozenset[str] = frozenset()
        self.under_way: tuple[Work, ...] = ()
        self.memory = Memory()
        self._remembered = 0
        self.phases: Sequence[Task] = tuple(Task)
        self.hindrances: Sequence[Hindrance] = HINDRANCES
        self.put(Namespace(TENANT))
        for name, resource in CLASSES.items():
            self.put(gpu_class(name, resource))

    def put(self, *objects: Object) -> None:
        """These are so now."""
        for each in objects:
            self.applier.change(Put(each))

    def gone(self, *objects: Object) -> None:
        """These are gone."""
        for each in objects:
            self.applier.change(Gone(each))

    def plan(self) -> Plan:
        """What is planned now, without what has to wait for something under way."""
        under_way = UnderWay(self.under_way)
        view = View(self.state, self.applier.agenda, self.backed_off, under_way, self.memory)
        found = plan(view, self.now, self.phases, self.hindrances)
        works = tuple(work for work in found.works if not under_way.covers(work))
        return replace(found, works=works)

    def carry_out(self) -> Plan:
        """One pass, and all its writes; returns what was planned."""
        found = self.plan()
        self.applier.do(found)
        self.remember()
        return found

    def step(self) -> list[Action]:
        """One pass, and all its writes; returns them. A second goes by."""
        found = self.carry_out()
        self.now += timedelta(seconds=1)
        return list(actions(found))

    def remember(self) -> None:
        """The binder remembers the events that were told since the last time."""
        for each in self.applier.events[self._remembered :]:
            self.memory.told(each)
        self._remembered = len(self.applier.events)

    def settle(self) -> list[Action]:
        """Passes until nothing is left to write; returns all that was written."""
        done: list[Action] = []
        for _ in range(OFTEN):
            wrote = self.step()
            if not wrote:
                return done
            done += wrote
        raise AssertionError(f"it never comes to rest: {done[-3:]}")

    def rest(self) -> list[Action]:
        """Passes until nothing is left to write and no moment to come; returns what was written."""
        done: list[Action] = []
        for _ in range(OFTEN):
            found = self.carry_out()
            done += actions(found)
            if not found.works and found.wake_in is None:
                return done
            self.now += timedelta(seconds=1 if found.works else found.wake_in or 0)
        raise AssertionError(f"it never falls silent: {done[-3:]}")

    def claim(self, name: str, namespace: str = TENANT) -> Claim:
        """A claim as it is."""
        return self.state.holders.claims[namespace, name]

    def pod(self, name: str, namespace: str = TENANT) -> Pod:
        """A pod as it is."""
        return self.state.holders.pods[namespace, name]

    def where(self, namespace: str = TENANT) -> dict[str, str]:
        """The node of each claim of a namespace, by name; empty where it has none."""
        claims = self.state.holders.claims.values()
        return {each.name: each.node_name for each in claims if each.namespace == namespace}

    def starts(self) -> dict[str, str]:
        """The node of each pod that is pinned, by name."""
        pods = self.state.holders.pods.values()
        return {pod.name: pod.pinned_to for pod in pods if pod.pinned_to}

    def says(self, name: str, kind: str, namespace: str = TENANT) -> tuple[str, str]:
        """Status and reason of one condition of a claim."""
        written = self.claim(name, namespace).written
        assert written is not None
        return next((e.status, e.reason) for e in written.conditions if e.type == kind)

    def waiting(self, name: str) -> Waiting:
        """Why a claim waits, with the words and since when."""
        written = self.claim(name).written
        assert written is not None
        assert written.waiting is not None
        return written.waiting

    def waits_for(self, name: str, namespace: str = TENANT) -> str:
        """The reason for which a claim waits; empty where it waits for none."""
        written = self.claim(name, namespace).written
        return "" if written is None or written.waiting is None else written.waiting.reason

    @property
    def events(self) -> list[tuple[str, str]]:
        """VM and reason of each event."""
        return [(each.name, str(each.reason)) for each in self.applier.events]

    def runs(self, pod_name: str, node_name: str) -> None:
        """The pod was bound to a node and runs there, and its VMI says so."""
        pod = self.pod(pod_name)
        self.put(replace(pod, node_name=node_name))
        vmi = self.state.holders.vmis[pod.owner]
        self.put(replace(vmi, phase="Running", node_name=node_name))


def gpu_class(name: str, resource: str, tolerations: tuple[Toleration, ...] = ()) -> GpuClass:
    """A class as the API server has it."""
    return GpuClass(
        name,
        resource,
        uid=f"class-{name}",
        tolerations=tolerations,
        written=ClassWritten("1", 1),
    )


def node(name: str, **units: int) -> Node:
    """A well node, with units by class and plenty of everything else."""
    allocatable = {CLASSES[each]: count for each, count in units.items()}
    return Node(
        name,
        {"cpu": 64000, "memory": 2**40, "pods": 110, **allocatable},
        labels={"kubernetes.io/hostname": name, "kubevirt.io/schedulable": "true"},
        ready=True,
    )


def order(
    name: str,
    count: int = 1,
    node_name: str = "",
    *,
    of: str = "a100",
    age: int = 0,
    namespace: str = TENANT,
    lost: bool = False,
    attached_to: Attachment | None = None,
) -> Claim:
    """A tenant's order, `age` seconds older than the start; booked where it has a node."""
    bound = [Written("Bound", "True", "Placed")] if node_name else []
    bound += [Written("Bound", "False", "NodeLost")] if lost else []
    return Claim(
        namespace,
        name,
        of,
        count,
        uid=f"claim-{name}",
        resource_name=CLASSES[of] if node_name else "",
        node_name=node_name,
        attached_to=attached_to,
        written=ClaimWritten(
            "1",
            1,
            created=at(-age),
            finalizers=(FINALIZER_CLAIM,) if node_name else (),
            conditions=tuple(bound),
        ),
    )


def vm(
    name: str,
    units: Mapping[str, int] | None = None,
    claims: Mapping[str, int] | None = None,
    *,
    age: int = 0,
    of: str = "a100",
    namespace: str = TENANT,
    gates: tuple[str, ...] = (GATE,),
    node_name: str = "",
    requests: Mapping[str, int] | None = None,
) -> tuple[Vmi, Pod]:
    """A VM's instance and its launcher, which waits at the gate unless it has a node.

    Args:
        name: of the VM; its instance's uid is that name after `vmi-`, its pod's after `pod-`.
        units: its class entries.
        claims: the orders that it names, with their counts, of class `of`.
        age: how many seconds before the start both were made.
        of: class of the orders.
        namespace: where.
        gates: of the pod.
        node_name: where the pod runs, ungated.
        requests: what the pod requests beside its devices.
    """
    record = [
        RecordEntry(claim, -1, of, CLASSES[of], count)
        for claim, count in sorted((claims or {}).items())
    ]
    record += [
        RecordEntry("", index, each, CLASSES[each], count)
        for index, (each, count) in enumerate((units or {}).items())
    ]
    devices: dict[str, int] = {}
    for entry in record:
        devices[entry.resource_name] = devices.get(entry.resource_name, 0) + entry.count
    uid, pod_name = f"vmi-{name}", f"pod-{name}"
    vmi = Vmi(
        namespace,
        name,
        uid,
        vm=f"vm-{name}",
        active_pods=(f"uid-{pod_name}",),
        record=tuple(record),
        phase="Running" if node_name else "Scheduling",
        node_name=node_name,
        placing=VmiPlacing(created=at(-age), vm_name=name),
    )
    pod = Pod(
        namespace,
        pod_name,
        f"uid-{pod_name}",
        node_name,
        {"cpu": 1000, "memory": 2**30, **(requests or {}), **devices},
        owner=uid,
        launcher_mark=uid,
        placing=PodPlacing("1", created=at(-age), gates=() if node_name else gates),
    )
    return vmi, pod


def quota(units: int, key: str = "a100.gpuclass.gpu.cozystack.io/units") -> Quota:
    """The tenant's budget."""
    return Quota(TENANT, "q", {key: units})


def template(name: str, entry: int = 0) -> str:
    """The name of the template claim of a VM's class entry."""
    return f"vmi-{name}-{entry}"


def at(seconds: int) -> str:
    """A time so many seconds after the start."""
    return (START + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def booked(done: list[Action]) -> list[str]:
    """Names of the claims that were booked, in order."""
    return [action.claim.name for action in done if isinstance(action, BookClaim)]


def started(done: list[Action]) -> list[str]:
    """Names of the pods that were started, in order."""
    return [action.pod.name for action in done if isinstance(action, StartPod)]
