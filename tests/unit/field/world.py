"""A cluster of raw objects, as the API server sends them, and the figures that come of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shared.core.cluster import ClusterState
from shared.core.model import Gone, Object, Put
from shared.core.options import Option
from tests.worlds.reading import value

Raw = dict[str, Any]

L40S = "nvidia.com/AD102GL_L40S"
CLASS_KEY = "l40s.gpuclass.gpu.cozystack.io/units"
L40S_CLASS: Raw = {
    "kind": "GPUClass",
    "metadata": {"name": "l40s"},
    "spec": {"vendor": "NVIDIA", "mode": "Passthrough", "resourceName": L40S},
}


def namespace(name: str) -> Raw:
    return {"kind": "Namespace", "metadata": {"name": name}}


def node(name: str, units: str, resource: str = L40S) -> Raw:
    ready = {"type": "Ready", "status": "True"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubevirt.io/schedulable": "true"}},
        "status": {"allocatable": {resource: units}, "conditions": [ready]},
    }


def quota(where: str, hard: object, name: str = "tenant-quota") -> Raw:
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": where},
        "spec": {"hard": hard},
    }


def claim(where: str, name: str, units: object, **status: object) -> Raw:
    return {
        "kind": "GPUClaim",
        "metadata": {"name": name, "namespace": where, "uid": f"{where}/{name}"},
        "spec": {"className": "l40s", "count": units},
        "status": status,
    }


def pod(where: str, name: str, phase: str, units: int = 1, at: str = "", **metadata: object) -> Raw:
    resources = {"limits": {L40S: str(units)}, "requests": {L40S: str(units)}}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": where, "uid": f"{where}/{name}", **metadata},
        "spec": {**spec, "nodeName": at} if at else spec,
        "status": {"phase": phase},
    }


@dataclass
class Cluster:
    """A state that raw objects are put into."""

    state: ClusterState = field(default_factory=ClusterState)

    @classmethod
    def of(cls, *objects: Raw) -> Cluster:
        """One with a class `l40s`."""
        made = cls()
        made.put(L40S_CLASS, *objects)
        return made

    def put(self, *objects: Raw) -> None:
        for raw in objects:
            self.state.apply(Put(_value(raw)))

    def gone(self, *objects: Raw) -> None:
        for raw in objects:
            self.state.apply(Gone(_value(raw)))

    def option(self, where: str) -> Option:
        """What a tenant is shown of the class."""
        shown = self.state.option(where, "l40s")
        assert shown is not None
        return shown

    def remaining(self, where: str) -> int | None:
        """What is left of the budget."""
        return self.option(where).budget.remaining

    @property
    def free(self) -> int:
        """Units that are free."""
        return self.state.capacity("l40s").free


def _value(raw: Raw) -> Object:
    found = value(raw)
    assert found is not None
    return found
