"""What a pass decides about as a whole: a VM's set, or an order that no VM names.

The order in which units are decided is that of rule 7.3, then by age, namespace and name; a unit
that comes later never stands in the way of one that comes earlier, and its budget counts only
after that of those before it (rule 7.7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from binder.actions import Ref
from binder.agenda import Agenda, Task
from binder.sets import GpuSet, Member, created, is_lost, set_of
from shared.core.cluster import ClusterState
from shared.core.demand import Demand, Part
from shared.core.model import Claim, Disclosure, GpuClass, Pod, Volume
from shared.core.placing import ClaimWritten
from shared.core.templates import template_name
from shared.reasons import PRECEDENCE

PHASES: Final = (Task.ELSEWHERE, Task.SPLIT, Task.GATED, Task.LOST, Task.UNBOUND, Task.OFF)
"""The tasks that are decided about, in the order of a pass (rule 7.3)."""

_STARTS: Final = frozenset({Task.GATED, Task.OFF})


@dataclass(frozen=True, slots=True)
class Item:
    """One claim of a unit: as it is, and as it counts while nothing is booked for it.

    `before` is None for a template claim that has to be made; `resource` is what the VM asks
    for, for an order without a VM that of its class now.
    """

    before: Claim | None
    unbound: Claim
    resource: str

    @property
    def ref(self) -> Ref:
        """The claim as this decision saw it; of one that has to be made, its name."""
        return claim_ref(self.before or self.unbound)

    @property
    def is_booked(self) -> bool:
        """Whether the claim is booked, as it is."""
        return self.before is not None and bool(self.before.node_name)


@dataclass(frozen=True, slots=True)
class Unit:
    """A set, or an order by itself; `task` is what it needs.

    `trouble` is why a claim that the VM names cannot be used, with that member; `is_unsure` is
    whether a claim of it is about to go, so that nothing can be decided yet.
    """

    key: str
    namespace: str
    task: Task
    since: str
    items: tuple[Item, ...]
    gpu_set: GpuSet | None = None
    trouble: Member | None = None
    is_unsure: bool = False
    name: str = field(default="", kw_only=True)

    @property
    def age(self) -> tuple[str, str, str, str]:
        """Its place among others that need the same."""
        return (self.since, self.namespace, self.name, self.key)

    @property
    def pod(self) -> Pod | None:
        """The launcher to start, where one waits at the gate."""
        if self.gpu_set is None or self.task not in _STARTS:
            return None
        return self.gpu_set.gated[0]

    @property
    def claims(self) -> list[Claim]:
        """Those of its claims that are there, as they are."""
        return [item.before for item in self.items if item.before is not None]

    @property
    def new_units(self) -> dict[str, int]:
        """Units by class that this unit would hold beyond what it holds, or has lost."""
        found: dict[str, int] = {}
        for item in self.items:
            before = item.before
            if before is None or not (before.node_name or is_lost(before)):
                name = item.unbound.class_name
                found[name] = found.get(name, 0) + item.unbound.count
        return found


def claim_ref(claim: Claim) -> Ref:
    """A claim as it was seen."""
    version = claim.written.resource_version if claim.written is not None else ""
    return Ref(claim.namespace, claim.name, claim.uid, version)


def units(state: ClusterState, agenda: Agenda, phases: Sequence[Task] = PHASES) -> list[Unit]:
    """What there is to decide, in the order of decisions."""
    found = [_of_vmi(state, uid, task) for uid, task in agenda.sets().items() if task in phases]
    found += [
        _alone(state, state.holders.claims[key], task)
        for key, task in agenda.claims().items()
        if task in phases
    ]
    return sorted(found, key=lambda unit: (phases.index(unit.task), unit.age))


def demand_of(unit: Unit, state: ClusterState) -> Demand:
    """What a unit asks of a node."""
    volumes, selected = _volumes(unit, state)
    return Demand(
        parts=tuple(_part(item, state.classes.get(item.unbound.class_name)) for item in unit.items),
        pod=unit.pod,
        volumes=volumes,
        selected_nodes=selected,
        stays_on=home(unit),
    )


def home(unit: Unit) -> str:
    """Where a unit's claims are booked: of several nodes the one with most units, then by name."""
    held: dict[str, int] = {}
    for item in unit.items:
        if item.before is not None and item.before.node_name:
            held[item.before.node_name] = held.get(item.before.node_name, 0) + item.before.count
    return min(held, key=lambda node: (-held[node], node), default="")


def _of_vmi(state: ClusterState, uid: str, task: Task) -> Unit:
    vmi = state.holders.vmis[uid]
    gpu_set = set_of(vmi, state.holders)
    makes = task in (Task.GATED, Task.ELSEWHERE)
    items = [
        _item(member, gpu_set)
        for member in gpu_set.members
        if member.trouble is None and (member.claim is not None or makes)
    ]
    troubles = [member for member in gpu_set.members if member.trouble is not None]
    gone = any(claim.deleting for claim in gpu_set.claims) and not gpu_set.placed
    started = gpu_set.gated[0] if task in _STARTS else vmi
    since = created(started)
    if task in (Task.LOST, Task.UNBOUND):
        since = min(map(created, gpu_set.claims), default=since)
    return Unit(
        key=set_key(uid),
        namespace=vmi.namespace,
        task=task,
        since=since,
        items=tuple(items),
        gpu_set=gpu_set,
        trouble=min(troubles, key=lambda each: (_rank(each), each.name), default=None),
        is_unsure=gone,
        name=started.name,
    )


def set_key(uid: str) -> str:
    """The key of a VM's set, and of the works about it."""
    return f"set/{uid}"


def _alone(state: ClusterState, claim: Claim, task: Task) -> Unit:
    gpu_class = state.classes.get(claim.class_name)
    resource = gpu_class.resource_name if gpu_class is not None else claim.resource_name
    item = Item(claim, replace(claim, node_name="", resource_name=resource), resource)
    return Unit(
        key=f"claim/{claim.namespace}/{claim.name}",
        namespace=claim.namespace,
        task=task,
        since=created(claim),
        items=(item,),
        name=claim.name,
    )


def _item(member: Member, gpu_set: GpuSet) -> Item:
    resource = member.entry.resource_name
    if member.claim is not None:
        unbound = replace(member.claim, node_name="", resource_name=resource)
        return Item(member.claim, unbound, resource)
    vmi = gpu_set.vmi
    made = Claim(
        vmi.namespace,
        template_name(vmi.uid, member.entry.entry),
        member.entry.class_name,
        member.entry.count,
        is_template=True,
        owner=vmi.uid,
        resource_name=resource,
        written=ClaimWritten(generation=1),  # as the API server makes it
    )
    return Item(None, made, resource)


def _part(item: Item, gpu_class: GpuClass | None) -> Part:
    return Part(
        item.unbound.class_name,
        item.resource,
        item.unbound.count,
        gpu_class.tolerations if gpu_class is not None else (),
        is_disclosed=gpu_class is None or gpu_class.disclosure is Disclosure.EXACT,
    )


def _volumes(unit: Unit, state: ClusterState) -> tuple[tuple[Volume, ...], frozenset[str]]:
    """The volumes that the VM's claims are bound to, and where others are being made."""
    if unit.gpu_set is None or unit.gpu_set.vmi.placing is None:
        return (), frozenset()
    pod = unit.pod.placing if unit.pod is not None else None
    named = {
        each.claim
        for each in unit.gpu_set.vmi.placing.volumes
        if pod is None or each.is_hotpluggable  # all others are read from the pod (rule 7.5)
    }
    if pod is not None:
        named |= set(pod.volume_claims)
    found = [
        state.volume_claims[key]
        for name in sorted(named)
        if (key := (unit.namespace, name)) in state.volume_claims
    ]
    return (
        tuple(state.volumes[each.volume] for each in found if each.volume in state.volumes),
        frozenset(each.selected_node for each in found if not each.volume) - {""},
    )


def _rank(member: Member) -> int:
    return PRECEDENCE[member.trouble] if member.trouble is not None else 0
