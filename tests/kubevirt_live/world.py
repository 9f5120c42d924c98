"""A namespace with machines, nodes of its own, and questions about what becomes of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from tests.cluster.api import Api, Object
from tests.cluster.components import BY_HAND
from tests.cluster.session import Cluster
from tests.cluster.waiting import DEADLINE_SECONDS, wait_until
from tests.kubevirt import nodes, webhooks
from tests.kubevirt import words as w
from tests.kubevirt.objects import condition, name_of, phase_of, status_of, uid_of
from tests.kubevirt.standin import Standin, kubevirt
from tests.kubevirt.timing import Timing

GATE = "gpu.cozystack.io/claims"
BRISK = Timing(speed=20)
"""Pauses of 10 to 15 seconds take less than one."""


@dataclass(slots=True)
class World:
    """One test's own: `gpu` is a resource that only its nodes have."""

    cluster: Cluster
    namespace: str
    gpu: str
    unique: Callable[[str], str]
    asked: list[Object] = field(default_factory=list)
    """Admission requests for pods, as the gate's webhook got them."""

    @property
    def api(self) -> Api:
        """As the administrator."""
        return self.cluster.admin

    async def node(self, count: int = 1) -> str:
        """A new node with so many GPUs; waits until pods can be placed on it."""
        name = self.unique("gpu")
        await self.api.create(nodes.node(name, {self.gpu: count}))

        async def ready() -> bool:
            node = await self.api.get(w.NODE, name)
            return condition(node, "Ready").get("status") == "True" and not node["spec"].get(
                "taints"
            )

        await wait_until(ready, f"node {name} takes pods")
        return name

    def kubevirt(
        self, namespace: str = "kubevirt", *, disks_import: bool = True
    ) -> contextlib.AbstractAsyncContextManager[Standin]:
        """The stand-in, for this namespace only."""
        return kubevirt(
            self.cluster,
            namespace,
            serves=self.namespace,
            timing=BRISK,
            disks_import=disks_import,
        )

    @contextlib.asynccontextmanager
    async def gated(self) -> AsyncIterator[None]:
        """A webhook adds our gate to launchers and temporary pods, as our product will."""
        async with webhooks.serving(self.cluster, {"gate": self._gate}) as at:
            rule = webhooks.rule("", "pods", "CREATE")
            launchers = {"objectSelector": {"matchLabels": {w.LABEL_APP: w.LAUNCHER}}}
            hook = at.webhook(
                "gate.gpu.cozystack.io", "gate", rule, namespace=self.namespace, fields=launchers
            )
            name = f"gpu-launcher-gate-{self.namespace}"
            made = webhooks.configuration("Mutating", name, [hook])
            async with webhooks.registered(self.cluster, [made], self._is_asked):
                self.asked.clear()
                yield

    async def machine(
        self,
        name: str = "train",
        strategy: str = "Always",
        *,
        count: int = 1,
        by_hand: bool = False,
        **spec: object,
    ) -> Object:
        """Create a machine with GPUs; `by_hand` leaves its pods' lives to the test."""
        entries = [{"name": f"gpu{n}", "deviceName": self.gpu} for n in range(count)]
        template: Object = {
            "metadata": {
                "labels": {"app": name},
                "annotations": {"note": "copied", **(BY_HAND if by_hand else {})},
            },
            "spec": {
                "domain": {
                    "cpu": {"cores": 2},
                    "memory": {"guest": "2Gi"},
                    "devices": {"gpus": entries},
                },
                **spec,
            },
        }
        return await self.api.create(
            {
                "apiVersion": w.API_VERSION,
                "kind": "VirtualMachine",
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"runStrategy": strategy, "template": template},
            }
        )

    async def vm(self, name: str = "train") -> Object:
        """A machine as it is."""
        return await self.api.get(w.VM, name, self.namespace)

    async def vmi(self, name: str = "train") -> Object:
        """An instance as it is."""
        return await self.api.get(w.VMI, name, self.namespace)

    async def pods(self, name: str = "train") -> list[Object]:
        """The launchers of an instance."""
        label = f"{w.LABEL_VMI_ID}={name}"
        return await self.api.list(w.POD, self.namespace, labelSelector=label)

    async def launcher(self, name: str = "train", *, but: frozenset[str] = frozenset()) -> Object:
        """The launcher, once the instance lists it; not one of the uids `but`."""

        async def listed() -> Object | None:
            vmi = await self.api.find(w.VMI, name, self.namespace)
            active = status_of(vmi or {}).get("activePods", {})
            for pod in await self.pods(name):
                if uid_of(pod) in active and uid_of(pod) not in but:
                    return {"apiVersion": "v1", "kind": "Pod", **pod}
            return None

        return await wait_until(listed, f"{name} lists a launcher")

    async def until_shown(self, word: str, name: str = "train") -> Object:
        """The machine, once `kubectl get vm` shows a word for it."""

        async def shown() -> Object | None:
            vm = await self.vm(name)
            return vm if status_of(vm).get("printableStatus") == word else None

        return await wait_until(shown, f"{name} shows {word}")

    async def until_met(self, name: str = "train") -> Object:
        """The machine, once nothing is left of what was asked of it.

        It shows a final word before: a start in between is refused, as underway.
        """

        async def met() -> Object | None:
            vm = await self.vm(name)
            return None if status_of(vm).get("stateChangeRequests") else vm

        return await wait_until(met, f"{name} did what was asked of it")

    async def until_phase(self, phase: str, name: str = "train") -> Object:
        """The instance, once it is in a phase."""

        async def reached() -> Object | None:
            vmi = await self.api.find(w.VMI, name, self.namespace)
            return vmi if vmi is not None and phase_of(vmi) == phase else None

        return await wait_until(reached, f"{name} is {phase}")

    @contextlib.asynccontextmanager
    async def watching(self, kind: str) -> AsyncIterator[Callable[..., Awaitable[Object]]]:
        """Shows what becomes of objects of a kind from now on, also what passes before one asks.

        It gives a function: the first state not shown yet for which a condition holds.
        """
        now = await self.api.call("GET", await self.api.path(kind, self.namespace))
        version = now["metadata"]["resourceVersion"]
        async with self.api.watch(kind, self.namespace, resourceVersion=version) as events:

            async def first(holds: Callable[[Object], bool]) -> Object:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    async for event in events:
                        found: Object = event["object"]
                        if holds(found):
                            return found
                raise AssertionError(f"the watch of {kind} ended")

            yield first

    async def until_condition(self, kind: str, reason: str, name: str = "train") -> Object:
        """The instance, once it has a condition with a reason."""

        async def says() -> Object | None:
            vmi = await self.api.find(w.VMI, name, self.namespace)
            told = condition(vmi or {}, kind).get("reason") == reason
            return vmi if told else None

        return await wait_until(says, f"{name} says {kind}: {reason}")

    async def until_gone(self, kind: str, name: str) -> None:
        """Wait until there is no such object."""

        async def gone() -> bool:
            return await self.api.find(kind, name, self.namespace) is None

        await wait_until(gone, f"{kind} {name} is gone")

    async def bound(self, pod: Object) -> Object:
        """The pod, once the scheduler put it on a node."""

        async def placed() -> Object | None:
            found = await self.api.get(w.POD, name_of(pod), self.namespace)
            return found if found["spec"].get("nodeName") else None

        return await wait_until(placed, f"{name_of(pod)} is on a node")

    async def release(self, pod: Object, node: str) -> None:
        """Pin a pod to a node and take our gate away, in one write."""
        place = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
        only = [{"key": "metadata.name", "operator": "In", "values": [node]}]
        patch = [
            {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
            {"op": "add", "path": f"{place}/nodeSelectorTerms/0/matchFields", "value": only},
            {"op": "remove", "path": "/spec/schedulingGates/0"},
        ]
        released = await self.api.patch(w.POD, name_of(pod), patch, self.namespace)
        assert not released["spec"].get("schedulingGates")

    def _gate(self, request: Object) -> Object:
        self.asked.append(request)
        if w.LABEL_MIGRATION_JOB in request["object"]["metadata"]["labels"]:
            return {"allowed": True}
        gate = {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}
        return {"allowed": True, "patch": [gate]}

    async def _is_asked(self) -> bool:
        probe = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "probe",
                "namespace": self.namespace,
                "labels": {w.LABEL_APP: w.LAUNCHER},
            },
            "spec": {"containers": [{"name": "c", "image": "registry.example/none"}]},
        }
        created = await self.api.create(probe, dryRun="All")
        return bool(created["spec"].get("schedulingGates"))
