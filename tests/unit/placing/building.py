"""Small clusters: a state with what matters, on nodes that are otherwise in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.core.cluster import ClusterState
from shared.core.demand import Demand, Part
from shared.core.model import Claim, GpuClass, Node, Object, Pod, Put
from shared.core.placing import PodPlacing, Presence
from shared.core.scheduling import Taint, Toleration
from shared.core.sites import Sites

A, B, C = "nvidia.com/A", "nvidia.com/B", "nvidia.com/C"
GPU = Taint("gpu", "NoSchedule")
TOLERANT = (Toleration("gpu", "Exists"),)
ALPHA = GpuClass("alpha", A)
BETA = GpuClass("beta", B)
GAMMA = GpuClass("gamma", C)


def node(
    name: str,
    units: int | Mapping[str, int] = 8,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    **amounts: int,
) -> Node:
    """A node in order, with units of A or of several devices."""
    devices = {A: units} if isinstance(units, int) else units
    return Node(
        name,
        {"cpu": 64_000, "memory": 1 << 40, "pods": 110, **devices, **amounts},
        {"kubevirt.io/schedulable": "true", "kubernetes.io/hostname": name, **(labels or {})},
        taints,
        ready=True,
    )


def pod(
    name: str = "launcher",
    on: str = "",
    namespace: str = "tenant-a",
    requests: Mapping[str, int] | None = None,
    presence: Presence | None = None,
    placing: PodPlacing | None = None,
) -> Pod:
    """A pod on a node, or one that waits."""
    return Pod(
        namespace,
        name,
        uid=name,
        node_name=on,
        requests=requests or {"cpu": 1000},
        presence=presence or Presence(),
        placing=placing,
    )


def waiting(presence: Presence | None = None, **placing: Any) -> Pod:  # noqa: ANN401 - of a PodPlacing
    """A launcher that waits to be placed, with these demands."""
    return pod(presence=presence, placing=PodPlacing(**placing))


def booked(name: str, on: str, units: int, class_name: str = "alpha") -> Claim:
    """A claim that holds units on a node."""
    resource = {"alpha": A, "beta": B}[class_name]
    return Claim("tenant-b", name, class_name, units, resource_name=resource, node_name=on)


def units(count: int, resource: str = A, **part: Any) -> Part:  # noqa: ANN401 - of a Part
    """Units of class alpha, beta or gamma."""
    return Part({A: "alpha", B: "beta", C: "gamma"}[resource], resource, count, **part)


def ask(count: int = 1, pod: Pod | None = None, **demand: Any) -> Demand:  # noqa: ANN401 - of a Demand
    """A set with units of class alpha."""
    return Demand((units(count),), pod, **demand)


def sites(*objects: Object) -> Sites:
    """What a state with these objects, and three classes, keeps for placing."""
    found = Sites()
    state = ClusterState(found)
    for each in (ALPHA, BETA, GAMMA, *objects):
        state.apply(Put(each))
    return found
