"""The cluster as a history has made it so far: what the judge looks things up in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from shared import vocabulary as v
from tests.kubevirt.objects import controller_of, name_of, namespace_of, phase_of, status_of, uid_of
from tests.simulation import facts
from tests.simulation.policies import BINDER, account
from tests.simulation.store import DELETED, Change, Key

Raw = dict[str, Any]

NODES: Final = "nodes"
PODS: Final = "pods"
VMIS: Final = "virtualmachineinstances"
CLAIMS: Final = v.RESOURCE_CLAIMS
SYSTEMS: Final = v.RESOURCE_SYSTEMS
REMEMBERED_SECONDS: Final = 1200.0


@dataclass(frozen=True, slots=True)
class Refused:
    """A node refused a VM's pod: when, and what the node was like."""

    at: float
    fingerprint: str


@dataclass(slots=True)
class Seen:
    """Tables of what exists, and of what is past and still counts.

    Attributes:
        now: of the last change.
        objects: by resource and key.
        gone_vmis: by uid, with when they went.
        worse_at: by node, when it last lost room without the binder.
        offered: by node, what it offered since when.
        writer_of: by term, who books in it.
        refusals: by namespace and name of a VMI, and node.
        warned: by uid of a VMI, the reason of the last event, until a claim says otherwise.
        warned_at: by uid of a VMI, when the newest event about it was sent.
        changed_at: by resource, when somebody but the binder last changed an object of it.
        off_until: when the feature was last switched on again.
        left: by uid of a VMI and node, when a launcher of it last ended there.
    """

    now: float = 0.0
    objects: defaultdict[str, dict[Key, Raw]] = field(default_factory=lambda: defaultdict(dict))
    vmis: dict[str, Raw] = field(default_factory=dict)
    gone_vmis: dict[str, tuple[float, Raw]] = field(default_factory=dict)
    worse_at: dict[str, float] = field(default_factory=dict)
    offered: dict[str, list[tuple[float, dict[str, int]]]] = field(default_factory=dict)
    writer_of: dict[int, str] = field(default_factory=dict)
    refusals: dict[tuple[str, str, str], Refused] = field(default_factory=dict)
    warned: dict[str, str] = field(default_factory=dict)
    warned_at: dict[str, str] = field(default_factory=dict)
    changed_at: dict[str, float] = field(default_factory=dict)
    off_until: float = float("-inf")
    left: dict[tuple[str, str], float] = field(default_factory=dict)

    def names_of(self, uid: str) -> set[str]:
        """By which uids claims are attached to a VMI that is there or was: its own, its VM's."""
        vmi = self.vmis.get(uid) or self.gone_vmis.get(uid, (0.0, None))[1]
        return {uid} if vmi is None else {uid, facts.machine_of(vmi)}

    def apply(self, change: Change) -> None:
        """Take in one change."""
        self.now = change.at
        was_off = self.is_off
        resource, table = change.kind.resource, self.objects[change.kind.resource]
        if change.what == DELETED:
            table.pop(change.key, None)
        else:
            table[change.key] = change.after
        if account(change.who) != BINDER:
            self.changed_at[resource] = change.at
        if was_off and not self.is_off:
            self.off_until = change.at
        if resource == NODES:
            self._node(change)
        elif resource == PODS:
            self._pod(change)
        elif resource == VMIS:
            self._vmi(change)

    def get(self, resource: str, namespace: str, name: str) -> Raw | None:
        """An object, or None."""
        return self.objects[resource].get((namespace, name))

    def all(self, resource: str) -> list[Raw]:
        """All objects of a resource."""
        return list(self.objects[resource].values())

    def since(self, resource: str) -> float:
        """For how many seconds nobody but the binder has changed an object of a resource."""
        return self.now - self.changed_at.get(resource, float("-inf"))

    @property
    def term(self) -> int:
        """The present one; -1 before the first."""
        system = self.get(SYSTEMS, "", v.SYSTEM_NAME)
        return int(status_of(system or {}).get("epoch", -1))

    @property
    def setting(self) -> Raw:
        """The hoster's settings."""
        found = self.get("configmaps", v.NAMESPACE, v.SETTINGS_NAME)
        return (found or {}).get("data") or {}

    @property
    def is_off(self) -> bool:
        """Whether nothing is to be placed by the binder (rule 7.15)."""
        return (
            self.setting.get("enabled") == "false" or self.setting.get("placement") == "scheduler"
        )

    def vmi_of(self, pod: Raw) -> Raw | None:
        """The VMI whose launcher a pod was admitted as, also one that has just gone."""
        uid = facts.mark_of(pod)
        if uid in self.vmis:
            return self.vmis[uid]
        return self.gone_vmis[uid][1] if uid in self.gone_vmis else None

    def claims_of(self, vmi: Raw) -> list[Raw]:
        """The set of a VM (rule 7.4)."""
        users = {uid_of(vmi), facts.machine_of(vmi)}
        named = {each.claim for each in facts.record_of(vmi) if each.claim}
        found = []
        for (namespace, name), claim in self.objects[CLAIMS].items():
            if namespace != namespace_of(vmi):
                continue
            attached = facts.attached_to(claim)
            if facts.is_template(claim):  # that of the VM's last instance is no part of it
                is_of = uid_of(vmi) in facts.made_for(claim)
            else:
                is_of = attached in users if attached else name in named
            if is_of:
                found.append(claim)
        return found

    def made_for(self, vmi_uid: str) -> list[Raw]:
        """The claims that were made for a VMI's class entries, also one that is gone."""
        return [each for each in self.all(CLAIMS) if vmi_uid in facts.made_for(each)]

    def pods_of(self, vmi_uid: str) -> Iterator[Raw]:
        """Marked pods of a VMI that have not ended."""
        for pod in self.objects[PODS].values():
            if facts.mark_of(pod) == vmi_uid and phase_of(pod) not in {"Succeeded", "Failed"}:
                yield pod

    def booked(self, node: str, resource: str) -> int:
        """Units of a resource that claims hold on a node."""
        return sum(
            facts.count_of(claim)
            for claim in self.objects[CLAIMS].values()
            if facts.node_of(claim) == node and facts.resource_of(claim) == resource
        )

    def outside(self, node: str, resource: str) -> int:
        """Units that pods on a node hold beyond what the claims of their VMs hold there."""
        held = Counter[str]()
        for pod in self.objects[PODS].values():
            if facts.place_of(pod) == node and (units := facts.requested(pod)[resource]):
                held[facts.mark_of(pod)] += units
        beyond = held.pop("", 0)
        for uid, units in held.items():
            vmi = self.vmis.get(uid)
            covered = sum(
                facts.count_of(claim)
                for claim in (self.claims_of(vmi) if vmi else self.made_for(uid))
                if facts.node_of(claim) == node and facts.resource_of(claim) == resource
            )
            beyond += max(0, units - covered)
        return beyond

    def best_offer(self, node: str, resource: str, seconds: float) -> int:
        """The most units that a node has offered within some seconds."""
        offers = self.offered.get(node, [])
        best = 0
        for place, (_, amounts) in enumerate(offers):
            until = offers[place + 1][0] if place + 1 < len(offers) else self.now
            if until >= self.now - seconds:
                best = max(best, amounts.get(resource, 0))
        return best

    def _node(self, change: Change) -> None:
        node = name_of(change.after)
        amounts = {} if change.what == DELETED else facts.allocatable(change.after)
        before = facts.allocatable(change.before) if change.before else {}
        offers = self.offered.setdefault(node, [])
        if not offers or offers[-1][1] != amounts:
            offers.append((change.at, amounts))
            del offers[:-20]
        if any(amounts.get(name, 0) < units for name, units in before.items()):
            self.worse_at[node] = change.at

    def _pod(self, change: Change) -> None:
        before, after = change.before, change.after
        was = facts.place_of(before) if before else ""
        node = "" if change.what == DELETED else facts.place_of(after)
        if was and node != was:
            self.left[facts.mark_of(before or {}), was] = change.at
        is_ours = account(change.who) == BINDER
        if node and not is_ours and (node != was or not facts.mark_of(after)):
            self.worse_at[node] = change.at
        node_name = after["spec"].get("nodeName", "")
        if node_name and facts.was_refused(after) and not (before and facts.was_refused(before)):
            vmi = self.vmi_of(after)
            found = self.get(NODES, "", node_name)
            if vmi is not None and found is not None:
                key = (namespace_of(vmi), name_of(vmi), node_name)
                self.refusals[key] = Refused(change.at, facts.fingerprint(found))

    def _vmi(self, change: Change) -> None:
        uid = uid_of(change.after)
        if change.what != DELETED:
            self.vmis[uid] = change.after
            return
        self.vmis.pop(uid, None)
        self.gone_vmis[uid] = (change.at, change.after)
        # What its claims covered is somebody else's now.
        for pod in self.pods_of(uid):
            if node := facts.place_of(pod):
                self.worse_at[node] = change.at
        for each, (at, _) in [*self.gone_vmis.items()]:
            if at < change.at - REMEMBERED_SECONDS:
                del self.gone_vmis[each]


def owner_vmi(obj: Raw) -> str:
    """The uid of the VMI that controls an object."""
    owner = controller_of(obj)
    return str(owner["uid"]) if owner.get("kind") == v.KIND_VMI else ""
