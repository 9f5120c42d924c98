"""Where the rush takes place: nodes, classes, budgets, disks, and what VMs ask for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shared import vocabulary as v
from tests.catalog.objects import class_key, gpu_class, quota
from tests.cluster.api import Api, Object
from tests.cluster.build import Binaries
from tests.cluster.components import Options
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.waiting import wait_until
from tests.kubevirt import kinds, nodes
from tests.kubevirt import words as w
from tests.kubevirt.objects import phase_of
from tests.kubevirt.standin import kubevirt
from tests.kubevirt.timing import Timing

RESOURCES: Final = {name: f"example.com/{name}" for name in ("alpha", "beta", "gamma")}
DISCLOSURES: Final = {"alpha": "Exact", "beta": "Bucketed", "gamma": "Hidden"}
TENANTS: Final = ("tenant-red", "tenant-blue")

NODES: Final = (
    {"alpha": 8},
    {"alpha": 8},
    {"beta": 8},
    {"alpha": 4, "beta": 4},
    {"beta": 4},
    {"alpha": 8},
    {"alpha": 8},
    {"beta": 8},
    {"alpha": 4, "beta": 4},
    {"beta": 4, "gamma": 2},
)
"""The sorts of nodes, equally many of each."""

CALM: Final = (
    "--lease-duration=7",
    "--renew-deadline=4",
    "--retry-period=0.8",
    "--request-timeout=3",
)
"""Flags of binders that change leaders within seconds, and let a busy API server answer."""

RARE: Final = {"example.com/rare": "true"}
"""A label of the first of each ten nodes; as many nodes as have it have all disks."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What a VM asks for: class entries, units of an order of its own, and where it can run."""

    entries: Mapping[str, int] = field(default_factory=dict)
    ordered: Mapping[str, int] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    has_disk: bool = False


WISHES: Final = (
    Wish({"alpha": 1}),
    Wish({"alpha": 2}),
    Wish({"alpha": 4}),
    Wish({"alpha": 8}, selector=RARE),
    Wish({"beta": 1}),
    Wish({"beta": 8}),
    Wish({"alpha": 2, "beta": 1}),
    Wish({"beta": 4, "gamma": 2}),
    Wish({"gamma": 2}),
    Wish({"beta": 2}, has_disk=True),
    Wish(ordered={"alpha": 2}),
    Wish(ordered={"beta": 4}),
    Wish({"beta": 2}, ordered={"alpha": 1}),
)
"""What VMs ask for, equally many of each."""

USUAL: Final = (
    "BudgetExceeded",
    "NoCapacity",
    "SetDoesNotFitOneNode",
    "NoEligibleNode",
    "VolumeOutOfReach",
)
"""Why VMs wait in such a world; in a long rush all of it happens."""


@dataclass(frozen=True, slots=True)
class Size:
    """How long, and how much of everything."""

    seconds: float
    machines: int
    nodes: int

    @property
    def budgets(self) -> Mapping[tuple[str, str], int]:
        """By namespace and class: one tenant has less than it would find of two, one of one."""
        red, blue = TENANTS
        return {
            (red, "alpha"): self.nodes * 2,
            (red, "gamma"): max(2, self.nodes // 10),
            (blue, "beta"): self.nodes * 3 // 2,
        }

    @property
    def room(self) -> Mapping[tuple[str, str], int]:
        """Units by node and device."""
        return {
            (node_name(number), RESOURCES[name]): units
            for number in range(self.nodes)
            for name, units in NODES[number % len(NODES)].items()
        }

    @property
    def disks(self) -> Mapping[tuple[str, str], str]:
        """By namespace and name of a claim for a disk: the node that has it."""
        beta = [each for each in range(self.nodes) if "beta" in NODES[each % len(NODES)]]
        few = beta[: max(1, self.nodes // len(NODES))]
        return {
            (tenant_of(number), machine_name(number)): node_name(few[number % len(few)])
            for number in range(self.machines)
            if wish_of(number).has_disk
        }


def node_name(number: int) -> str:
    """The name of a node."""
    return f"node-{number:02}"


def machine_name(number: int) -> str:
    """The name of a VM, and of its order and its disk."""
    return f"vm-{number:03}"


def wish_of(number: int) -> Wish:
    """What a VM asks for."""
    return WISHES[number % len(WISHES)]


def tenant_of(number: int) -> str:
    """Whose VM it is: each tenant has all sorts."""
    return TENANTS[number // len(WISHES) % len(TENANTS)]


@asynccontextmanager
async def stage(folder: Path, binaries: Binaries, size: Size) -> AsyncIterator[ControlPlane]:
    """A control plane with everything on it but a binder."""
    async with control_plane(folder, binaries, Options(audit=True)) as plane:
        admin = plane.cluster.admin
        catalog = Catalog(plane)
        try:
            await kinds.install(plane.cluster)
            await catalog.install()
            await catalog.enforce()
            for name, resource in RESOURCES.items():
                await admin.create(gpu_class(name, resource, disclosure=DISCLOSURES[name]))
            for number in range(size.nodes):
                devices = NODES[number % len(NODES)]
                amounts = {RESOURCES[name]: count for name, count in devices.items()}
                labels = RARE if number % len(NODES) == 0 else None
                await admin.create(nodes.node(node_name(number), amounts, labels))
            for tenant in TENANTS:
                await plane.cluster.create_namespace(tenant)
                of = {c: n for (namespace, c), n in size.budgets.items() if namespace == tenant}
                hard = {class_key(name): str(units) for name, units in of.items()}
                await admin.create(quota(tenant, hard))
            await _disks(admin, size)
            async with kubevirt(plane.cluster, timing=Timing(speed=20)):
                yield plane
        finally:
            await catalog.stop()


def machine(number: int, strategy: str) -> Object:
    """A VM."""
    namespace, name, wish = tenant_of(number), machine_name(number), wish_of(number)
    annotations = {}
    if wish.entries:
        named = [{"className": each, "count": count} for each, count in wish.entries.items()]
        annotations[v.ANNOTATION_CLASSES] = json.dumps(named)
    if wish.ordered:
        annotations[v.ANNOTATION_CLAIMS] = json.dumps([name])
    disk = {"name": "root", "persistentVolumeClaim": {"claimName": name}}
    spec: Object = {
        "domain": {"devices": {}},
        "nodeSelector": dict(wish.selector),
        "volumes": [disk] if wish.has_disk else [],
    }
    return {
        "apiVersion": w.API_VERSION,
        "kind": v.KIND_VM,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "runStrategy": strategy,
            "template": {"metadata": {"annotations": annotations}, "spec": spec},
        },
    }


async def _disks(admin: Api, size: Size) -> None:
    """Make each disk on its node; returns once all are bound."""
    for (namespace, name), node in size.disks.items():
        here = {"key": w.LABEL_HOSTNAME, "operator": "In", "values": [node]}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": f"{namespace}-{name}",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await admin.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{namespace}-{name}"},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "claimRef": {"namespace": namespace, "name": name},
                    "local": {"path": "/data"},
                    "nodeAffinity": {
                        "required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
                    },
                },
            }
        )
        await admin.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec,
            }
        )

    async def bound() -> bool:
        return all(phase_of(each) == "Bound" for each in await admin.list(w.PVC))

    await wait_until(bound, "every disk is bound")
