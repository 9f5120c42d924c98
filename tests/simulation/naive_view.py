"""What the naive binder reads in a pass, and what it works out from that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared import vocabulary as v
from tests.kubevirt.objects import name_of, namespace_of, uid_of
from tests.simulation import facts

Raw = dict[str, Any]


@dataclass(slots=True)
class View:
    """What a pass read."""

    nodes: list[Raw]
    pods: list[Raw]
    claims: list[Raw]
    vmis: list[Raw]
    classes: Mapping[str, Raw]
    quotas: list[Raw]
    namespaces: set[str]
    vms: set[str]
    enabled: bool

    def set_of(self, vmi: Raw) -> list[Raw]:
        """Claims of a VMI, as far as they are its own."""
        named = {each.claim for each in facts.record_of(vmi) if each.claim}
        users = {uid_of(vmi), facts.machine_of(vmi)}
        return [
            claim
            for claim in self.claims
            if namespace_of(claim) == namespace_of(vmi)
            and (
                uid_of(vmi) in facts.made_for(claim)
                or (name_of(claim) in named and facts.attached_to(claim) in {"", *users})
            )
        ]

    def is_left_with(self, pod: Raw, claim: Raw) -> bool:
        """Whether a claim is for a pod's VMI, or may have been an order of one that is gone."""
        uid = facts.mark_of(pod)
        if facts.is_template(claim):
            return uid in facts.made_for(claim)
        is_known = not uid or uid in {uid_of(vmi) for vmi in self.vmis}
        is_here = namespace_of(pod) == namespace_of(claim)
        return is_here and not is_known and facts.place_of(pod) == facts.node_of(claim)

    def resource(self, claim: Raw) -> str:
        """Device of a claim."""
        known = facts.resource_of(claim)
        found = self.classes.get(claim["spec"]["className"])
        return known or (str(found["spec"]["resourceName"]) if found else "")

    def free(self, node: Raw, device: str, but: list[Raw]) -> int:
        """Units of a device that are left on a node, some claims not counted."""
        name, mine = name_of(node), {uid_of(claim) for claim in but}
        taken = sum(
            facts.count_of(claim)
            for claim in self.claims
            if facts.node_of(claim) == name
            and self.resource(claim) == device
            and uid_of(claim) not in mine
        )
        held = Counter[str]()
        for pod in self.pods:
            if facts.place_of(pod) == name:
                held[facts.mark_of(pod)] += facts.requested(pod)[device]
        own = {uid for claim in but for uid in facts.made_for(claim)}
        own |= {uid_of(vmi) for vmi in self.vmis if facts.machine_of(vmi) in users_of(but)}
        for uid, units in held.items():
            if uid not in own:
                taken += max(0, units - self._covered(uid, name, device))
        return facts.allocatable(node).get(device, 0) - taken

    def _covered(self, uid: str, node: str, device: str) -> int:
        """Units on a node that the claims of a VMI hold."""
        return sum(
            facts.count_of(claim)
            for vmi in self.vmis
            if uid_of(vmi) == uid
            for claim in self.set_of(vmi)
            if facts.node_of(claim) == node and self.resource(claim) == device
        )


def users_of(claims: list[Raw]) -> set[str]:
    return {facts.attached_to(claim) for claim in claims} - {""}


def affordable(view: View, claims: list[Raw]) -> bool:
    """Whether what is bound or Lost, and these, stay within all limits (rule 7.7)."""
    for claim in claims:
        home = namespace_of(claim)
        line = [home, *([v.TENANT_ROOT] if home != v.TENANT_ROOT else [])]
        for level in line:
            key = f"{claim['spec']['className']}{v.CLASS_KEY_SUFFIX}"
            limits = [
                int(quota["spec"]["hard"][key])
                for quota in view.quotas
                if namespace_of(quota) == level and key in quota["spec"]["hard"]
            ]
            mine = {uid_of(each) for each in claims}
            used = sum(
                facts.count_of(each)
                for each in view.claims
                if (level == v.TENANT_ROOT or namespace_of(each) == level)
                and each["spec"]["className"] == claim["spec"]["className"]
                and (facts.node_of(each) or facts.is_lost(each) or uid_of(each) in mine)
            )
            was_bound = all(facts.node_of(each) or facts.is_lost(each) for each in claims)
            if limits and used > min(limits) and not was_bound:
                return False
    return True
