"""Which pods' units are claims' units: launchers, sets, and what they hold beyond claims.

A set is all claims of one VM. What its launchers request is the claims' own, unit by unit; only
what goes beyond is counted again (rules 4.5, 4.6 and 7.13).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import lru_cache

from shared.core.budgets import class_key
from shared.core.model import Claim, GpuClass, Pod, Vmi


def is_launcher(pod: Pod, vmi: Vmi) -> bool:
    """Whether a pod is this VMI's launcher.

    It is owned by the VMI, listed in its activePods, and marked by us with its uid. An owner
    reference proves nothing, and KubeVirt lists strangers' pods too.
    """
    return (
        pod.owner == vmi.uid
        and pod.uid in vmi.active_pods
        and pod.launcher_mark == vmi.uid
        and pod.namespace == vmi.namespace
    )


def place(pod: Pod) -> str:
    """The node on which a pod takes room: scheduled there, or marked by us and pinned there.

    Empty where it takes none. A stranger's pin counts nowhere: anyone can write one.
    """
    if pod.ended:
        return ""
    if pod.node_name:
        return pod.node_name
    return pod.pinned_to if pod.launcher_mark else ""


def devices(pod: Pod, named: Container[str]) -> dict[str, int]:
    """The devices that a pod requests: extended resources that somebody named, with their units."""
    return {
        name: units
        for name, units in pod.requests.items()
        if name in named and "/" in name and units > 0
    }


def resource_of(claim: Claim, classes: Mapping[str, GpuClass]) -> str:
    """The resource that a claim is of: as recorded when bound, before that the class's present.

    Empty where neither is known.
    """
    if claim.resource_name:
        return claim.resource_name
    gpu_class = classes.get(claim.class_name)
    return gpu_class.resource_name if gpu_class is not None else ""


def held_outside(
    held: Iterable[Mapping[str, int]], claims: Iterable[Claim], classes: Mapping[str, GpuClass]
) -> dict[str, int]:
    """Units by resource that launchers of one set hold on one node beyond the claims there.

    Args:
        held: the devices of each of the set's launchers on that node.
        claims: the set's claims booked on that node.
        classes: all classes.
    """
    outside: dict[str, int] = {}
    for each in held:
        for name, units in each.items():
            outside[name] = outside.get(name, 0) + units
    return _less(outside, claims, classes)


def used_beyond(
    held: Iterable[Mapping[str, int]], claims: Iterable[Claim], classes: Mapping[str, GpuClass]
) -> dict[str, int]:
    """Units by resource that a set uses of the budget beyond its claims.

    A migrating VM has two launchers and counts once: the larger request. All claims of the set
    cover, wherever they are booked, Lost ones too.

    Args:
        held: the devices of each of the set's launchers.
        claims: the set's claims.
        classes: all classes.
    """
    used: dict[str, int] = {}
    for each in held:
        for name, units in each.items():
            used[name] = max(used.get(name, 0), units)
    return _less(used, claims, classes)


def _less(
    held: dict[str, int], claims: Iterable[Claim], classes: Mapping[str, GpuClass]
) -> dict[str, int]:
    """What is left of units by resource when those of claims are taken off."""
    for claim in claims:
        name = resource_of(claim, classes)
        if name in held:
            held[name] -= claim.count
    return {name: units for name, units in held.items() if units > 0}


def claim_use(claim: Claim, classes: Mapping[str, GpuClass]) -> Mapping[str, int]:
    """What a claim counts for, by budget key: the class's key and the device's."""
    return _both_keys(claim.class_name, resource_of(claim, classes), claim.count)


@lru_cache(maxsize=4096)
def _both_keys(class_name: str, resource: str, units: int) -> Mapping[str, int]:
    """One mapping for all claims that count alike. Never change it."""
    use = {class_key(class_name): units}
    if resource:
        use[resource] = units
    return use


def recorded_use(used: Mapping[str, int], vmi: Vmi) -> dict[str, int]:
    """What a set without claims counts for under class keys, by its record of admission.

    In placement mode `scheduler` no claims are made for class entries, so marked launchers
    count under both keys (rule 4.5).
    """
    left = dict(used)
    use: dict[str, int] = {}
    for entry in vmi.record:
        units = min(entry.count, left.get(entry.resource_name, 0))
        if entry.class_name and units > 0:
            key = class_key(entry.class_name)
            use[key] = use.get(key, 0) + units
            left[entry.resource_name] -= units
    return use
