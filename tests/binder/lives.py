"""A tenant, a class and nodes of one test, on a control plane with everything but a binder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from shared import vocabulary as v
from tests.binder.bookings import Ledger
from tests.binder.history import Recorder, State
from tests.binder.truth import claim_names, mark_of, node_of
from tests.catalog.objects import CLAIM, CLASS, claim, gpu_class
from tests.cluster.api import Api, Object, Refused
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until
from tests.kubevirt import nodes
from tests.kubevirt import words as w
from tests.kubevirt.objects import condition, namespace_of, phase_of, status_of, uid_of

NOT_SEEN_YET: Final = frozenset({"NoCapacity", "SetDoesNotFitOneNode", "InputsUnreadable"})
"""Why the server refuses an order for units that it has not seen."""


@dataclass(slots=True)
class Life:
    """What one test has: a class, as many nodes as it adds, and a namespace."""

    plane: ControlPlane
    recorder: Recorder
    namespace: str
    class_name: str
    unique: Callable[[str], str]
    room: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    async def begin(
        cls,
        plane: ControlPlane,
        recorder: Recorder,
        unique: Callable[[str], str],
        **spec: object,
    ) -> Life:
        """Make the class and the namespace; `spec` is the class's."""
        life = cls(plane, recorder, unique("tenant-life"), unique("life"), unique)
        await plane.cluster.create_namespace(life.namespace)
        await plane.cluster.admin.create(gpu_class(life.class_name, life.resource, **spec))
        return life

    @property
    def api(self) -> Api:
        """As the administrator."""
        return self.plane.cluster.admin

    @property
    def resource(self) -> str:
        """The class's device."""
        return f"example.com/{self.class_name}"

    async def node(self, units: int) -> str:
        """A node that only this test's VMs get to."""
        name = self.unique("life-node")
        await self.api.create(nodes.node(name, {self.resource: units}))
        self.room[name, self.resource] = units
        return name

    async def machine(
        self, name: str, count: int = 0, claims: Iterable[str] = (), **spec: object
    ) -> None:
        """A VM with units of the class, or with claims."""
        annotations = {}
        if count:
            entries = [{"className": self.class_name, "count": count}]
            annotations[v.ANNOTATION_CLASSES] = json.dumps(entries)
        if claims:
            annotations[v.ANNOTATION_CLAIMS] = json.dumps(list(claims))
        template = {
            "metadata": {"annotations": annotations},
            "spec": {"domain": {"devices": {}}, **spec},
        }
        metadata = {"name": name, "namespace": self.namespace}
        await self.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": v.KIND_VM,
                "metadata": metadata,
                "spec": {"runStrategy": "Always", "template": template},
            }
        )

    async def order(self, name: str, count: int) -> None:
        """Order units; the server may see a node that was just made a moment later than we do."""
        order = claim(self.namespace, name, self.class_name, count)

        async def can_be_had() -> bool:
            try:
                return bool(await self.api.create(order, dryRun="All"))
            except Refused as no:
                if no.reason not in NOT_SEEN_YET:
                    raise
                return False

        await wait_until(can_be_had, f"{count} can be ordered")
        await self.api.create(order)

    async def vmi(self, name: str) -> Object:
        """An instance as it is."""
        return await self.api.get(w.VMI, name, self.namespace)

    async def until_running(self, name: str) -> str:
        """Wait until a VM runs; returns the node of its launcher.

        KubeVirt's `status.nodeName` is not asked: a stranger's pod can move it (KubeVirt
        observed 17).
        """

        async def runs() -> str | None:
            vmi = await self.api.find(w.VMI, name, self.namespace)
            if vmi is None or phase_of(vmi) != "Running":
                return None
            for pod in await self.api.list(w.POD, self.namespace):
                if mark_of(pod) == uid_of(vmi) and phase_of(pod) == "Running":
                    return str(pod["spec"]["nodeName"])
            return None

        return await wait_until(runs, f"{name} runs")

    async def claim_of(self, name: str) -> Object | None:
        """The claim of a VM's one class entry."""
        vmi = await self.api.find(w.VMI, name, self.namespace)
        if vmi is None:
            return None
        return await self.api.find(CLAIM, claim_names(vmi)[0], self.namespace)

    async def until_waiting(self, name: str) -> str:
        """Wait until a VM's claim says why it waits; returns the reason."""

        async def says() -> str | None:
            claim = await self.claim_of(name) or {}
            return (status_of(claim).get("waiting") or {}).get("reason")

        return await wait_until(says, f"{name} says why it waits")

    async def until_booked(self, name: str, node: str) -> Object:
        """Wait until a VM's claim is booked on a node; returns it."""

        async def booked() -> Object | None:
            claim = await self.claim_of(name)
            return claim if claim is not None and node_of(claim) == node else None

        return await wait_until(booked, f"the claim of {name} is on {node}")

    async def until_attached(self, claim: str, said: tuple[str, str, str]) -> None:
        """Wait until a claim says so in its condition Attached: status, reason, message."""

        async def says() -> bool:
            attached = condition(await self.api.get(CLAIM, claim, self.namespace), "Attached")
            found = (attached.get("status"), attached.get("reason"), attached.get("message"))
            return found == said

        await wait_until(says, f"the claim {claim} is attached: {said}")

    async def until_stock(self, **figures: int) -> None:
        """Wait until the class's status has these figures."""

        async def said() -> bool:
            found = await self.api.get(CLASS, self.class_name)
            capacity: Mapping[str, int] = status_of(found).get("capacity", {})
            return all(capacity.get(name) == units for name, units in figures.items())

        await wait_until(said, f"{self.class_name} has {figures}")

    async def ledger(self) -> Ledger:
        """What was booked and held of this class so far."""
        ledger = Ledger(self.room)
        ledger.follow(await self._states())
        return ledger

    async def nodes_booked(self, uid: str) -> list[str]:
        """Where the claims of an instance were after each booking and report, without repeats."""
        found: list[str] = []
        for state in await self._states():
            node = node_of(state.object)
            if (
                state.object["kind"] == v.KIND_CLAIM
                and "epoch" in status_of(state.object)
                and uid in _owners(state.object)
                and found[-1:] != [node]
            ):
                found.append(node)
        return found

    async def pods_made(self, uid: str) -> list[Object]:
        """The pods that KubeVirt made for an instance, as they were made."""
        found: dict[str, Object] = {}
        for state in await self._states():
            if state.object["kind"] == "Pod" and uid in _owners(state.object):
                found.setdefault(uid_of(state.object), state.object)
        return list(found.values())

    async def _states(self) -> Iterator[State]:
        """What became of everything in this namespace."""
        states = await self.recorder.states()
        return (each for each in states if namespace_of(each.object) == self.namespace)


def _owners(obj: Object) -> set[str]:
    return {str(each["uid"]) for each in obj["metadata"].get("ownerReferences") or ()}
