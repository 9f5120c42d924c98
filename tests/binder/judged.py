"""Whether every VM runs with all its GPUs or waits for a true reason, once nothing moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.binder.truth import (
    FITS,
    Key,
    Moment,
    Waiting,
    World,
    by_key,
    claim_names,
    is_gated,
    is_template,
    mark_of,
    node_of,
    reasons,
    told_of,
)
from tests.cluster.api import Object
from tests.kubevirt.objects import (
    condition,
    is_final,
    is_going,
    name_of,
    namespace_of,
    phase_of,
    status_of,
    uid_of,
)


@dataclass(frozen=True, slots=True)
class Scene:
    """All objects at one time.

    Attributes:
        world: what the test knows of it.
        told: the last reason of which an event told, by uid of an instance.
    """

    world: World
    machines: Sequence[Object]
    instances: Sequence[Object]
    pods: Sequence[Object]
    claims: Sequence[Object]
    told: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong, and how many VMs stand how: `Running`, `Stopped`, or a reason to wait."""

    wrong: tuple[str, ...]
    standing: Counter[str]


def judge(scene: Scene) -> Verdict:
    """Look at every VM and every order."""
    wrong: list[str] = []
    standing = Counter[str]()
    instances, claims = by_key(scene.instances), by_key(scene.claims)
    used: set[Key] = set()
    for vm in scene.machines:
        vmi = instances.get((namespace_of(vm), name_of(vm)))
        if vmi is None:
            standing["Stopped"] += 1
            if vm["spec"]["runStrategy"] == "Always":
                wrong.append(f"{_name(vm)} has no instance")
            continue
        names = [(namespace_of(vmi), name) for name in claim_names(vmi)]
        used.update(names)
        found = [claims[name] for name in names if name in claims]
        pods = [each for each in scene.pods if mark_of(each) == uid_of(vmi) and not is_final(each)]
        if is_going(vm) or is_going(vmi) or len(pods) != 1 or is_going(pods[0]):
            wrong.append(f"{_name(vm)} is on its way: {len(pods)} pods, {phase_of(vmi)}")
        elif len(found) != len(names):
            wrong.append(f"{_name(vm)} has {len(found)} of {len(names)} claims")
        elif not is_gated(pods[0]):
            standing[phase_of(vmi)] += 1
            wrong += _runs(vm, vmi, pods[0], found)
    wrong += [
        f"{_name(claim)} is left behind"
        for key, claim in claims.items()
        if key not in used and is_template(claim)
    ]
    pods_now, vmis_now = ({uid_of(o): o for o in some} for some in (scene.pods, scene.instances))
    for each, why in reasons(scene.world, Moment(claims, pods_now, vmis_now)):
        standing[" or ".join(sorted(why))] += 1
        wrong += _says(each, why, scene.told)
    return Verdict(tuple(wrong), standing)


def _runs(vm: Object, vmi: Object, pod: Object, claims: Sequence[Object]) -> list[str]:
    nodes = {node_of(claim) for claim in claims}
    on = pod["spec"].get("nodeName", "")
    if phase_of(vmi) != "Running" or status_of(vmi).get("nodeName") != on:
        return [f"{_name(vm)} is {phase_of(vmi)} on {on}"]
    return [] if nodes == {on} else [f"{_name(vm)} is on {on}, its claims are on {nodes}"]


def _says(each: Waiting, why: frozenset[str], told: Mapping[str, str]) -> list[str]:
    """Where a reason is not told as it is."""
    wrong = []
    reason = " or ".join(sorted(why))
    if any(each.startswith(FITS) for each in why):
        return [f"{each.who} waits; it {reason}"]
    for claim in each.lacking:
        said, bound = told_of(claim), condition(claim, "Bound")
        if said not in why or (bound.get("status"), bound.get("reason")) != ("False", said):
            wrong.append(f"{each.who} says {said or 'nothing'}, and {bound}; it is {reason}")
    if each.uid and told.get(each.uid) not in why:
        wrong.append(f"{each.who}: the last event told {told.get(each.uid)}; it is {reason}")
    return wrong


def _name(obj: Object) -> str:
    return f"{namespace_of(obj)}/{name_of(obj)}"
