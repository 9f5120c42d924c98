"""Who holds devices: pods, claims and VMs, how they belong together, and what a change reaches.

The tables and their indexes are kept here; what follows from them is counted in
`shared.core.cluster`. A set is all claims of one VM (rule 7.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from shared.core.budgets import class_key
from shared.core.coverage import (
    claim_use,
    devices,
    held_outside,
    is_launcher,
    place,
    recorded_use,
    resource_of,
    used_beyond,
)
from shared.core.index import Index
from shared.core.model import Claim, GpuClass, Key, Node, Placement, Pod, Vmi
from shared.core.templates import made_for

K = TypeVar("K")
V = TypeVar("V")

Source = tuple[str, str, str]
"""What counts: ("claim", namespace, name), ("pod", namespace, name), ("vmi", uid, ""), or
("gone", namespace, uid) for what is left of a VMI that is gone."""

Held = tuple[str, str, int, int]
"""Node, resource, and the units held there: booked by a claim, and held outside claims."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one source counts for.

    `use` are units by budget key, of the budget of `namespace`.
    """

    namespace: str = ""
    use: Mapping[str, int] = field(default_factory=dict)
    held: tuple[Held, ...] = ()


NO_PART: Final = Part()


@dataclass(slots=True)
class Reach:
    """What a change makes out of date: what some sources count for.

    `resources` are those that somebody named first, or named last: of every node that has them.
    `gone` are VMIs that are gone, or may be: namespace of what is left of one, and its uid.
    """

    resources: set[str] = field(default_factory=set)
    claims: set[Key] = field(default_factory=set)
    pods: set[Key] = field(default_factory=set)
    vmis: set[str] = field(default_factory=set)
    gone: set[Key] = field(default_factory=set)


class Holders:
    """Pods, claims and VMIs. Each `put_…` takes the new state of one object, None when gone.

    Most pods of a cluster hold no device that anybody named: no class and no record. They are
    kept in the table alone: nothing is counted or indexed for them, and their changes reach
    nothing.
    """

    def __init__(self, classes: Mapping[str, GpuClass]) -> None:
        self.pods: dict[Key, Pod] = {}
        self.claims: dict[Key, Claim] = {}
        self.vmis: dict[str, Vmi] = {}
        self._classes = classes
        self._named = Counter[str]()
        """Resources, by how many classes and records name them."""
        self._pods_by_node: Index[str, Key] = Index()
        self._pods_by_mark: Index[str, Key] = Index()
        self._claims_by_node: Index[str, Key] = Index()
        self._claims_by_class: Index[str, Key] = Index()
        self._claims_by_user: Index[str, Key] = Index()
        """By uid of the VM or VMI that a claim is attached to, or for which it was made."""
        self._vmis_by_user: Index[str, str] = Index()
        """VMIs by their own uid and by their VM's."""
        self._vmis_by_recorded: Index[Key, str] = Index()
        """VMIs by the claims that their record names."""

    def naming(self, claim: Key) -> list[Vmi]:
        """The VMIs whose record of admission names a claim."""
        return [self.vmis[uid] for uid in self._vmis_by_recorded[claim]]

    def claims_of(self, class_name: str) -> int:
        """How many claims of a class there are."""
        return len(self._claims_by_class[class_name])

    def pods_of(self, vmi_uid: str) -> list[Pod]:
        """The pods that our mark says are this VMI's and that request devices that count."""
        return [self.pods[key] for key in self._pods_by_mark[vmi_uid]]

    def used_by(self, user: str) -> list[Claim]:
        """The claims that are attached to this VM or VMI (a uid), and a VMI's template claims."""
        return [self.claims[key] for key in self._claims_by_user[user]]

    def pods_on(self, node_name: str) -> list[Pod]:
        """The pods that take room on a node and request devices that count."""
        return [self.pods[key] for key in self._pods_by_node[node_name]]

    def booked_on(self, node_name: str) -> list[Claim]:
        """The claims that are booked on a node."""
        return [self.claims[key] for key in self._claims_by_node[node_name]]

    # What changes.

    def put_pod(self, key: Key, pod: Pod | None, reach: Reach) -> None:
        """A pod reaches its VM's set."""
        before = store(self.pods, key, pod)
        if before == pod:
            return
        held, holds = self._holding(before), self._holding(pod)
        self._pods_by_node.move(key, named(held, place), named(holds, place))
        self._pods_by_mark.move(key, named(held, _mark), named(holds, _mark))
        for state in (held, holds):
            if state is not None:
                self._reach_pod(state, reach)

    def put_claim(self, key: Key, claim: Claim | None, reach: Reach) -> None:
        """A claim reaches what its VM's launchers hold."""
        before = store(self.claims, key, claim)
        if before == claim:
            return
        for index, name_of in (
            (self._claims_by_node, _booked_on),
            (self._claims_by_class, _class_name),
        ):
            index.move(key, named(before, name_of), named(claim, name_of))
        self._claims_by_user.move(key, _users(before), _users(claim))
        for state in (before, claim):
            if state is not None:
                self._reach_claim(state, reach)

    def put_vmi(self, uid: str, vmi: Vmi | None, reach: Reach) -> None:
        """A VMI reaches its pods: which are launchers, and what its claims cover."""
        before = store(self.vmis, uid, vmi)
        if before == vmi:
            return
        if before is None or vmi is None:
            reach.gone.update((namespace, uid) for namespace, _ in self._pods_by_mark[uid])
        self._vmis_by_user.move(uid, _vmi_users(before), _vmi_users(vmi))
        self._vmis_by_recorded.move(uid, _recorded(before), _recorded(vmi))
        self.name_resources(_record_resources(before), _record_resources(vmi), reach)
        self._reach_vmis((uid,), reach)

    def rename_class(self, name: str, reach: Reach) -> None:
        """A class has another resource: its claims that record none are of that one now."""
        for key in self._claims_by_class[name]:
            claim = self.claims[key]
            if not claim.resource_name:
                self._reach_claim(claim, reach)

    def name_resources(self, before: set[str], after: set[str], reach: Reach) -> None:
        """Somebody, a class or a record of admission, named some resources and now names others.

        Where one is named first, or no longer, every pod is looked at; that is seldom.
        """
        for resource in before - after:
            self._named[resource] -= 1
            if not self._named[resource]:
                del self._named[resource]
                self._count_anew(resource, reach)
        for resource in after - before:
            self._named[resource] += 1
            if self._named[resource] == 1:
                self._count_anew(resource, reach)

    def _count_anew(self, resource: str, reach: Reach) -> None:
        reach.resources.add(resource)
        for key, pod in self.pods.items():
            if resource in pod.requests:
                holds = self._holding(pod)
                for index, name_of in ((self._pods_by_node, place), (self._pods_by_mark, _mark)):
                    index.move(key, named(pod, name_of), ())
                    index.move(key, (), named(holds, name_of))
                self._reach_pod(pod, reach)

    def _holding(self, pod: Pod | None) -> Pod | None:
        """The pod, where it requests devices that count."""
        return pod if pod is not None and devices(pod, self._named) else None

    def _reach_pod(self, pod: Pod, reach: Reach) -> None:
        reach.pods.add(pod.key)
        if uid := pod.launcher_mark:
            reach.vmis.add(uid)
            if uid not in self.vmis:
                reach.gone.add((pod.namespace, uid))

    def _reach_claim(self, claim: Claim, reach: Reach) -> None:
        reach.claims.add(claim.key)
        for user in _users(claim):
            self._reach_vmis(self._vmis_by_user[user], reach)
            if user not in self.vmis:
                reach.gone.add((claim.namespace, user))
        self._reach_vmis(self._vmis_by_recorded[claim.key], reach)

    def _reach_vmis(self, uids: Iterable[str], reach: Reach) -> None:
        for uid in uids:
            reach.vmis.add(uid)
            reach.pods.update(self._pods_by_mark[uid])

    # What is held and used.

    def units_of(self, node: Node) -> dict[str, int]:
        """The units of each named resource that a node says it has, zero among them."""
        return {
            name: units
            for name, units in node.allocatable.items()
            if name in self._named and "/" in name
        }

    def claim_part(self, key: Key) -> Part:
        """What a claim counts for: both keys of its budget, and its units where it is booked."""
        claim = self.claims.get(key)
        if claim is None:
            return NO_PART
        resource = resource_of(claim, self._classes)
        is_held = claim.node_name and resource
        held = ((claim.node_name, resource, claim.count, 0),) if is_held else ()
        return Part(claim.namespace, claim_use(claim, self._classes), held)

    def pod_part(self, key: Key) -> Part:
        """What a pod counts for by itself: nothing where it is a VM's launcher, or was one."""
        pod = self.pods.get(key)
        if pod is None or pod.ended or self._counts_with_others(pod):
            return NO_PART
        units = devices(pod, self._named)
        return Part(pod.namespace, units, _outside(place(pod), units))

    def vmi_part(self, uid: str, placement: Placement) -> Part:
        """What a VM's launchers count for together beyond its claims."""
        vmi = self.vmis.get(uid)
        if vmi is None:
            return NO_PART
        launchers = [pod for pod in self.pods_of(uid) if not pod.ended and is_launcher(pod, vmi)]
        if not launchers:
            return NO_PART
        part = self._beyond(vmi.namespace, launchers, self._claims_of(vmi))
        if placement is not Placement.SCHEDULER:
            return part
        return replace(part, use={**part.use, **recorded_use(part.use, vmi)})

    def gone_part(self, namespace: str, uid: str, placement: Placement) -> Part:
        """What pods count for whose VMI is gone, beyond the claims that were made for it.

        Its record is gone with it: where that would say of which class they are, they are of the
        class that has their device now.
        """
        part = self._left_part(namespace, uid)
        if placement is not Placement.SCHEDULER:
            return part
        by_class = {
            class_key(gpu_class.name): units
            for gpu_class in self._classes.values()
            if (units := part.use.get(gpu_class.resource_name, 0))
        }
        return replace(part, use={**part.use, **by_class})

    def _left_part(self, namespace: str, uid: str) -> Part:
        if uid in self.vmis:
            return NO_PART
        left = [pod for pod in self.pods_of(uid) if not pod.ended and pod.namespace == namespace]
        if not left:
            return NO_PART
        made = [
            claim
            for claim in self.used_by(uid)
            if made_for(claim) == uid and claim.namespace == namespace
        ]
        return self._beyond(namespace, left, made)

    def is_held_by_what_is_left(self, order: Claim) -> bool:
        """Whether pods of a VMI that is gone hold units where an order is booked.

        Which orders such a VMI used is told by nothing: any of its namespace may be meant, unless
        the claims that were made for it are all that its pods hold.
        """
        left = {
            pod.launcher_mark
            for pod in self.pods_on(order.node_name)
            if pod.launcher_mark not in self.vmis and pod.namespace == order.namespace
        }
        return any(
            (node, name) == (order.node_name, order.resource_name)
            for uid in left - {""}
            for node, name, _, _ in self._left_part(order.namespace, uid).held
        )

    def _beyond(self, namespace: str, pods: Collection[Pod], claims: Collection[Claim]) -> Part:
        """What pods of one VM count for together beyond these claims of it."""
        holding = [(place(pod), devices(pod, self._named)) for pod in pods]
        use = used_beyond((units for _, units in holding), claims, self._classes)
        held: list[Held] = []
        for node in sorted({node for node, _ in holding if node}):
            there = (units for where, units in holding if where == node)
            booked = (claim for claim in claims if claim.node_name == node)
            held += _outside(node, held_outside(there, booked, self._classes))
        return Part(namespace, use, tuple(held))

    def _counts_with_others(self, pod: Pod) -> bool:
        """Whether a pod is a VM's launcher, or was marked as that of one that is gone."""
        vmi = self.vmis.get(pod.launcher_mark)
        return bool(pod.launcher_mark) and (vmi is None or is_launcher(pod, vmi))

    def _claims_of(self, vmi: Vmi) -> list[Claim]:
        """The set of a VM: claims attached to it, its template claims, and those of its record."""
        keys = {key for user in _vmi_users(vmi) for key in self._claims_by_user[user]}
        keys.update(_recorded(vmi))
        claims = (self.claims[key] for key in keys if key in self.claims)
        return [claim for claim in claims if _is_of(claim, vmi)]


def _outside(node: str, units: Mapping[str, int]) -> tuple[Held, ...]:
    """Units by resource that are held on a node outside claims; nowhere, where it has no name."""
    return tuple((node, name, 0, count) for name, count in units.items()) if node else ()


def _is_of(claim: Claim, vmi: Vmi) -> bool:
    """Whether a claim is in a VM's set; one attached elsewhere is not, whatever a record says."""
    if claim.namespace != vmi.namespace:
        return False
    if claim.attached_to is not None:
        return claim.attached_to.uid in _vmi_users(vmi)
    uid = made_for(claim)
    return uid == vmi.uid if uid else claim.key in _recorded(vmi)


def store(table: dict[K, V], key: K, value: V | None) -> V | None:
    """Put a value into a table, or take it out; returns what was there."""
    if value is None:
        return table.pop(key, None)
    before = table.pop(key, None)  # else the key of the first state would stay
    table[key] = value
    return before


def named(value: V | None, name: Callable[[V], str]) -> tuple[str, ...]:
    """What a value names: empty where there is no value or it names nothing."""
    named = name(value) if value is not None else ""
    return (named,) if named else ()


def _mark(pod: Pod) -> str:
    return pod.launcher_mark


def _booked_on(claim: Claim) -> str:
    return claim.node_name


def _class_name(claim: Claim) -> str:
    return claim.class_name


def _users(claim: Claim | None) -> Collection[str]:
    """Uids of the VM or VMI that a claim says it is for."""
    if claim is None:
        return ()
    attached = claim.attached_to.uid if claim.attached_to is not None else ""
    return {uid for uid in (attached, made_for(claim)) if uid}


def _vmi_users(vmi: Vmi | None) -> Collection[str]:
    """Uids by which claims name a VMI: its own, and its VM's."""
    if vmi is None:
        return ()
    return (vmi.uid, vmi.vm) if vmi.vm else (vmi.uid,)


def _recorded(vmi: Vmi | None) -> set[Key]:
    """The claims that a VMI's record of admission names."""
    if vmi is None:
        return set()
    return {(vmi.namespace, entry.claim) for entry in vmi.record if entry.claim}


def _record_resources(vmi: Vmi | None) -> set[str]:
    """The resources that a VMI's record of admission names."""
    return set() if vmi is None else {entry.resource_name for entry in vmi.record}
