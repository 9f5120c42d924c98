"""Whether every VM runs with all its GPUs or waits for a true reason, worked out from the objects.

Nothing of the code under test is asked. The worlds judged here have open nodes alone, VMs that fit
on any of them but for their GPUs, tenants without others above them, and no pods beside VMs'.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared import vocabulary as v
from tests.cluster.api import Object
from tests.kubevirt.objects import annotations_of, is_final, is_going, phase_of, status_of, uid_of

Key = tuple[str, str]
"""A namespace and a name."""


@dataclass(frozen=True, slots=True)
class Scene:
    """All objects at one time, and what the test knows of its world.

    Attributes:
        resources: what each class's units are called on nodes.
        budgets: units of a class that a namespace may have, by both.
        told: the last reason of which an event told, by uid of an instance.
    """

    machines: Sequence[Object]
    instances: Sequence[Object]
    pods: Sequence[Object]
    claims: Sequence[Object]
    nodes: Sequence[Object]
    resources: Mapping[str, str]
    budgets: Mapping[Key, int]
    told: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A VM, or an order without one, that has not got all its units.

    Attributes:
        rank: its place: VMs before orders, then by age.
        held: its claims that are booked.
        lacking: its claims that are not.
    """

    rank: tuple[int, str, str, str]
    who: str
    namespace: str
    uid: str
    held: tuple[Object, ...]
    lacking: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, and how many VMs stand how: `Running`, `Stopped`, or a reason to wait."""

    wrong: tuple[str, ...]
    standing: Counter[str]


def judge(scene: Scene) -> Verdict:
    """Look at every VM and every order."""
    wrong: list[str] = []
    standing = Counter[str]()
    waiting: list[Waiting] = []
    instances = {_key(vmi): vmi for vmi in scene.instances}
    claims = {_key(claim): claim for claim in scene.claims}
    used: set[Key] = set()
    for vm in scene.machines:
        vmi = instances.get(_key(vm))
        if vmi is None:
            standing["Stopped"] += 1
            if vm["spec"]["runStrategy"] == "Always":
                wrong.append(f"{_name(vm)} has no instance")
            continue
        names = [(_key(vmi)[0], name) for name in claim_names(vmi)]
        used.update(names)
        found = [claims[name] for name in names if name in claims]
        pods = [p for p in scene.pods if _mark(p) == uid_of(vmi) and not is_final(p)]
        if is_going(vm) or is_going(vmi) or len(pods) != 1:
            wrong.append(f"{_name(vm)} is on its way: {len(pods)} pods, {phase_of(vmi)}")
        elif len(found) != len(names):
            wrong.append(f"{_name(vm)} has {len(found)} of {len(names)} claims")
        elif pods[0]["spec"].get("schedulingGates"):
            waiting.append(_waits(vm, vmi, pods[0], found))
        else:
            standing[phase_of(vmi)] += 1
            wrong += _runs(vm, vmi, pods[0], found)
    for key, claim in claims.items():
        if key not in used and v.LABEL_TEMPLATE in (claim["metadata"].get("labels") or {}):
            wrong.append(f"{_name(claim)} is left behind")
        elif key not in used and not node_of(claim):
            rank = (1, claim["metadata"]["creationTimestamp"], *key)
            waiting.append(Waiting(rank, f"order {_name(claim)}", key[0], "", (), (claim,)))
    for each, reason in _reasons(scene, sorted(waiting, key=lambda each: each.rank)):
        standing[reason] += 1
        wrong += _says(each, reason, scene.told)
    return Verdict(tuple(wrong), standing)


def claim_names(vmi: Object) -> list[str]:
    """The claims of an instance, by its record of admission."""
    record = json.loads(annotations_of(vmi).get(v.ANNOTATION_ATTACHMENTS, "[]"))
    return [each.get("claim") or f"{uid_of(vmi)}-{each['entry']}" for each in record]


def node_of(claim: Object) -> str:
    """Where a claim is booked."""
    return str(status_of(claim).get("nodeName", ""))


def count_of(claim: Object) -> int:
    """How many units it is about."""
    return int(claim["spec"]["count"])


def class_of(claim: Object) -> str:
    """The class that it names."""
    return str(claim["spec"]["className"])


def _runs(vm: Object, vmi: Object, pod: Object, claims: Sequence[Object]) -> list[str]:
    nodes = {node_of(claim) for claim in claims}
    on = pod["spec"].get("nodeName", "")
    if phase_of(vmi) != "Running" or status_of(vmi).get("nodeName") != on:
        return [f"{_name(vm)} is {phase_of(vmi)} on {on}"]
    return [] if nodes == {on} else [f"{_name(vm)} is on {on}, its claims are on {nodes}"]


def _waits(vm: Object, vmi: Object, pod: Object, claims: Sequence[Object]) -> Waiting:
    metadata = pod["metadata"]
    rank = (0, metadata["creationTimestamp"], metadata["namespace"], metadata["name"])
    held = tuple(claim for claim in claims if node_of(claim))
    lacking = tuple(claim for claim in claims if not node_of(claim))
    return Waiting(rank, _name(vm), metadata["namespace"], uid_of(vmi), held, lacking)


def _reasons(scene: Scene, waiting: Sequence[Waiting]) -> list[tuple[Waiting, str]]:
    """Why each waits, the oldest first: of a budget what older ones wait for is taken already."""
    taken = Counter[Key]()
    free = Counter[Key]()
    for node in scene.nodes:
        for resource in scene.resources.values():
            amount = int(node["status"]["allocatable"].get(resource, "0"))
            free[node["metadata"]["name"], resource] = amount
    for claim in scene.claims:
        if node_of(claim):
            taken[claim["metadata"]["namespace"], class_of(claim)] += count_of(claim)
            free[node_of(claim), scene.resources[class_of(claim)]] -= count_of(claim)
    found = []
    for each in waiting:
        for claim in each.lacking:
            taken[each.namespace, class_of(claim)] += count_of(claim)
        if any(
            taken[key] > scene.budgets[key]
            for claim in each.lacking
            if (key := (each.namespace, class_of(claim))) in scene.budgets
        ):
            found.append((each, "BudgetExceeded"))
            continue
        found.append((each, _without_budget(each, scene, free)))
    return found


def _without_budget(each: Waiting, scene: Scene, free: Counter[Key]) -> str:
    """Why no node takes all of it, with what it holds given back."""
    left = free.copy()
    asked = Counter[str]()
    for claim in each.held:
        left[node_of(claim), scene.resources[class_of(claim)]] += count_of(claim)
    for claim in (*each.held, *each.lacking):
        asked[scene.resources[class_of(claim)]] += count_of(claim)
    nodes = {node for node, _ in left}
    for resource, units in asked.items():
        if sum(left[node, resource] for node in nodes) < units:
            return "NoCapacity"
    for node in sorted(nodes):
        if all(left[node, resource] >= units for resource, units in asked.items()):
            return f"fits on {node}"
    return "SetDoesNotFitOneNode"


def _says(each: Waiting, reason: str, told: Mapping[str, str]) -> list[str]:
    """Where a reason is not told as it is."""
    wrong = []
    for claim in each.lacking:
        said = (status_of(claim).get("waiting") or {}).get("reason", "nothing")
        conditions = {each["type"]: each for each in status_of(claim).get("conditions", ())}
        bound = conditions.get("Bound", {})
        if said != reason or (bound.get("status"), bound.get("reason")) != ("False", reason):
            wrong.append(f"{each.who} says {said}, and {bound}; it is {reason}")
    if each.uid and told.get(each.uid) != reason:
        wrong.append(f"{each.who}: the last event told {told.get(each.uid)}; it is {reason}")
    return wrong


def _mark(pod: Object) -> str:
    return annotations_of(pod).get(v.ANNOTATION_LAUNCHER, "")


def _key(obj: Object) -> Key:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _name(obj: Object) -> str:
    return "/".join(_key(obj))
