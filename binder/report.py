"""How a claim stands, as its status says it: conditions, attachment, why it waits (rule 3.5).

Pure: a standing follows from what was decided, and is written only where it says something new.
Since when a condition holds is taken over from what was written, for as long as it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

from binder.actions import Condition, Ref, ReleaseClaim, ReportClaim, Waiting
from binder.rewording import is_alike
from binder.sets import attachment, is_attached, is_lost
from shared.api.conditions import ConditionType
from shared.core.cluster import ClusterState
from shared.core.model import Attachment, Claim, Node, Vmi
from shared.core.placing import ClaimWritten
from shared.core.placing import Condition as WrittenCondition
from shared.core.placing import Waiting as WrittenWaiting
from shared.core.terms import Truth
from shared.reasons import Reason, say

_NOTHING_WRITTEN = ClaimWritten()


class Gap(IntEnum):
    """What a claim's status does not say as it is; each includes what comes before it."""

    NONE = 0
    WORDS = 1
    """The words alone, such as figures, or which reason of the stock it is (`is_alike`)."""
    MORE = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition without its times."""

    status: Truth
    reason: Reason
    message: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """All that a claim's status says besides what is booked."""

    ready: Verdict
    bound: Verdict
    attached: Verdict
    disrupted: Verdict
    attached_to: Attachment | None = None
    waiting: Verdict | None = None

    @property
    def verdicts(self) -> dict[ConditionType, Verdict]:
        """The conditions, in the order in which they are written."""
        return {
            ConditionType.READY: self.ready,
            ConditionType.BOUND: self.bound,
            ConditionType.ATTACHED: self.attached,
            ConditionType.DISRUPTED: self.disrupted,
        }


_PLACED = Verdict(Truth.TRUE, Reason.PLACED)
_IN_USE = Verdict(Truth.TRUE, Reason.IN_USE)
_NOT_IN_USE = Verdict(Truth.FALSE, Reason.NOT_IN_USE)
_UNDISTURBED = Verdict(Truth.FALSE, Reason.UNDISTURBED)
_LOST = Verdict(Truth.FALSE, Reason.NODE_LOST, say(Reason.NODE_LOST))
_DISRUPTED = Verdict(Truth.TRUE, Reason.NODE_LOST, say(Reason.NODE_LOST))


def booked(node: Node | None, user: Attachment | None, obstacle: str = "") -> Standing:
    """A claim that holds its units on a node.

    Args:
        node: where; None where it is gone.
        user: the VM that starts or runs with them.
        obstacle: what keeps that VM from starting with them (rule 7.16).
    """
    return Standing(
        ready=_PLACED,
        bound=_PLACED,
        attached=_NOT_IN_USE if user is None else replace(_IN_USE, message=obstacle),
        disrupted=_UNDISTURBED if node is not None and node.ready else _DISRUPTED,
        attached_to=user,
    )


def held_for_one_that_waits(node: Node | None, why: Verdict) -> Standing:
    """An order that holds its units, while the VM that names it waits for more than that."""
    stands = booked(node, None)
    return Standing(
        ready=stands.ready,
        bound=stands.bound,
        attached=Verdict(Truth.FALSE, why.reason, why.message),
        disrupted=stands.disrupted,
    )


def waits(why: Verdict, user: Attachment | None, *, lost: bool) -> Standing:
    """A claim that holds nothing yet, or no longer where it is lost; `user` waits with it."""
    return Standing(
        ready=_LOST if lost else why,
        bound=_LOST if lost else why,
        attached=_NOT_IN_USE if user is None else _IN_USE,
        disrupted=_DISRUPTED if lost else _UNDISTURBED,
        attached_to=user,
        waiting=why,
    )


def because(reason: Reason, message: str) -> Verdict:
    """Why something waits."""
    return Verdict(Truth.FALSE, reason, message)


def settled(claim: Claim, node: Node | None, user: Vmi | None, *, enabled: bool) -> Standing | None:
    """How a claim stands that nothing is decided about; None where a decision is due.

    It stays attached to the VM that it was attached to, for as long as that has an instance.
    """
    stays = user is not None and is_attached(claim, user)
    attached_to = attachment(user) if user is not None and stays else None
    if claim.node_name:
        return booked(node, attached_to)
    if not enabled:
        off = because(Reason.DISABLED, say(Reason.DISABLED))
        return waits(off, attached_to, lost=is_lost(claim))
    return None


def gap(claim: Claim, standing: Standing) -> Gap:
    """What of this a claim's status does not say yet."""
    told = claim.written or _NOTHING_WRITTEN
    written = {each.type: each for each in told.conditions}
    generation, why = told.generation or None, standing.waiting
    if claim.attached_to != standing.attached_to or (told.waiting is None) != (why is None):
        return Gap.MORE
    found = Gap.NONE
    for kind, verdict in standing.verdicts.items():
        each = written.get(kind)
        if each is None or (each.status, each.generation) != (str(verdict.status), generation):
            return Gap.MORE
        found = max(found, _otherwise(each, verdict))
    if why is not None and told.waiting is not None:
        found = max(found, _otherwise(told.waiting, why))
    return found


def _otherwise(told: WrittenCondition | WrittenWaiting, verdict: Verdict) -> Gap:
    """How far reason and words that were written are from those of now."""
    if not is_alike(told.reason, verdict.reason):
        return Gap.MORE
    is_so = (told.reason, told.message) == (verdict.reason, verdict.message)
    return Gap.NONE if is_so else Gap.WORDS


def is_told(claim: Claim, standing: Standing) -> bool:
    """Whether a claim's status says this already, word for word."""
    return gap(claim, standing) is Gap.NONE


def words(claims: Iterable[Claim]) -> tuple[str, ...]:
    """All that claims say in reasons and words."""
    told = [claim.written for claim in claims if claim.written is not None]
    said: list[WrittenCondition | WrittenWaiting] = [
        *(each for written in told for each in written.conditions),
        *(written.waiting for written in told if written.waiting is not None),
    ]
    return tuple(part for each in said for part in (each.reason, each.message))


def conditions(claim: Claim, standing: Standing, now: str) -> tuple[Condition, ...]:
    """The conditions to write; one whose status is as before keeps its time."""
    told = claim.written or _NOTHING_WRITTEN
    before = {each.type: each for each in told.conditions}
    return tuple(
        Condition(
            type=kind,
            status=verdict.status,
            reason=verdict.reason,
            since=_since(before.get(kind), verdict.status, now),
            message=verdict.message,
            generation=told.generation or None,
        )
        for kind, verdict in standing.verdicts.items()
    )


def report(claim: Claim, ref: Ref, standing: Standing, now: str) -> ReportClaim:
    """Write how a claim stands; what it holds stays as it is."""
    return ReportClaim(
        ref, standing.attached_to, _waiting(claim, standing, now), conditions(claim, standing, now)
    )


def release(claim: Claim, ref: Ref, standing: Standing, now: str) -> ReleaseClaim:
    """Write how a claim stands that holds nothing from now on."""
    return ReleaseClaim(
        ref,
        attached_to=standing.attached_to,
        waiting=_waiting(claim, standing, now),
        conditions=conditions(claim, standing, now),
    )


def said_of(vmi: Vmi, claims: Iterable[Claim]) -> dict[str, str]:
    """Why a VM waits, as its claims say, with since when; empty where they say nothing of that."""
    said = {}
    for claim in claims:
        told = claim.written or _NOTHING_WRITTEN
        if told.waiting is not None and is_attached(claim, vmi):
            said[told.waiting.reason] = told.waiting.since
        for each in told.conditions:
            if each.type == ConditionType.ATTACHED and each.status == Truth.FALSE:
                said[each.reason] = each.since
    said.pop(Reason.NOT_IN_USE, None)
    return said


def waiting(state: ClusterState) -> Counter[str]:
    """How many claims say that they wait, by reason."""
    told = (claim.written for claim in state.holders.claims.values())
    return Counter(each.waiting.reason for each in told if each is not None and each.waiting)


def _waiting(claim: Claim, standing: Standing, now: str) -> Waiting | None:
    why = standing.waiting
    if why is None:
        return None
    before = (claim.written or _NOTHING_WRITTEN).waiting
    since = before.since if before is not None and before.reason == why.reason else now
    return Waiting(why.reason, why.message, since)


def _since(before: WrittenCondition | None, status: Truth, now: str) -> str:
    return before.since or now if before is not None and before.status == status else now
