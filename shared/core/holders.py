"""Who holds devices: pods, claims and VMs, how they belong together, and what a change reaches.

The tables and their indexes are kept here; what follows from them is counted in
`shared.core.cluster`. A set is all claims of one VM (rule 7.4).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from shared.core.capacity import Stock
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

K = TypeVar("K")
V = TypeVar("V")

Source = tuple[str, str, str]
"""What uses a budget: ("claim", namespace, name), ("pod", namespace, name) or ("vmi", uid, "")."""

Use = tuple[str, Mapping[str, int]]
"""The namespace whose budget is used, and the units by budget key."""


@dataclass(slots=True)
class Reach:
    """What a change makes out of date: stocks of nodes, and uses of budgets.

    `resources` are those that somebody named first, or named last: of every node that has them.
    """

    nodes: set[str] = field(default_factory=set)
    resources: set[str] = field(default_factory=set)
    claims: set[Key] = field(default_factory=set)
    pods: set[Key] = field(default_factory=set)
    vmis: set[str] = field(default_factory=set)


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
        self._pods_by_owner: Index[str, Key] = Index()
        self._claims_by_node: Index[str, Key] = Index()
        self._claims_by_class: Index[str, Key] = Index()
        self._claims_by_user: Index[str, Key] = Index()
        """By uid of the VM or VMI that a claim is attached to, or whose template claim it is."""
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
        """The pods that say that this VMI owns them and that request devices that count."""
        return [self.pods[key] for key in self._pods_by_owner[vmi_uid]]

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
        """A pod reaches the node where it takes room, and its VM's set."""
        before = store(self.pods, key, pod)
        if before == pod:
            return
        held, holds = self._holding(before), self._holding(pod)
        self._pods_by_node.move(key, named(held, place), named(holds, place))
        self._pods_by_owner.move(key, named(held, _owner), named(holds, _owner))
        for state in (held, holds):
            if state is not None:
                self._reach_pod(state, reach)

    def put_claim(self, key: Key, claim: Claim | None, reach: Reach) -> None:
        """A claim reaches the node where it is booked, and what its VM's launchers hold."""
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
                for index, name_of in ((self._pods_by_node, place), (self._pods_by_owner, _owner)):
                    index.move(key, named(pod, name_of), ())
                    index.move(key, (), named(holds, name_of))
                self._reach_pod(pod, reach)

    def _holding(self, pod: Pod | None) -> Pod | None:
        """The pod, where it requests devices that count."""
        return pod if pod is not None and devices(pod, self._named) else None

    def _reach_pod(self, pod: Pod, reach: Reach) -> None:
        reach.pods.add(pod.key)
        reach.nodes.update(named(pod, place))
        reach.vmis.update(named(pod, _owner))

    def _reach_claim(self, claim: Claim, reach: Reach) -> None:
        reach.claims.add(claim.key)
        reach.nodes.update(named(claim, _booked_on))
        for user in _users(claim):
            self._reach_vmis(self._vmis_by_user[user], reach)
        self._reach_vmis(self._vmis_by_recorded[claim.key], reach)

    def _reach_vmis(self, uids: Iterable[str], reach: Reach) -> None:
        for uid in uids:
            reach.vmis.add(uid)
            for key in self._pods_by_owner[uid]:
                reach.pods.add(key)
                reach.nodes.update(named(self.pods[key], place))

    # What is held and used.

    def stock(self, node: Node) -> dict[str, Stock]:
        """The stock of each named resource that a node has or that is held there."""
        bound: dict[str, int] = {}
        booked: dict[str, list[Claim]] = {}
        for key in self._claims_by_node[node.name]:
            claim = self.claims[key]
            _add(bound, {resource_of(claim, self._classes): claim.count})
            for uid in self._vmis_of(claim):
                booked.setdefault(uid, []).append(claim)
        outside: dict[str, int] = {}
        launchers: dict[str, list[dict[str, int]]] = {}
        for key in self._pods_by_node[node.name]:
            pod = self.pods[key]
            vmi = self._launcher_of(pod)
            if vmi is None:
                _add(outside, devices(pod, self._named))
            else:
                launchers.setdefault(vmi.uid, []).append(devices(pod, self._named))
        for uid, held in launchers.items():
            _add(outside, held_outside(held, booked.get(uid, ()), self._classes))
        total = {
            name: units
            for name, units in node.allocatable.items()
            if name in self._named and "/" in name
        }
        return {
            name: Stock(total.get(name, 0), bound.get(name, 0), outside.get(name, 0))
            for name in total.keys() | bound.keys() | outside.keys()
            if name
        }

    def claim_use(self, key: Key) -> Use:
        """What a claim uses of its namespace's budget."""
        claim = self.claims.get(key)
        return key[0], {} if claim is None else claim_use(claim, self._classes)

    def pod_use(self, key: Key) -> Use:
        """What a pod uses by itself: nothing where it is a VM's launcher."""
        pod = self.pods.get(key)
        if pod is None or pod.ended or self._launcher_of(pod) is not None:
            return key[0], {}
        return key[0], devices(pod, self._named)

    def vmi_use(self, uid: str, placement: Placement) -> Use | None:
        """What a VM's launchers use together beyond its claims; None where the VMI is gone."""
        vmi = self.vmis.get(uid)
        if vmi is None:
            return None
        pods = (self.pods[key] for key in self._pods_by_owner[uid])
        held = [
            devices(pod, self._named) for pod in pods if not pod.ended and is_launcher(pod, vmi)
        ]
        used = used_beyond(held, self._claims_of(vmi), self._classes)
        use = dict(used)
        if placement is Placement.SCHEDULER:
            use |= recorded_use(used, vmi)
        return vmi.namespace, use

    def _launcher_of(self, pod: Pod) -> Vmi | None:
        """The VMI whose launcher a pod is, if it is one."""
        vmi = self.vmis.get(pod.owner) if pod.owner else None
        return vmi if vmi is not None and is_launcher(pod, vmi) else None

    def _claims_of(self, vmi: Vmi) -> list[Claim]:
        """The set of a VM: claims attached to it, its template claims, and those of its record."""
        keys = {key for user in _vmi_users(vmi) for key in self._claims_by_user[user]}
        keys.update(_recorded(vmi))
        claims = (self.claims[key] for key in keys if key in self.claims)
        return [claim for claim in claims if _is_of(claim, vmi)]

    def _vmis_of(self, claim: Claim) -> list[str]:
        """The VMIs in whose set a claim is: at most one, but while two races are sorted out."""
        uids = {uid for user in _users(claim) for uid in self._vmis_by_user[user]}
        uids.update(self._vmis_by_recorded[claim.key])
        return [uid for uid in uids if _is_of(claim, self.vmis[uid])]


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _is_of(claim: Claim, vmi: Vmi) -> bool:
    """Whether a claim is in a VM's set; one attached elsewhere is not, whatever a record says."""
    if claim.namespace != vmi.namespace:
        return False
    if claim.attached_to is not None:
        return claim.attached_to.uid in _vmi_users(vmi)
    if claim.owner:
        return claim.owner == vmi.uid
    return claim.key in _recorded(vmi)


def store(table: dict[K, V], key: K, value: V | None) -> V | None:
    """Put a value into a table, or take it out; returns what was there."""
    if value is None:
        return table.pop(key, None)
    before = table.pop(key, None)  # else the key of the first state would stay
    table[key] = value
    return before


def named(value: V | None, name: Callable[[V], str]) -> set[str]:
    """What a value names, as a set: empty where there is no value or it names nothing."""
    named = name(value) if value is not None else ""
    return {named} if named else set()


def _owner(pod: Pod) -> str:
    return pod.owner


def _booked_on(claim: Claim) -> str:
    return claim.node_name


def _class_name(claim: Claim) -> str:
    return claim.class_name


def _users(claim: Claim | None) -> set[str]:
    """Uids of the VM or VMI that a claim says it is for."""
    if claim is None:
        return set()
    attached = claim.attached_to.uid if claim.attached_to is not None else ""
    return {uid for uid in (attached, claim.owner) if uid}


def _vmi_users(vmi: Vmi | None) -> set[str]:
    """Uids by which claims name a VMI: its own, and its VM's."""
    return set() if vmi is None else {uid for uid in (vmi.uid, vmi.vm) if uid}


def _recorded(vmi: Vmi | None) -> set[Key]:
    """The claims that a VMI's record of admission names."""
    if vmi is None:
        return set()
    return {(vmi.namespace, entry.claim) for entry in vmi.record if entry.claim}


def _record_resources(vmi: Vmi | None) -> set[str]:
    """The resources that a VMI's record of admission names."""
    return set() if vmi is None else {entry.resource_name for entry in vmi.record}
