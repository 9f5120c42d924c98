"""Why VMs and orders wait, worked out from all objects of one moment.

Nothing of the code under test is asked. The worlds judged here have open nodes alone, VMs that fit
on any of them but for their GPUs, their node selector and their disk, tenants without others above
them, and no pods beside VMs'.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from shared import vocabulary as v
from tests.cluster.api import Object
from tests.kubevirt.objects import (
    annotations_of,
    is_final,
    is_going,
    items,
    labels_of,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)

FITS: Final = "fits on "
"""How it begins where there is no reason to wait."""

_GOING: Final[Object] = {"metadata": {"deletionTimestamp": ""}}
"""Stands for what is not there."""

Key = tuple[str, str]
"""A namespace and a name."""


@dataclass(frozen=True, slots=True)
class World:
    """What a test knows, and nothing changes.

    Attributes:
        resources: what each class's units are called on nodes.
        budgets: units of a class that a namespace may have, by both.
        disks: the node of a claim for a disk, by namespace and name.
    """

    nodes: Sequence[Object]
    resources: Mapping[str, str]
    budgets: Mapping[Key, int]
    disks: Mapping[Key, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moment:
    """All objects at one time: claims by namespace and name, pods and instances by uid."""

    claims: Mapping[Key, Object]
    pods: Mapping[str, Object]
    instances: Mapping[str, Object]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A VM at the gate, or an order that no VM at the gate names, without all of its units.

    Attributes:
        rank: its place: VMs before orders, then by age.
        uid: of the instance; empty for an order.
        pod: the launcher; empty for an order.
        held: its claims that are booked.
        lacking: its claims that are there and are not.
        units: what it lacks, by class; claims that are still to be made among it.
        misses: whether an order that it names is not there, or about to go.
    """

    rank: tuple[int, str, str, str]
    who: str
    namespace: str
    uid: str
    pod: Object
    held: tuple[Object, ...]
    lacking: tuple[Object, ...]
    units: Mapping[str, int]
    misses: bool = False


def waiting_in(moment: Moment) -> list[Waiting]:
    """Whatever waits, in its order (rule 7.3)."""
    found = []
    named: set[Key] = set()
    for pod in moment.pods.values():
        vmi = moment.instances.get(mark_of(pod))
        if vmi is None or not is_gated(pod) or is_going(pod) or is_going(vmi) or is_final(pod):
            continue
        entries = entries_of(vmi)
        keys = [(namespace_of(vmi), name) for name, *_ in entries]
        named.update(keys)
        there = [claim for key in keys if (claim := moment.claims.get(key)) is not None]
        units = Counter[str]()
        for key, (_, class_name, count) in zip(keys, entries, strict=True):
            if not node_of(moment.claims.get(key, {})):
                units[class_name] += count
        metadata = pod["metadata"]
        found.append(
            Waiting(
                (0, metadata["creationTimestamp"], metadata["namespace"], metadata["name"]),
                f"{namespace_of(vmi)}/{name_of(vmi)}",
                metadata["namespace"],
                uid_of(vmi),
                pod,
                tuple(claim for claim in there if node_of(claim)),
                tuple(claim for claim in there if not node_of(claim)),
                units,
                misses=any(
                    is_going(moment.claims.get((namespace_of(vmi), name), _GOING))
                    for name in orders_of(vmi)
                ),
            )
        )
    for key, claim in moment.claims.items():
        if key not in named and not is_template(claim) and not node_of(claim):
            rank = (1, claim["metadata"]["creationTimestamp"], *key)
            units = Counter({class_of(claim): count_of(claim)})
            who = f"order {'/'.join(key)}"
            found.append(Waiting(rank, who, key[0], "", {}, (), (claim,), units))
    return sorted(found, key=lambda each: each.rank)


def reasons(world: World, moment: Moment) -> list[tuple[Waiting, frozenset[str]]]:
    """Why each waits: of a budget what older ones wait for is taken already (rule 7.7).

    There is one reason for each. But two things can be seen both ways, and where that makes a
    difference both are right: a claim, or a pod without one, that counts though its VM is about to
    go, until it is gone too (rule 4.5); and units that are free, but about to be an older one's
    (rule 7.3).
    """
    waiting = waiting_in(moment)
    free = _free(world, moment)
    seated = free.copy()
    taken, leaving = Counter[Key](), Counter[Key]()
    in_order = {id(claim) for each in waiting for claim in each.lacking}
    for claim in moment.claims.values():
        counts = taken if node_of(claim) else leaving
        if id(claim) not in in_order:
            counts[namespace_of(claim), class_of(claim)] += count_of(claim)
    leaving += _uncovered(moment, {each.uid for each in waiting})
    found = []
    for each in waiting:
        if each.misses:
            for claim in each.lacking:
                taken[each.namespace, class_of(claim)] += count_of(claim)
            found.append((each, frozenset({"ClaimNotFound"})))
            continue
        for class_name, units in each.units.items():
            taken[each.namespace, class_name] += units
        told = set()
        for besides in (Counter[Key](), leaving):
            is_over = any(
                taken[key] + besides[key] > world.budgets[key]
                for class_name in each.units
                if (key := (each.namespace, class_name)) in world.budgets
            )
            if is_over:
                told.add("BudgetExceeded")
            else:
                told |= {_without_budget(each, world, left) for left in (free, seated)}
        found.append((each, frozenset(told)))
        _seat(each, told, world, seated)
    return found


def _free(world: World, moment: Moment) -> Counter[Key]:
    """Units of a device on a node that are not booked, by both."""
    free = Counter[Key]()
    for node in world.nodes:
        for resource in world.resources.values():
            amount = node["status"]["allocatable"].get(resource, "0")
            free[name_of(node), resource] = int(amount)
    for claim in moment.claims.values():
        if node_of(claim):
            free[node_of(claim), world.resources[class_of(claim)]] -= count_of(claim)
    return free


def _uncovered(moment: Moment, waiting: set[str]) -> Counter[Key]:
    """What launchers ask for whose claims are not there, of VMs that do not wait any more."""
    found = Counter[Key]()
    for pod in moment.pods.values():
        vmi = moment.instances.get(mark_of(pod))
        if vmi is None or uid_of(vmi) in waiting or is_final(pod):
            continue
        for name, class_name, count in entries_of(vmi):
            if (namespace_of(vmi), name) not in moment.claims:
                found[namespace_of(vmi), class_name] += count
    return found


def _seat(each: Waiting, told: set[str], world: World, free: Counter[Key]) -> None:
    """Take for one what it gets: where it fits, from the fullest node (rule 7.6)."""
    nodes = _taking(each, world, free)
    if "BudgetExceeded" in told or not nodes:
        return
    asked = _asked(each, world)
    node = min(nodes, key=lambda name: (sum(free[name, resource] for resource in asked), name))
    for claim in each.held:
        free[node_of(claim), world.resources[class_of(claim)]] += count_of(claim)
    for resource, units in asked.items():
        free[node, resource] -= units


def _asked(each: Waiting, world: World) -> Counter[str]:
    """What the whole set is of each device."""
    asked = Counter[str]()
    for claim in each.held:
        asked[world.resources[class_of(claim)]] += count_of(claim)
    for class_name, units in each.units.items():
        asked[world.resources[class_name]] += units
    return asked


def _taking(each: Waiting, world: World, free: Counter[Key]) -> list[str]:
    """The nodes that take all of it; with what it holds given back."""
    reason = _without_budget(each, world, free)
    return reason.removeprefix(FITS).split() if reason.startswith(FITS) else []


def _without_budget(each: Waiting, world: World, free: Counter[Key]) -> str:
    """Why no node takes all of it, with what it holds given back (rule 3.4)."""
    left = free.copy()
    for claim in each.held:
        left[node_of(claim), world.resources[class_of(claim)]] += count_of(claim)
    asked = _asked(each, world)
    for resource, units in asked.items():
        if sum(left[name_of(node), resource] for node in world.nodes) < units:
            return "NoCapacity"
    roomy = [
        node
        for node in world.nodes
        if all(left[name_of(node), resource] >= units for resource, units in asked.items())
    ]
    if not roomy:
        return "SetDoesNotFitOneNode"
    wanted = (each.pod.get("spec", {}).get("nodeSelector") or {}).items()
    chosen = [node for node in roomy if wanted <= labels_of(node).items()]
    if not chosen:
        return "NoEligibleNode"
    disks = {
        world.disks[each.namespace, volume["persistentVolumeClaim"]["claimName"]]
        for volume in items(each.pod, "spec", "volumes")
        if "persistentVolumeClaim" in volume
    }
    reached = [name_of(node) for node in chosen if disks <= {name_of(node)}]
    return f"{FITS}{' '.join(reached)}" if reached else "VolumeOutOfReach"


# How objects are read.


def entries_of(vmi: Object) -> list[tuple[str, str, int]]:
    """The claims of an instance by its record of admission: name, class and units of each."""
    record = json.loads(annotations_of(vmi).get(v.ANNOTATION_ATTACHMENTS, "[]"))
    return [
        (each.get("claim") or f"{uid_of(vmi)}-{each['entry']}", each["className"], each["count"])
        for each in record
    ]


def orders_of(vmi: Object) -> list[str]:
    """The names of the orders that an instance uses."""
    record = json.loads(annotations_of(vmi).get(v.ANNOTATION_ATTACHMENTS, "[]"))
    return [str(each["claim"]) for each in record if "claim" in each]


def claim_names(vmi: Object) -> list[str]:
    """The names of the claims of an instance."""
    return [name for name, *_ in entries_of(vmi)]


def mark_of(pod: Object) -> str:
    """The uid of the instance of which a pod was admitted as a launcher; empty for others."""
    return annotations_of(pod).get(v.ANNOTATION_LAUNCHER, "")


def is_gated(pod: Object) -> bool:
    """Whether a pod waits at our gate."""
    return v.GATE in {each["name"] for each in items(pod, "spec", "schedulingGates")}


def is_template(claim: Object) -> bool:
    """Whether a claim was made for a class entry of a VM."""
    return v.LABEL_TEMPLATE in labels_of(claim)


def node_of(claim: Object) -> str:
    """Where a claim is booked."""
    return str(status_of(claim).get("nodeName", ""))


def count_of(claim: Object) -> int:
    """How many units it is about."""
    return int(claim["spec"]["count"])


def class_of(claim: Object) -> str:
    """The class that it names."""
    return str(claim["spec"]["className"])


def told_of(claim: Object) -> str:
    """The reason for which it says that it waits; empty where it does not say so."""
    return str((status_of(claim).get("waiting") or {}).get("reason", ""))


def by_key(objects: Iterable[Object]) -> dict[Key, Object]:
    """Objects by namespace and name."""
    return {(namespace_of(each), name_of(each)): each for each in objects}
