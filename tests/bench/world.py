"""Clusters of any size as values, the same for the same seed.

Everything fits together as in a cluster that has run for a while: claims are booked where there
is room, most are attached to VMs whose launchers run on that node, tenants form a tree and have
budgets. `tests.bench.raw` renders each value as the API server would send it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from uuid import UUID

from shared.core.model import (
    Attachment,
    Claim,
    Disclosure,
    Entitlement,
    GpuClass,
    KubeVirt,
    Mode,
    Namespace,
    Node,
    Object,
    Pod,
    Quota,
    RecordEntry,
    Secret,
    System,
    Vmi,
    Volume,
    VolumeClaim,
)
from shared.core.scheduling import NodeTerm, Requirement, Toleration
from shared.vocabulary import CLASS_KEY_SUFFIX, KUBEVIRT_NAMESPACE, LICENSE_PREFIX, SYSTEM_NAME
from tests.bench.hardware import READY_SINCE, labels_of, native_of
from tests.bench.shapes import LAUNCHERS, ORDINARY, Shape
from tests.bench.size import Size

UNITS = 8
"""Of a device on a node that has it."""

KEYS_MAX = 12
"""Classes that one tenant's budget names."""

SYSTEM_NAMESPACES = ("kube-system", "default", "cozy-gpu", KUBEVIRT_NAMESPACE, "cozy-monitoring")


@dataclass(slots=True)
class World:
    """All objects, by kind. `shapes` says which pod is built how, by its uid."""

    size: Size
    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    classes: list[GpuClass] = field(default_factory=list)
    quotas: list[Quota] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    vmis: list[Vmi] = field(default_factory=list)
    kubevirts: list[KubeVirt] = field(default_factory=list)
    volume_claims: list[VolumeClaim] = field(default_factory=list)
    volumes: list[Volume] = field(default_factory=list)
    secrets: list[Secret] = field(default_factory=list)
    systems: list[System] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    tenants: list[str] = field(default_factory=list)
    """Names of the tenants' namespaces, parents before children."""

    def objects(self) -> Iterator[Object]:
        """Every object, in the order of kinds in which an informer happens to get them."""
        for table in (
            self.namespaces,
            self.kubevirts,
            self.classes,
            self.nodes,
            self.quotas,
            self.claims,
            self.vmis,
            self.pods,
        ):
            yield from table

    def placing_only(self) -> Iterator[Object]:
        """Every object of the kinds that no figure rests on."""
        for table in (self.volume_claims, self.volumes, self.secrets, self.systems):
            yield from table


def resource_name(index: int) -> str:
    """The device of the class with that index."""
    return f"nvidia.com/GA{index:03}_DEVICE_{24 + index % 5 * 16}GB"


def class_name(index: int) -> str:
    """The name of the class with that index."""
    return f"device-{index:03}"


def class_key(index: int) -> str:
    """The budget key of the class with that index."""
    return class_name(index) + CLASS_KEY_SUFFIX


def node_name(index: int) -> str:
    """The name of the node with that index."""
    return f"node-{index:05}.dc1.example.net"


def resources_of(node: int, classes: int) -> tuple[int, ...]:
    """Indexes of the classes whose devices a node has."""
    first = node % classes
    return (first, (first + 1) % classes) if node % 4 == 0 and classes > 1 else (first,)


def make(size: Size, seed: int = 1) -> World:
    """Make a world."""
    made = World(size)
    chance = Random(seed)
    uids = _uids(chance)
    _namespaces(made, chance)
    made.classes += [_class(index, next(uids)) for index in range(size.classes)]
    made.nodes += [_node(index, size.classes) for index in range(size.nodes)]
    made.quotas += _quotas(made, chance)
    _Tenancy(made, chance, uids).fill()
    table = frozenset(gpu_class.resource_name for gpu_class in made.classes)
    made.kubevirts.append(KubeVirt(KUBEVIRT_NAMESPACE, "kubevirt", "Deployed", table))
    made.secrets += [Secret(each, f"{LICENSE_PREFIX}{class_name(0)}") for each in made.tenants]
    made.systems.append(System(SYSTEM_NAME, "1000", 1, 7, tuple(sorted(table))))
    return made


def _uids(chance: Random) -> Iterator[str]:
    while True:
        yield str(UUID(int=chance.getrandbits(128), version=4))


def _namespaces(made: World, chance: Random) -> None:
    made.namespaces += [Namespace(name) for name in SYSTEM_NAMESPACES]
    made.namespaces.append(Namespace("tenant-root"))
    depths: list[tuple[str, int]] = [("tenant", 0)]
    for number in range(made.size.tenants - 1):
        above, depth = depths[0]
        if number > made.size.tenants // 10:
            above, depth = chance.choice(depths)
        name = f"{above}-t{number}"
        if depth < 4:
            depths.append((name, depth + 1))
        entitlement = "entitled" if chance.random() < 0.3 else None
        made.namespaces.append(Namespace(name, entitlement))
    made.tenants += [each.name for each in made.namespaces if each.name.startswith("tenant-")]


def _class(index: int, uid: str) -> GpuClass:
    is_virtual = index % 3 == 2
    return GpuClass(
        class_name(index),
        resource_name(index),
        mode=Mode.VIRTUAL_GPU if is_virtual else Mode.PASSTHROUGH,
        uid=uid,
        created="2026-01-05T08:00:00Z",
        display_name=f"Device {index}",
        description="A device for training and inference, with its own memory.",
        vendor="NVIDIA",
        memory=f"{24 + index % 5 * 16}Gi",
        max_count=UNITS,
        entitlement=Entitlement.REQUIRED if is_virtual else Entitlement.OPEN,
        disclosure=Disclosure.BUCKETED if index % 7 == 6 else Disclosure.EXACT,
        tolerations=(Toleration("nvidia.com/gpu", "Exists"),),
    )


def _node(index: int, classes: int) -> Node:
    devices = {resource_name(each): UNITS for each in resources_of(index, classes)}
    name = node_name(index)
    return Node(
        name,
        allocatable={**native_of(index), **devices},
        labels=labels_of(name, index),
        unschedulable=index % 97 == 96,
        ready=index % 89 != 88,
        ready_since=READY_SINCE,
        uid=f"{index:08x}-0000-4000-8000-000000000000",
    )


def _quotas(made: World, chance: Random) -> Iterator[Quota]:
    """Half of them budgets, half ordinary ones, spread over the tenants."""
    tenants, classes = made.tenants, made.size.classes
    every = range(classes)
    for number in range(made.size.quotas):
        tenant = tenants[number // 2 % len(tenants)]
        hard = {"limits.cpu": 500, "limits.memory": 2**41, "pods": 400, "requests.storage": 2**44}
        if number % 2 == 0:
            units = UNITS * made.size.nodes if tenant == "tenant-root" else chance.randint(4, 256)
            hard = {}
            for index in chance.sample(every, min(classes, KEYS_MAX)):
                hard[class_key(index)] = units
                hard[f"requests.{resource_name(index)}"] = units + 4
        kind = "budget" if number % 2 == 0 else "quota"
        name = f"{kind}-{number // 2 // len(tenants)}"
        uid = f"{number:08x}-0000-4000-9000-000000000000"
        yield Quota(tenant, name, dict(sorted(hard.items())), uid=uid)


@dataclass(slots=True)
class _Tenancy:
    """Fills the nodes: claims with their VMs first, then pods up to the number asked for."""

    made: World
    chance: Random
    uids: Iterator[str]
    numbers: Iterator[int] = field(default_factory=count)
    free: dict[str, list[tuple[str, int]]] = field(default_factory=dict)

    def fill(self) -> None:
        size = self.made.size
        for index, node in enumerate(self.made.nodes):
            for each in resources_of(index, size.classes):
                self.free.setdefault(resource_name(each), []).append((node.name, UNITS))
        for number in range(size.claims):
            self._claim(number)
        left = size.pods - len(self.made.pods)
        for number in range(left):
            if number < left // 4:
                self._plain_launcher()
            elif number < left // 4 + left // 50:
                self._raw()
            else:
                self._ordinary()

    def _claim(self, number: int) -> None:
        chance = self.chance
        index = number % self.made.size.classes
        units = chance.choice((1, 1, 1, 1, 2, 4))
        claim = Claim(
            chance.choice(self.made.tenants),
            f"claim-{number}",
            class_name(index),
            units,
            uid=next(self.uids),
        )
        node = self._take(resource_name(index), units)
        if not node:
            self.made.claims.append(claim)
            return
        claim = replace(claim, resource_name=resource_name(index), node_name=node)
        if number % 5 == 4:  # ordered, and its VM stopped
            self.made.claims.append(claim)
            return
        self.made.claims.append(self._vm(claim, resource_name(index), number % 4 == 3))

    def _vm(self, claim: Claim, resource: str, is_template: bool) -> Claim:
        """A running VM that uses the claim; returns the claim attached to it."""
        vm, uid, pod_uid = (next(self.uids) for _ in range(3))
        name = f"vm-{next(self.numbers)}"
        if is_template:
            claim = replace(claim, name=f"{uid}-0", is_template=True, owner=uid)
        entry = RecordEntry(
            claim="" if is_template else claim.name,
            entry=0 if is_template else -1,
            class_name=claim.class_name,
            resource_name=resource,
            count=claim.count,
        )
        vmi = Vmi(claim.namespace, name, uid, vm, (pod_uid,), (entry,), "Running")
        self.made.vmis.append(vmi)
        self._launcher(vmi, pod_uid, claim.node_name, {resource: claim.count})
        return replace(claim, attached_to=Attachment("VirtualMachine", name, vm))

    def _plain_launcher(self) -> None:
        vm, uid, pod_uid = (next(self.uids) for _ in range(3))
        vmi = Vmi(
            self.chance.choice(self.made.tenants),
            f"vm-{next(self.numbers)}",
            uid,
            vm,
            (pod_uid,),
            phase="Running",
        )
        self.made.vmis.append(vmi)
        self._launcher(vmi, pod_uid, self.chance.choice(self.made.nodes).name, {})

    def _launcher(self, vmi: Vmi, uid: str, node: str, devices: dict[str, int]) -> None:
        marked = bool(devices)
        volume = f"pvc-{uid}"
        claim = VolumeClaim(vmi.namespace, f"{vmi.name}-system", uid, volume, "Bound", node)
        self.made.volume_claims.append(claim)
        here = Requirement("kubernetes.io/hostname", "In", (node,))
        self.made.volumes.append(Volume(volume, (NodeTerm((here,)),)))
        self._pod(
            Pod(
                vmi.namespace,
                f"virt-launcher-{vmi.name}-{uid[:5]}",
                uid,
                node_name=node,
                owner=vmi.uid,
                launcher_mark=vmi.uid if marked else "",
                pinned_to=node if marked else "",
            ),
            self.chance.choice(LAUNCHERS).with_devices(devices),
        )

    def _raw(self) -> None:
        """A pod that names a device itself."""
        index = self.chance.randrange(self.made.size.classes)
        node = self._take(resource_name(index), 1)
        pod = Pod(
            self.chance.choice(self.made.tenants),
            f"train-{next(self.numbers)}",
            next(self.uids),
            node_name=node,
        )
        self._pod(pod, ORDINARY[0].with_devices({resource_name(index): 1}))

    def _ordinary(self) -> None:
        uid = next(self.uids)
        pod = Pod(
            self.chance.choice(self.made.namespaces).name,
            f"service-{next(self.numbers)}-{uid[:10]}-{uid[-5:]}",
            uid,
            node_name=self.chance.choice(self.made.nodes).name,
            ended=self.chance.random() < 0.05,
        )
        self._pod(pod, self.chance.choice(ORDINARY))

    def _pod(self, pod: Pod, shape: Shape) -> None:
        self.made.pods.append(replace(pod, requests=shape.total))
        self.made.shapes[pod.uid] = shape

    def _take(self, resource: str, units: int) -> str:
        """A node with room, which then has less of it; empty where none has."""
        places = self.free.get(resource, [])
        while places:
            node, free = places[-1]
            if free >= units:
                places[-1] = (node, free - units)
                return node
            places.pop()
        return ""
