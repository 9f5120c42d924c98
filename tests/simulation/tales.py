"""Histories that are told by hand, and a small cluster to tell them of.

The cluster: node `n1` with four units of class `a100`, `n2` with two, and a VM of tenant
`tenant-a` that asks for two and waits at its gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from tests.simulation import things
from tests.simulation.judge import VIEW_SECONDS
from tests.simulation.kinds import kind_named
from tests.simulation.policies import ADMIN, BINDER, KUBEVIRT
from tests.simulation.store import Change, Store

Raw = dict[str, Any]

A, B = f"{BINDER}#a", f"{BINDER}#b"
HOME = "tenant-a"
LONG = VIEW_SECONDS + 1


@dataclass
class Tale:
    """A history as it is told. Whatever is written is taken: no API server is in the way."""

    now: float = 0.0
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store(lambda: self.now, [self.changes.append])
        self._uids = 0

    def put(self, obj: Raw, who: str = ADMIN) -> Raw:
        """An object is stored."""
        kind = kind_named(_resource(obj))
        metadata = dict(obj["metadata"])
        if "uid" not in metadata:
            self._uids += 1
            metadata["uid"] = f"uid-{self._uids}"
        key = (metadata.get("namespace", ""), metadata["name"])
        return self.store.put(kind, key, {**obj, "metadata": metadata}, who)

    def drop(self, obj: Raw, who: str = ADMIN) -> None:
        """An object goes."""
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self.store.remove(kind_named(_resource(obj)), key, obj, who)

    def wait(self, seconds: float = LONG) -> None:
        """Time passes."""
        self.now += seconds


def _resource(obj: Raw) -> str:
    return {
        "Node": "nodes",
        "Pod": "pods",
        "Namespace": "namespaces",
        "ConfigMap": "configmaps",
        "Event": "events",
        "Secret": "secrets",
        "ResourceQuota": "resourcequotas",
        "GPUClaim": "gpuclaims",
        "GPUClass": "gpuclasses",
        "GPUSystem": "gpusystems",
        "VirtualMachineInstance": "virtualmachineinstances",
    }[obj["kind"]]


@dataclass
class Cluster(Tale):
    """The small cluster, with a VM that waits at its gate for a while."""

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        self.put(things.system(1), A)
        self.n1 = self.put(things.node("n1", a100=4))
        self.n2 = self.put(things.node("n2", a100=2))
        self.put(things.namespace(HOME))
        self.put(things.gpu_class("a100"))
        self.vmi = self.vmi_of("vm", 2)
        self.pod = self.put(things.launcher(self.vmi, "launcher", a100=2), KUBEVIRT)
        self.claim = self.put(things.template_claim(self.vmi, "uid-of-vm-0", "a100", 2), A)
        self.wait()

    def vmi_of(self, name: str, units: int) -> Raw:
        """A VM that asks for units of the class."""
        recorded = things.record([{"className": "a100", "count": units}], [])
        return self.put(things.vmi(HOME, name, f"uid-of-{name}", recorded), KUBEVIRT)

    def order(self, name: str, units: int) -> Raw:
        """A claim of the tenant's own."""
        return self.put(things.claim(HOME, name, "a100", units))

    def book(self, claim: Raw, node: str = "n1", who: str = A, term: int = 1) -> Raw:
        """A claim is bound."""
        return self.put(things.booked(claim, node, term), who)

    def start(self) -> Raw:
        """The VM is placed and runs, all as it should be."""
        self.claim = self.book(self.claim)
        pod = self.put(things.pinned(self.pod, "n1"), A)
        running = {**pod, "spec": {**pod["spec"], "nodeName": "n1"}, "status": {"phase": "Running"}}
        self.pod = self.put(running, KUBEVIRT)
        return self.pod
