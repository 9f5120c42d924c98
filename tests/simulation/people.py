"""Tenants and hosters in virtual time: they come and go, change their minds, and break things."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared import vocabulary as v
from tests.kubevirt.objects import is_going, name_of, namespace_of, uid_of
from tests.simulation import collector, facts, things
from tests.simulation.kinds import NODE, POD, kind_named
from tests.simulation.policies import ADMIN
from tests.simulation.stage import Stage, key_of

Raw = dict[str, Any]

VM: Final = kind_named("virtualmachines")
VMI: Final = kind_named("virtualmachineinstances")
CLAIM: Final = kind_named(v.RESOURCE_CLAIMS)
QUOTA: Final = kind_named("resourcequotas")
CONFIG_MAP: Final = kind_named("configmaps")
HOSTERS_SLOWER: Final = 4
"""So many times as long as tenants, hosters wait before they act again."""

_NODE_LABELS: Final = {
    v.LABEL_KUBEVIRT_SCHEDULABLE: "true",
    "kubernetes.io/arch": "amd64",
    "machine-type.node.kubevirt.io/q35": "true",
}


@dataclass(frozen=True, slots=True)
class World:
    """A cluster to begin with, and how busy it is.

    Attributes:
        nodes: how many, each with four units of one class or of both.
        tenants: how many; every second has a budget.
        machines: at most so many at a time.
        pause: seconds between two acts of all tenants together.
        leaves_pods: whether they delete instances, too, and leave their pods running.
    """

    nodes: int = 4
    tenants: int = 2
    machines: int = 8
    pause: tuple[float, float] = (2.0, 30.0)
    leaves_pods: bool = False


@dataclass(slots=True)
class People:
    """Acts until told to rest."""

    stage: Stage
    world: World
    at_rest: bool = False
    _made: int = 0

    def settle(self) -> None:
        """Make the cluster."""
        stage = self.stage
        for name in (v.NAMESPACE, v.TENANT_ROOT, *self._tenants()):
            stage.api.create(kind_named("namespaces"), "", things.namespace(name), ADMIN)
        for name in things.CLASSES:
            stage.api.create(kind_named(v.RESOURCE_CLASSES), "", things.gpu_class(name), ADMIN)
        stage.api.create(CONFIG_MAP, v.NAMESPACE, things.settings(enabled="true"), ADMIN)
        for number in range(self.world.nodes):
            self._add_node(number)
        for tenant in self._tenants()[::2]:
            stage.api.create(QUOTA, tenant, things.quota(tenant, a100=6, l40s=4), ADMIN)

    def begin(self) -> None:
        """Act from now on."""
        self._later(self._tenant_acts, 1)
        self._later(self._hoster_acts, HOSTERS_SLOWER)

    def rest(self) -> None:
        """Undo what is broken, and act no more."""
        self.at_rest = True
        for number in range(self.world.nodes):
            if self.stage.get(NODE, "", f"n{number}") is None:
                self._add_node(number)
            self._node(number, cordoned=False, ready=True, devices=self._devices(number))
        self._switch("true")
        for pod in self._left():
            self.stage.api.delete(POD, key_of(pod), ADMIN)

    def _tenants(self) -> list[str]:
        return [f"tenant-{'abcdefgh'[number]}" for number in range(self.world.tenants)]

    def _later(self, act: Callable[[], None], slower: float) -> None:
        def once() -> None:
            if not self.at_rest:
                act()
                self._later(act, slower)

        seconds = self.stage.chance.uniform(*self.world.pause) * slower
        self.stage.plan(act.__name__, seconds, once)

    # Tenants.

    def _tenant_acts(self) -> None:
        acts = (
            *[self._make_machine] * 4,
            *[self._delete_machine] * 3,
            self._stop_or_start,
            self._stop_or_start,
            self._order,
            self._order,
            self._cancel_order,
            self._stranger,
            self._stranger_goes,
            *([self._leave_pods, self._left_pod_goes] if self.world.leaves_pods else []),
        )
        self.stage.chance.choice(acts)()

    def _make_machine(self) -> None:
        machines = self.stage.store.all(VM)
        if len(machines) >= self.world.machines:
            return
        chance, tenant = self.stage.chance, self.stage.chance.choice(self._tenants())
        self._made += 1
        orders = [
            name_of(each)
            for each in self.stage.store.all(CLAIM, tenant)
            if v.LABEL_TEMPLATE not in (each["metadata"].get("labels") or {})
        ]
        asked: dict[str, object] = {}
        if orders and chance.random() < 0.5:
            asked["claims"] = sorted(chance.sample(orders, min(len(orders), chance.randint(1, 2))))
        if not asked or chance.random() < 0.3:
            names = chance.sample([*things.CLASSES], chance.randint(1, 2))
            asked["classes"] = [{"className": n, "count": chance.randint(1, 2)} for n in names]
        vm = things.machine(tenant, f"vm{self._made}", **asked)
        self.stage.api.create(VM, tenant, vm, ADMIN)

    def _delete_machine(self) -> None:
        vm = self._one(self.stage.store.all(VM))
        if vm is not None and not is_going(vm):
            self.stage.api.delete(VM, key_of(vm), ADMIN)

    def _stop_or_start(self) -> None:
        vm = self._one(self.stage.store.all(VM))
        if vm is not None:
            new = "Always" if vm["spec"]["runStrategy"] == "Halted" else "Halted"
            self.stage.api.merge(VM, key_of(vm), {"spec": {"runStrategy": new}}, ADMIN)

    def _order(self) -> None:
        chance, tenant = self.stage.chance, self.stage.chance.choice(self._tenants())
        if len(self.stage.store.all(CLAIM, tenant)) < self.world.machines:
            self._made += 1
            name = chance.choice([*things.CLASSES])
            order = things.claim(tenant, f"order{self._made}", name, chance.randint(1, 2))
            self.stage.api.create(CLAIM, tenant, order, ADMIN)

    def _cancel_order(self) -> None:
        claim = self._one(self.stage.store.all(CLAIM))
        if claim is not None and not is_going(claim):
            self.stage.api.delete(CLAIM, key_of(claim), ADMIN)

    def _stranger(self) -> None:
        """A pod that asks for a device by its raw name."""
        tenant = self.stage.chance.choice(self._tenants())
        if sum(name_of(pod).startswith("raw") for pod in self.stage.store.all(POD)) >= 2:
            return
        self._made += 1
        amounts = {things.CLASSES[self.stage.chance.choice([*things.CLASSES])]: "1"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"raw{self._made}", "namespace": tenant},
            "spec": {
                "containers": [
                    {"name": "c", "image": "none", "resources": {"limits": amounts}},
                ],
            },
        }
        self.stage.api.create(POD, tenant, pod, ADMIN)

    def _stranger_goes(self) -> None:
        pods = [pod for pod in self.stage.store.all(POD) if name_of(pod).startswith("raw")]
        pod = self._one(pods)
        if pod is not None and not is_going(pod):
            self.stage.api.delete(POD, key_of(pod), ADMIN)

    def _leave_pods(self) -> None:
        """An instance is deleted with `--cascade=orphan`: the collector takes its owner off all."""
        vmi = self._one(self.stage.store.all(VMI))
        if vmi is None or is_going(vmi):
            return
        for kind in (POD, CLAIM):
            for each in self.stage.store.all(kind):
                if uid_of(vmi) in facts.owners_of(each):
                    free = {"metadata": {"ownerReferences": None}}
                    self.stage.api.merge(kind, key_of(each), free, collector.WHO)
        self.stage.api.delete(VMI, key_of(vmi), ADMIN)

    def _left_pod_goes(self) -> None:
        pod = self._one(self._left())
        if pod is not None and not is_going(pod):
            self.stage.api.delete(POD, key_of(pod), ADMIN)

    def _left(self) -> list[Raw]:
        return [pod for pod in self.stage.store.all(POD) if facts.is_left(pod)]

    # Hosters.

    def _hoster_acts(self) -> None:
        chance = self.stage.chance
        number = chance.randrange(self.world.nodes)
        acts: Sequence[Callable[[], None]] = (
            lambda: self._node(number, cordoned=True),
            lambda: self._node(number, cordoned=False),
            lambda: self._node(number, ready=False),
            lambda: self._node(number, ready=True),
            lambda: self._node(number, cordoned=False, ready=True),
            lambda: self._node(number, devices=self._fewer(number)),
            lambda: self._node(number, devices=self._devices(number)),
            lambda: self._node(number, devices=self._devices(number)),
            lambda: self._remove_node(number),
            lambda: self._add_node(number),
            lambda: self._change_budget(),
            lambda: self._switch("false") if chance.random() < 0.2 else self._switch("true"),
        )
        chance.choice(acts)()

    def _devices(self, number: int) -> dict[str, int]:
        return ({"a100": 4}, {"l40s": 4}, {"a100": 2, "l40s": 2}, {"a100": 4})[number % 4]

    def _fewer(self, number: int) -> dict[str, int]:
        return {n: units // 2 for n, units in self._devices(number).items()}

    def _add_node(self, number: int) -> None:
        if self.stage.get(NODE, "", f"n{number}") is None:
            node = things.node(f"n{number}", **self._devices(number))
            node["metadata"]["labels"] |= _NODE_LABELS
            self.stage.api.create(NODE, "", node, ADMIN)

    def _remove_node(self, number: int) -> None:
        """A node goes, and what ran there with it."""
        name = f"n{number}"
        if self.stage.get(NODE, "", name) is None:
            return
        self.stage.api.delete(NODE, ("", name), ADMIN)
        for pod in self.stage.store.all(POD):
            if pod["spec"].get("nodeName") == name:
                self.stage.api.delete(POD, key_of(pod), ADMIN, grace=0)

    def _node(
        self,
        number: int,
        *,
        cordoned: bool | None = None,
        ready: bool | None = None,
        devices: dict[str, int] | None = None,
    ) -> None:
        key = ("", f"n{number}")
        if self.stage.store.get(NODE, key) is None:
            return
        if cordoned is not None:
            spec = {"spec": {"unschedulable": True if cordoned else None}}
            self.stage.api.merge(NODE, key, spec, ADMIN)
        status: Raw = {}
        if ready is not None:
            status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
        if devices is not None:
            named = {things.CLASSES[each]: str(units) for each, units in devices.items()}
            status["allocatable"] = named
        if status:
            self.stage.api.merge(NODE, key, {"status": status}, "system:node", "status")

    def _change_budget(self) -> None:
        quota = self._one(self.stage.store.all(QUOTA))
        if quota is not None:
            units = self.stage.chance.randint(2, 8)
            new = things.quota(namespace_of(quota), a100=units, l40s=units)
            self.stage.api.merge(QUOTA, key_of(quota), {"spec": new["spec"]}, ADMIN)

    def _switch(self, enabled: str) -> None:
        key = (v.NAMESPACE, v.SETTINGS_NAME)
        self.stage.api.merge(CONFIG_MAP, key, {"data": {"enabled": enabled}}, ADMIN)

    def _one(self, found: Sequence[Raw]) -> Raw | None:
        return self.stage.chance.choice(found) if found else None
