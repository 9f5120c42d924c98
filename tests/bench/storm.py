"""Changes to a dump, one after the other, on raw JSON: nothing here knows how we decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol
from uuid import UUID

import orjson

from shared import vocabulary as v

Raw = dict[str, object]


class Objects(Protocol):
    """The objects of one collection by place; None where one was deleted."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class Step:
    """One change: `index` is None for a new object; `kind` is that of a watch event."""

    collection: str
    index: int | None
    raw: Raw
    kind: str


Make = Callable[[Raw, Random], str]
"""Changes an object in place; returns the kind of event, or nothing where there is no change."""


def part(raw: Raw, *path: str) -> Raw:
    """An object within an object, made where it is missing."""
    for key in path:
        inner = raw.setdefault(key, {})
        assert isinstance(inner, dict), path
        raw = inner
    return raw


def pod(raw: Raw, chance: Random) -> str:
    """A pod ends, is deleted, or another is made like it."""
    die = chance.random()
    if die < 0.3:
        return "DELETED"
    if die < 0.6:
        uid = str(UUID(int=chance.getrandbits(128), version=4))
        part(raw, "metadata").update(name=f"pod-{uid}", uid=uid)
        return "ADDED"
    status = part(raw, "status")
    status["phase"] = "Running" if status["phase"] == "Succeeded" else "Succeeded"
    return "MODIFIED"


def claim(raw: Raw, chance: Random) -> str:
    """A claim is deleted, released, or ordered once more."""
    die = chance.random()
    if die < 0.3:
        return "DELETED"
    status = part(raw, "status")
    if die < 0.6:
        uid = str(UUID(int=chance.getrandbits(128), version=4))
        part(raw, "metadata").update(name=f"claim-{uid}", uid=uid)
        status.pop("attachedTo", None)
        return "ADDED"
    if "nodeName" not in status:
        return ""
    status.pop("nodeName")
    status.pop("attachedTo", None)
    return "MODIFIED"


def node(raw: Raw, chance: Random) -> str:
    """A node is cordoned or no longer, or its device plugin restarts."""
    if chance.random() < 0.5:
        spec = part(raw, "spec")
        spec["unschedulable"] = not spec.get("unschedulable", False)
        return "MODIFIED"
    allocatable = part(raw, "status", "allocatable")
    for name in allocatable:
        if name.startswith("nvidia.com/"):
            allocatable[name] = "0" if allocatable[name] != "0" else "8"
    return "MODIFIED"


def quota(raw: Raw, chance: Random) -> str:
    """A limit changes, now and then one goes."""
    hard = part(raw, "spec", "hard")
    name = chance.choice(sorted(hard)) if hard else ""
    if not name:
        return ""
    if chance.random() < 0.1:
        del hard[name]
    else:
        hard[name] = str(chance.randint(0, 300))
    return "MODIFIED"


def namespace(raw: Raw, chance: Random) -> str:
    """A tenant is entitled, or no longer."""
    labels = part(raw, "metadata", "labels")
    labels[v.LABEL_ENTITLEMENT] = chance.choice(("entitled", "denied"))
    return "MODIFIED"


def vmi(raw: Raw, chance: Random) -> str:
    """KubeVirt lists no pod of a VM for a moment, or the VM is gone, or another one comes."""
    die = chance.random()
    if die < 0.1:
        return "DELETED"
    if die < 0.2:
        uid = str(UUID(int=chance.getrandbits(128), version=4))
        part(raw, "metadata").update(name=f"vm-{uid}", uid=uid)
        return "ADDED"
    status = part(raw, "status")
    active = part(status, "activePods")
    status["activePods"], status["formerPods"] = status.get("formerPods", {}), active
    return "MODIFIED"


WEIGHTS: Mapping[str, tuple[int, Make]] = {
    "pods": (60, pod),
    v.RESOURCE_CLAIMS: (18, claim),
    "nodes": (10, node),
    v.RESOURCE_QUOTAS: (5, quota),
    "virtualmachineinstances": (5, vmi),
    "namespaces": (2, namespace),
}


def changes(objects: Mapping[str, Objects], chance: Random) -> Iterator[Step]:
    """Changes without end. Each is to be carried out before the next is asked for."""
    names = list(WEIGHTS)
    weights = [WEIGHTS[name][0] for name in names]
    while True:
        name = chance.choices(names, weights)[0]
        index = chance.randrange(len(objects[name]))
        encoded = objects[name][index]
        if encoded is None:
            continue
        raw: Raw = orjson.loads(encoded)
        kind = WEIGHTS[name][1](raw, chance)
        if kind:
            yield Step(name, None if kind == "ADDED" else index, raw, kind)
