"""What must hold once nobody changes anything any more, and a binder had time for ten passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from shared import vocabulary as v
from tests.kubevirt.objects import condition, is_going, name_of, namespace_of, phase_of, uid_of
from tests.simulation import facts
from tests.simulation.judge import SKIP_SECONDS
from tests.simulation.seen import CLAIMS, NODES, PODS, Seen
from tests.simulation.tenants import levels, limit

Raw = dict[str, Any]

_WAITING: Final = frozenset({"Scheduling", "Pending", ""})


def wrongs(seen: Seen) -> list[str]:
    """All that is not as it must be."""
    return [*_torn(seen), *_idle(seen), *_untold(seen), *_untrue(seen), *_left_behind(seen)]


def _torn(seen: Seen) -> Iterator[str]:
    """A set is on one node, or nowhere (rule 7.4)."""
    for vmi in seen.vmis.values():
        # An order that its VM does not use yet stays where it is while the VM waits.
        places = {
            facts.node_of(claim)
            for claim in seen.claims_of(vmi)
            if facts.is_template(claim) or facts.attached_to(claim)
        }
        if len(places) > 1 and not _is_final(vmi):
            told = ", ".join(sorted(place or "nowhere" for place in places))
            yield f"the set of {facts.shown(vmi)} is in parts: {told}"


def _idle(seen: Seen) -> Iterator[str]:
    """What fits on a node does not wait (rule 7.3)."""
    for pod in _at_the_gate(seen):
        vmi = seen.vmis.get(facts.mark_of(pod))
        if vmi is None or _is_disputed(seen, vmi):
            continue
        wanted = Counter[str]()
        for entry in facts.record_of(vmi):
            gpu_class = seen.get(v.RESOURCE_CLASSES, "", entry.class_name)
            if gpu_class is not None:
                wanted[gpu_class["spec"]["resourceName"]] += entry.count
        own = seen.claims_of(vmi)
        if not _is_within_budget(seen, vmi, own, _earlier(seen, pod)):
            continue
        for node in seen.all(NODES):
            if _fits(seen, vmi, node, wanted, own):
                yield f"{facts.shown(pod)} waits, and fits on {name_of(node)}"
                break


def _untold(seen: Seen) -> Iterator[str]:
    """Who waits is told why (rule 7.9)."""
    for pod in _at_the_gate(seen):
        vmi = seen.vmis.get(facts.mark_of(pod))
        if vmi is None or _is_disputed(seen, vmi):
            continue
        claims = seen.claims_of(vmi)
        if not claims:
            yield f"{facts.shown(pod)} waits and has no claims"
        for claim in claims:
            if is_going(claim) or (facts.node_of(claim) and not facts.attached_to(claim)):
                continue
            if condition(claim, "Bound").get("status") != "False":
                yield f"{facts.shown(claim)} waits and does not say so"
            elif condition(claim, "Bound")["reason"] == "Unevaluated":
                yield f"{facts.shown(claim)} waits and does not say why"


def _untrue(seen: Seen) -> Iterator[str]:
    """Whose start is refused no more does not say so any longer (rule 7.16)."""
    for claim in seen.all(CLAIMS):
        told = condition(claim, "Attached")
        if told.get("status") == "True" and told.get("message"):
            yield f"{facts.shown(claim)} is attached, and says: {told['message']}"


def _left_behind(seen: Seen) -> Iterator[str]:
    """Nothing stays that nobody needs (rule 3.2)."""
    for claim in seen.all(CLAIMS):
        alive = [uid for uid in facts.made_for(claim) if uid in seen.vmis]
        if facts.is_template(claim) and not alive:
            yield f"{facts.shown(claim)} is a template claim of nobody"
        elif is_going(claim) and not any(
            pod["spec"].get("nodeName") for uid in [*seen.vmis] for pod in seen.pods_of(uid)
        ):
            yield f"{facts.shown(claim)} was deleted and stays"
        attached = facts.attached_to(claim)
        if attached and attached not in _users(seen):
            yield f"{facts.shown(claim)} is attached to what is gone"


def _at_the_gate(seen: Seen) -> Iterator[Raw]:
    for pod in seen.all(PODS):
        if facts.gates(pod) == [v.GATE] and facts.mark_of(pod) and not is_going(pod):
            yield pod


def _users(seen: Seen) -> set[str]:
    return {uid_of(vm) for vm in seen.all("virtualmachines")} | set(seen.vmis)


def _is_final(vmi: Raw) -> bool:
    return phase_of(vmi) in {"Succeeded", "Failed"} or is_going(vmi)


def _is_disputed(seen: Seen, vmi: Raw) -> bool:
    """Whether the set lacks a claim that its record names, or one of them is somebody else's."""
    users = {uid_of(vmi), facts.machine_of(vmi)}
    for entry in facts.record_of(vmi):
        if entry.claim:
            claim = seen.get(CLAIMS, namespace_of(vmi), entry.claim)
            if claim is None or is_going(claim):
                return True
            attached = facts.attached_to(claim)
            if attached and attached not in users:
                return True
            if not attached and _named_by_others(seen, vmi, entry.claim):
                return True
    return _is_final(vmi)


def _named_by_others(seen: Seen, vmi: Raw, claim: str) -> bool:
    """Whether another VMI names a claim, too: it is the older one's (rule 6.1.4)."""
    return any(
        other is not vmi
        and namespace_of(other) == namespace_of(vmi)
        and any(entry.claim == claim for entry in facts.record_of(other))
        for other in seen.vmis.values()
    )


def _earlier(seen: Seen, pod: Raw) -> list[Raw]:
    """Claims of the sets at the gate that are older: they count, bound or not (rule 7.7)."""
    vmis = [
        seen.vmis.get(facts.mark_of(each)) for each in _at_the_gate(seen) if _age(each) < _age(pod)
    ]
    return [claim for vmi in vmis if vmi is not None for claim in seen.claims_of(vmi)]


def _age(pod: Raw) -> tuple[str, str, str]:
    return (pod["metadata"].get("creationTimestamp", ""), namespace_of(pod), name_of(pod))


def _is_within_budget(seen: Seen, vmi: Raw, own: list[Raw], earlier: list[Raw]) -> bool:
    asked = [claim for claim in own if not facts.node_of(claim) and not facts.is_lost(claim)]
    more = [*asked, *earlier]
    for claim in asked:
        gpu_class = seen.get(v.RESOURCE_CLASSES, "", claim["spec"]["className"])
        if gpu_class is None:
            return False
        for key, is_of in (
            (f"{claim['spec']['className']}{v.CLASS_KEY_SUFFIX}", "class"),
            (gpu_class["spec"]["resourceName"], "device"),
        ):
            for level in levels(seen, namespace_of(vmi)):
                hard = limit(seen, level, key)
                if hard is not None and _used(seen, level, key, is_of, more) > hard:
                    return False
    return True


def _used(seen: Seen, level: str, key: str, is_of: str, more: list[Raw]) -> int:
    """Units of a key below a level, what is bound and what is to be."""
    wanted = {uid_of(claim) for claim in more}
    used = 0
    for claim in seen.all(CLAIMS):
        if level not in levels(seen, namespace_of(claim)):
            continue
        counts = facts.node_of(claim) or facts.is_lost(claim) or uid_of(claim) in wanted
        name = claim["spec"]["className"]
        gpu_class = seen.get(v.RESOURCE_CLASSES, "", name)
        device = facts.resource_of(claim) or (gpu_class or {"spec": {}})["spec"].get("resourceName")
        if counts and key == (f"{name}{v.CLASS_KEY_SUFFIX}" if is_of == "class" else device):
            used += facts.count_of(claim)
    if is_of == "device":
        used += sum(
            facts.requested(pod)[key]
            for pod in seen.all(PODS)
            if not facts.mark_of(pod)
            and level in levels(seen, namespace_of(pod))
            and phase_of(pod) not in {"Succeeded", "Failed"}
        )
    return used


def _fits(seen: Seen, vmi: Raw, node: Raw, wanted: Counter[str], own: list[Raw]) -> bool:
    name = name_of(node)
    if node["spec"].get("unschedulable") or not facts.is_ready(node) or is_going(node):
        return False
    refused = seen.refusals.get((namespace_of(vmi), name_of(vmi), name))
    if refused is not None and seen.now - refused.at < SKIP_SECONDS:
        return False
    offered = facts.allocatable(node)
    for device, units in wanted.items():
        mine = sum(
            facts.count_of(claim)
            for claim in own
            if facts.node_of(claim) == name and facts.resource_of(claim) == device
        )
        taken = seen.booked(name, device) - mine + seen.outside(name, device)
        if offered.get(device, 0) - taken < units:
            return False
    return True
