"""Which claims form a set, which pods are its launchers, and what state it is in.

A set is all claims of one VM: the orders that the record of its VMI names, and the template
claims of its class entries (rule 7.4). An order that no VM names is a set of its own. Each claim
is in one set at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.api.conditions import ConditionType
from shared.core.coverage import is_launcher, place
from shared.core.holders import Holders
from shared.core.model import Attachment, Claim, Node, Pod, RecordEntry, Vmi
from shared.core.templates import made_for, template_name
from shared.reasons import Reason
from shared.vocabulary import GATE, KIND_VM, KIND_VMI

_WHAT_IS_LEFT: Final = "a pod of a deleted VM instance, until that pod ends"


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of a VM's record, and the claim that stands for it.

    Attributes:
        name: of the claim, also where there is none.
        claim: None where it does not exist, or cannot be used.
        entry: what was admitted.
        trouble: why an order that was named cannot be used.
        user: who has it, where somebody else has; in words.
    """

    name: str
    entry: RecordEntry
    claim: Claim | None = None
    trouble: Reason | None = None
    user: str = ""


@dataclass(frozen=True, slots=True)
class GpuSet:
    """All claims of one VM.

    Attributes:
        vmi: its instance.
        members: as the record has them: claims by name, then class entries by index.
        gated: its launchers that wait at our gate, oldest first. Nothing runs there yet.
        placed: its launchers that have a node, or are pinned to one.
    """

    vmi: Vmi
    members: tuple[Member, ...]
    gated: tuple[Pod, ...]
    placed: tuple[Pod, ...]

    @property
    def claims(self) -> list[Claim]:
        """Those of its claims that exist and that it can use."""
        return [member.claim for member in self.members if member.claim is not None]

    @property
    def attachment(self) -> Attachment:
        """What its claims are attached to: the VM, or the VMI where no VM controls it."""
        return attachment(self.vmi)

    @property
    def is_split(self) -> bool:
        """Whether claims that belong together are neither on one node nor all without one.

        Those that are attached to it do, and those that were made for it.
        """
        attached = {each.node_name for each in self.claims if is_attached(each, self.vmi)}
        made = {each.node_name for each in self.claims if each.is_template}
        return len(attached) > 1 or len(made) > 1


def attachment(vmi: Vmi) -> Attachment:
    """What the claims of a VMI are attached to."""
    if not vmi.vm:
        return Attachment(KIND_VMI, vmi.name, vmi.uid)
    # KubeVirt calls the instance as it calls the VM.
    name = vmi.placing.vm_name if vmi.placing is not None else ""
    return Attachment(KIND_VM, name or vmi.name, vmi.vm)


def is_attached(claim: Claim, vmi: Vmi) -> bool:
    """Whether a claim says that it is attached to this VMI, or to its VM."""
    return claim.attached_to is not None and claim.attached_to.uid in {vmi.uid, vmi.vm} - {""}


def is_lost(claim: Claim) -> bool:
    """Whether a claim was bound, and its node could not keep it (rule 3.2)."""
    if claim.node_name or claim.written is None:
        return False
    return any(
        each.type == ConditionType.BOUND and each.reason == Reason.NODE_LOST
        for each in claim.written.conditions
    )


def is_gated(pod: Pod) -> bool:
    """Whether a pod waits at our gate."""
    return pod.placing is not None and GATE in pod.placing.gates


def launchers(vmi: Vmi, holders: Holders) -> list[Pod]:
    """The VMI's launchers that have not ended, oldest first (rule 7.13)."""
    found = [pod for pod in holders.pods_of(vmi.uid) if is_launcher(pod, vmi) and not pod.ended]
    return sorted(found, key=lambda pod: (created(pod), pod.key))


def holds_units(vmi: Vmi, holders: Holders) -> bool:
    """Whether a pod of the VMI is on a node, or bound to go to one.

    The VMI need neither own nor list it: what holds units is believed sooner than what gets them.
    """
    return any(place(pod) for pod in holders.pods_of(vmi.uid) if pod.namespace == vmi.namespace)


def created(value: Pod | Claim | Vmi) -> str:
    """When an object was made, RFC 3339; empty where that is not known."""
    told = value.written if isinstance(value, Claim) else value.placing
    return told.created if told is not None else ""


def is_over(vmi: Vmi, holders: Holders) -> bool:
    """Whether a VMI uses its claims no longer: it is final, and no pod of it holds units."""
    return vmi.final and not holds_units(vmi, holders)


def user_of(claim: Claim, holders: Holders) -> Vmi | None:
    """The VMI in whose set a claim is, None where it is in none.

    A template claim is that of the VMI for which it was made. An order is that of the VMI whose
    record names it; of several, which a race can bring about, that of one whose launcher holds
    units already, else the oldest (rule 6.1.4).
    """
    if claim.is_template:
        vmi = holders.vmis.get(made_for(claim))
        if vmi is None or vmi.namespace != claim.namespace or is_over(vmi, holders):
            return None
        is_its_own = claim.name in _template_names(vmi) and _is_made_for(claim, vmi, holders)
        return vmi if is_its_own else None
    naming = [
        vmi
        for vmi in holders.naming(claim.key)
        if _admitted(claim, vmi) and not is_over(vmi, holders)
    ]
    if len(naming) < 2:
        return naming[0] if naming else None
    return min(naming, key=lambda vmi: (not holds_units(vmi, holders), created(vmi), vmi.uid))


def set_of(vmi: Vmi, holders: Holders) -> GpuSet:
    """The set of a VMI that has a record."""
    found = launchers(vmi, holders)
    return GpuSet(
        vmi=vmi,
        members=tuple(_member(entry, vmi, holders) for entry in vmi.record),
        gated=tuple(pod for pod in found if is_gated(pod) and not _is_leaving(pod, vmi)),
        placed=tuple(pod for pod in found if place(pod)),
    )


def ground(gpu_set: GpuSet) -> str:
    """The node on which the VM is, empty where none of its launchers has one (rule 7.17).

    While a VM migrates it has two: it is on its source until KubeVirt says otherwise.
    """
    nodes = {place(pod) for pod in gpu_set.placed}
    if gpu_set.vmi.node_name in nodes:
        return gpu_set.vmi.node_name
    if len(nodes) > 1:
        targets = [pod for pod in gpu_set.placed if pod.placing and pod.placing.migration]
        nodes -= {place(pod) for pod in targets}
    return min(nodes, default="")


def is_elsewhere(gpu_set: GpuSet, node: Node | None) -> bool:
    """Whether the VM runs on this node, and its claims are not all booked there."""
    if node is None:
        return False
    if not node.ready and any(is_lost(claim) for claim in gpu_set.claims):
        return False  # that node lost them; it does not get them back before it is well
    return any(
        member.trouble is None and (member.claim is None or member.claim.node_name != node.name)
        for member in gpu_set.members
    )


def _member(entry: RecordEntry, vmi: Vmi, holders: Holders) -> Member:
    if not entry.claim:
        name = template_name(vmi.uid, entry.entry)
        claim = holders.claims.get((vmi.namespace, name))
        if claim is not None and not _is_made_for(claim, vmi, holders):
            return Member(name, entry, trouble=Reason.CLAIM_IN_USE)
        return Member(name, entry, claim)
    claim = holders.claims.get((vmi.namespace, entry.claim))
    if claim is None or not _admitted(claim, vmi):
        return Member(entry.claim, entry, trouble=Reason.CLAIM_NOT_FOUND)
    user = user_of(claim, holders)
    if user is not None and user.uid != vmi.uid:
        return Member(entry.claim, entry, trouble=Reason.CLAIM_IN_USE, user=f"the VM {user.name}")
    if claim.deleting and not holds_units(vmi, holders):
        return Member(entry.claim, entry, trouble=Reason.CLAIM_NOT_FOUND)
    if not holds_units(vmi, holders) and holders.is_held_by_what_is_left(claim):
        return Member(entry.claim, entry, trouble=Reason.CLAIM_IN_USE, user=_WHAT_IS_LEFT)
    return Member(entry.claim, entry, claim)


def _admitted(claim: Claim, vmi: Vmi) -> bool:
    """Whether an order is the one that was admitted with a VMI, not another of its name."""
    return not claim.is_template and any(
        (entry.claim, entry.class_name, entry.count) == (claim.name, claim.class_name, claim.count)
        for entry in vmi.record
    )


def _is_made_for(claim: Claim, vmi: Vmi, holders: Holders) -> bool:
    """Whether a template claim is a VMI's: it owns it, or owned it and a pod holds the units."""
    return made_for(claim) == vmi.uid and bool(claim.owner or holds_units(vmi, holders))


def _template_names(vmi: Vmi) -> set[str]:
    return {template_name(vmi.uid, entry.entry) for entry in vmi.record if not entry.claim}


def _is_leaving(pod: Pod, vmi: Vmi) -> bool:
    """Whether a pod or its VMI is being deleted: it is not started any more."""
    return any(each is not None and each.deleted for each in (pod.placing, vmi.placing))
