"""The judge: what no history may contain (rules 7.1 to 7.17), checked at each change.

Each invariant is a function of what was seen so far and of one change, and says what is wrong
with it. Facts that a binder could not have known yet are not held against it: for that long after
somebody else changed something it may act as if that had not happened.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from typing_extensions import override

from shared import vocabulary as v
from tests.kubevirt.objects import (
    finalizers_of,
    is_going,
    labels_of,
    name_of,
    namespace_of,
    phase_of,
    status_of,
    uid_of,
)
from tests.simulation import facts
from tests.simulation.policies import BINDER, BOOKING, account
from tests.simulation.seen import CLAIMS, NODES, PODS, SYSTEMS, VMIS, Seen
from tests.simulation.store import ADDED, DELETED, MODIFIED, Change
from tests.simulation.tenants import levels, limit

Raw = dict[str, Any]

VIEW_SECONDS: Final = 60.0
"""So old may be what a decision rests on when its write arrives."""

ENDED: Final = frozenset({"Succeeded", "Failed"})

SKIP_SECONDS: Final = 600.0
"""For so long a node that refused is skipped (rule 7.10)."""


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant does not hold: which, at which change, and how that shows."""

    invariant: str
    version: int
    message: str

    @override
    def __str__(self) -> str:
        return f"{self.invariant} (change {self.version}): {self.message}"


Invariant = Callable[[Seen, Change], Iterator[str]]
"""Told of each change after it was taken in; yields what is wrong."""


def no_unit_is_booked_twice(seen: Seen, change: Change) -> Iterator[str]:
    """Bookings and strangers' pods fit into what the node offers when the booking arrives."""
    node = _newly_booked(change)
    if not node or _runs_there(seen, change.after, node):
        return
    resource = facts.resource_of(change.after)
    booked, outside = seen.booked(node, resource), seen.outside(node, resource)
    now = facts.allocatable(seen.get(NODES, "", node) or {}).get(resource, 0)
    told = f"{facts.shown(change.after)} on {node}: {booked} booked, {outside} outside, {now} there"
    is_known = _is_stale(seen, seen.worse_at.get(node))
    if booked > seen.best_offer(node, resource, VIEW_SECONDS) or (
        booked + outside > now and is_known
    ):
        yield told


def a_launcher_starts_where_its_claims_are(seen: Seen, change: Change) -> Iterator[str]:
    """Our gate goes only with a pin to the node where every claim of the set is booked."""
    pod = _ungated(change)
    if pod is None or seen.is_off:
        return
    node = facts.pinned_to(pod)
    if not node:
        if _is_stale(seen, seen.off_until):
            yield f"{facts.shown(pod)} was let through its gate without a pin"
        return
    vmi = seen.vmi_of(pod)
    if vmi is None or uid_of(vmi) not in seen.vmis:
        return  # it goes, and its claims with it
    missing = _unmet(seen, vmi, node)
    if missing:
        yield f"{facts.shown(pod)} was pinned to {node} before {', '.join(missing)}"


def a_set_is_whole_when_it_starts(seen: Seen, change: Change) -> Iterator[str]:
    """No claim of a set is elsewhere when its launcher is pinned (rule 7.4)."""
    pod = _ungated(change)
    vmi = seen.vmi_of(pod) if pod is not None else None
    if pod is None or vmi is None or not facts.pinned_to(pod):
        return  # one that is let go unpinned, as while all is off, starts with no set
    nodes = {facts.node_of(claim) for claim in seen.claims_of(vmi)} - {""}
    if len(nodes) > 1:
        yield f"{facts.shown(pod)}: its set is on {', '.join(sorted(nodes))}"


def a_booking_is_of_the_present_term(seen: Seen, change: Change) -> Iterator[str]:
    """Every booking carries the system's epoch, and one process books in each (rule 7.1)."""
    if not _is_booking(change) or not facts.node_of(change.after):
        return
    term = int(status_of(change.after).get("epoch", -1))
    if term != seen.term:
        yield f"{facts.shown(change.after)} is of term {term}, present is {seen.term}"
    writer = seen.writer_of.setdefault(term, change.who)
    if writer != change.who:
        yield f"term {term} is {writer}'s, {facts.shown(change.after)} is {change.who}'s"


def a_term_only_grows(seen: Seen, change: Change) -> Iterator[str]:
    """The epoch of the system is raised and never lowered (rule 7.1)."""
    del seen
    if change.kind.resource != SYSTEMS or change.before is None or change.what == DELETED:
        return
    was, now = (status_of(each).get("epoch", -1) for each in (change.before, change.after))
    if now < was:
        yield f"from {was} to {now}"


def only_the_binder_places(seen: Seen, change: Change) -> Iterator[str]:
    """Nobody else writes where a claim is (rule 3.5)."""
    del seen
    if _is_booking(change) and account(change.who) != BINDER:
        yield f"{change.who} wrote {facts.shown(change.after)}"


def only_its_own_gate_and_pin(seen: Seen, change: Change) -> Iterator[str]:
    """Of a pod the binder changes our gate and the pins, each pinned once (rule 7.8)."""
    del seen
    if change.kind.resource != PODS or change.what != MODIFIED or not _is_ours(change):
        return
    old, new = change.before, change.after
    assert old is not None
    if is_going(new):
        return
    others = [[gate for gate in facts.gates(pod) if gate != v.GATE] for pod in (old, new)]
    if others[0] != others[1]:
        yield f"{facts.shown(new)}: gates of others were {others[0]} and are {others[1]}"
    if any(len(facts.pins(term)) > 1 for term in facts.terms(new)):
        yield f"{facts.shown(new)} is pinned twice"
    if _without_placement(old) != _without_placement(new):
        yield f"{facts.shown(new)}: more was changed than gate and node affinity"


def budgets_hold(seen: Seen, change: Change) -> Iterator[str]:
    """What is bound or Lost stays within every level's limit when a claim is bound (rule 7.7)."""
    node = _newly_booked(change)
    before = change.before
    if not node or before is None or _was_bound(before) or _runs_there(seen, change.after, node):
        return
    if not _is_stale(seen, seen.changed_at.get("resourcequotas")):
        return
    claim = change.after
    for key in (f"{claim['spec']['className']}{v.CLASS_KEY_SUFFIX}", facts.resource_of(claim)):
        for level in levels(seen, namespace_of(claim)):
            hard = limit(seen, level, key)
            if hard is None:
                continue
            used = sum(
                facts.count_of(each)
                for each in seen.all(CLAIMS)
                if level in levels(seen, namespace_of(each))
                and _was_bound(each)
                and key in (_class_key(each), facts.resource_of(each))
            )
            if used > hard:
                yield f"{facts.shown(claim)}: {used} of {key} are held in {level}, limit {hard}"


def nothing_is_placed_while_off(seen: Seen, change: Change) -> Iterator[str]:
    """With the feature off nothing is booked (rule 7.15)."""
    if seen.is_off and _is_stale(seen, seen.changed_at.get("configmaps")):
        node = _newly_booked(change)
        if node and not _runs_there(seen, change.after, node):
            yield f"{facts.shown(change.after)} was booked"


def a_node_that_refused_is_skipped(seen: Seen, change: Change) -> Iterator[str]:
    """For ten minutes, unless it changed (rule 7.10)."""
    pod = _ungated(change)
    vmi = seen.vmi_of(pod) if pod is not None else None
    if pod is None or vmi is None:
        return
    name = facts.pinned_to(pod)
    refused = seen.refusals.get((namespace_of(vmi), name_of(vmi), name))
    node = seen.get(NODES, "", name)
    if refused is None or node is None:
        return
    ago = seen.now - refused.at
    is_same = facts.fingerprint(node) == refused.fingerprint
    if is_same and VIEW_SECONDS < ago < SKIP_SECONDS:
        yield f"{facts.shown(pod)} was pinned to {name}, which refused it {ago:.0f} s ago"


def others_are_left_alone(seen: Seen, change: Change) -> Iterator[str]:
    """The binder writes what rule 3.5 gives it, and nothing else."""
    del seen
    if not _is_ours(change) or _may_write(change):
        return
    verb = {ADDED: "made", MODIFIED: "changed", DELETED: "deleted"}[change.what]
    yield f"{change.who} {verb} {change.kind.resource} {facts.shown(change.after)}"


def no_launcher_is_taken_away_without_need(seen: Seen, change: Change) -> Iterator[str]:
    """A gated pod never, a running one only where its node is gone or not ready (rule 7.11)."""
    if change.kind.resource != PODS or not _is_ours(change) or change.what == ADDED:
        return
    before = change.before
    assert before is not None
    if is_going(before) or not (change.what == DELETED or is_going(change.after)):
        return
    if v.GATE in facts.gates(before):
        yield f"{facts.shown(before)} waits at its gate and was deleted"
    elif phase_of(before) == "Running":
        node = seen.get(NODES, "", before["spec"]["nodeName"])
        if node is not None and facts.is_ready(node) and seen.since(NODES) > VIEW_SECONDS:
            yield f"{facts.shown(before)} runs on {name_of(node)}, which is ready, and was deleted"


def units_are_kept_while_a_pod_holds_them(seen: Seen, change: Change) -> Iterator[str]:
    """A claim goes, or is unbound, only when no pod of its VM is on its node (rule 3.2).

    Whether or not that VM's instance is still there, and owns the pod.
    """
    if change.kind.resource != CLAIMS or change.before is None or not _is_ours(change):
        return
    was = facts.node_of(change.before)
    ends = change.what == DELETED or (was and not facts.node_of(change.after))
    if not was or not ends or was not in {name_of(node) for node in seen.all(NODES)}:
        return
    # A template claim is its owner's alone: the VM's next instance has claims of its own.
    users = facts.made_for(change.before) or {facts.attached_to(change.before)}
    node = seen.get(NODES, "", was)
    if node is None or not facts.is_ready(node):
        return
    for pod in seen.all(PODS):
        uid, vmi = facts.mark_of(pod), seen.vmi_of(pod)
        is_its = uid in users or (vmi is not None and facts.machine_of(vmi) in users)
        if uid and is_its and phase_of(pod) not in ENDED and pod["spec"].get("nodeName") == was:
            told = f"{facts.shown(change.after)} lets go of {was}"
            yield f"{told}, where {facts.shown(pod)} holds its units"


def a_reason_is_told_once(seen: Seen, change: Change) -> Iterator[str]:
    """One event for each change of reason, whatever the figures in it (rule 7.9)."""
    if change.kind.resource == CLAIMS and change.what != ADDED:
        _forget_what_changed(seen, change)
    if change.kind.resource == VMIS and change.what == DELETED:
        _forget_whom_it_left_a_claim(seen, change)
    if change.kind.resource != "events" or change.what != ADDED or not _is_ours(change):
        return
    event = change.after
    reason = str(event.get("reason"))
    about = str(event["involvedObject"].get("uid", ""))
    sent = str(event.get("firstTimestamp") or "")
    before = seen.warned_at.get(about, "")
    if sent < before:
        return  # an answer was lost, and what was given up for lost arrived after what came later
    seen.warned_at[about] = sent
    if seen.warned.get(about) == reason and not _is_old(before, sent):
        told = f"{reason} again about {event['involvedObject'].get('name')}"
        yield f"{told}: {event.get('message')}"
    seen.warned[about] = reason


def _is_old(before: str, sent: str) -> bool:
    """Whether an event was half an hour old by the binder's clock, which may jump.

    What no claim can say is told again then.
    """
    if not before:
        return False
    then, now = map(datetime.datetime.fromisoformat, (before, sent))
    return now - then >= datetime.timedelta(minutes=30)


def _forget_what_changed(seen: Seen, change: Change) -> None:
    """A claim says by now why else its VM waits, or that it waits no longer, or goes.

    Who begins after that cannot know what it said. One that several VMs name says it of one.
    """
    claim = change.after
    users = {facts.attached_to(claim)} | facts.made_for(claim)
    said = "" if change.what == DELETED or is_going(claim) else facts.said_by(claim)
    for uid, told in [*seen.warned.items()]:
        vmi = seen.vmis.get(uid)
        if vmi is None:
            del seen.warned[uid]
            continue
        named = {(namespace_of(vmi), each.claim) for each in facts.record_of(vmi)}
        if said != told and (change.key in named or users & {uid, facts.machine_of(vmi)}):
            del seen.warned[uid]


def _forget_whom_it_left_a_claim(seen: Seen, change: Change) -> None:
    """What an order says may be why a VM waited that is gone: it names no VM."""
    namespace = namespace_of(change.after)
    left = {(namespace, each.claim) for each in facts.record_of(change.after) if each.claim}
    for uid in [*seen.warned]:
        vmi = seen.vmis.get(uid)
        named = facts.record_of(vmi) if vmi is not None else []
        if not left.isdisjoint((namespace_of(vmi or {}), each.claim) for each in named):
            del seen.warned[uid]


INVARIANTS: Final[tuple[Invariant, ...]] = (
    no_unit_is_booked_twice,
    a_launcher_starts_where_its_claims_are,
    a_set_is_whole_when_it_starts,
    a_booking_is_of_the_present_term,
    a_term_only_grows,
    only_the_binder_places,
    only_its_own_gate_and_pin,
    budgets_hold,
    nothing_is_placed_while_off,
    a_node_that_refused_is_skipped,
    others_are_left_alone,
    no_launcher_is_taken_away_without_need,
    units_are_kept_while_a_pod_holds_them,
    a_reason_is_told_once,
)


@dataclass(slots=True)
class Judge:
    """Follows a history and remembers what was broken."""

    invariants: Sequence[Invariant] = INVARIANTS
    seen: Seen = field(default_factory=Seen)
    broken: list[Broken] = field(default_factory=list)

    def see(self, change: Change) -> None:
        """Take in one change and judge it."""
        self.seen.apply(change)
        for invariant in self.invariants:
            for message in invariant(self.seen, change):
                self.broken.append(Broken(invariant.__name__, change.version, message))


def judged(history: Iterable[Change], invariants: Sequence[Invariant] = INVARIANTS) -> list[Broken]:
    """All that is wrong with a history."""
    judge = Judge(invariants)
    for change in history:
        judge.see(change)
    return judge.broken


def _is_ours(change: Change) -> bool:
    return account(change.who) == BINDER


def _is_stale(seen: Seen, at: float | None) -> bool:
    """Whether something happened so long ago that the binder has to know."""
    return at is None or seen.now - at > VIEW_SECONDS


def _is_booking(change: Change) -> bool:
    if change.kind.resource != CLAIMS or change.what == DELETED:
        return False
    was, now = status_of(change.before or {}), status_of(change.after)
    return any(was.get(part) != now.get(part) for part in BOOKING)


def _newly_booked(change: Change) -> str:
    """The node on which a claim is booked by this change, and was not before."""
    if change.kind.resource != CLAIMS or change.what == DELETED:
        return ""
    node = facts.node_of(change.after)
    return node if change.before is None or facts.node_of(change.before) != node else ""


def _ungated(change: Change) -> Raw | None:
    """The pod that this change of the binder's let through our gate."""
    if change.kind.resource != PODS or change.what != MODIFIED or not _is_ours(change):
        return None
    assert change.before is not None
    went = v.GATE in facts.gates(change.before) and v.GATE not in facts.gates(change.after)
    return change.after if went else None


def _runs_there(seen: Seen, claim: Raw, node: str) -> bool:
    """Whether a launcher of the claim's VM is on a node already: the booking only says so.

    One may also have been there as far as a late view can tell, of an earlier instance, too.
    """
    users = {facts.attached_to(claim)} | facts.made_for(claim)
    for (uid, where), at in seen.left.items():
        if where == node and seen.now - at <= VIEW_SECONDS and users & seen.names_of(uid):
            return True
    for pod in seen.all(PODS):
        uid = facts.mark_of(pod)
        if uid and pod["spec"].get("nodeName") == node:
            vmi = seen.vmi_of(pod)
            if uid in users or (vmi is not None and facts.machine_of(vmi) in users):
                return True
    return False


def _unmet(seen: Seen, vmi: Raw, node: str) -> list[str]:
    """What of a VMI's record is not booked on a node."""
    missing = []
    templates = Counter[tuple[str, int]]()
    for claim in seen.claims_of(vmi):
        if facts.node_of(claim) == node and uid_of(vmi) in facts.made_for(claim):
            templates[claim["spec"]["className"], facts.count_of(claim)] += 1
    for entry in facts.record_of(vmi):
        if entry.claim:
            found = seen.get(CLAIMS, namespace_of(vmi), entry.claim)
            if found is None or facts.node_of(found) != node:
                missing.append(f"claim {entry.claim} was booked there")
        elif templates[entry.class_name, entry.count] > 0:
            templates[entry.class_name, entry.count] -= 1
        else:
            missing.append(f"{entry.count} of {entry.class_name} were booked there")
    return missing


def _was_bound(claim: Raw) -> bool:
    return bool(facts.node_of(claim)) or facts.is_lost(claim)


def _class_key(claim: Raw) -> str:
    return f"{claim['spec']['className']}{v.CLASS_KEY_SUFFIX}"


def _without_placement(pod: Raw) -> Raw:
    spec = dict(pod["spec"])
    spec.pop("schedulingGates", None)
    affinity = dict(spec.pop("affinity", None) or {})
    node_affinity = dict(affinity.pop("nodeAffinity", None) or {})
    node_affinity.pop("requiredDuringSchedulingIgnoredDuringExecution", None)
    if node_affinity:
        affinity["nodeAffinity"] = node_affinity
    metadata = {
        k: each for k, each in pod["metadata"].items() if k not in {"resourceVersion", "generation"}
    }
    annotations = dict(metadata.pop("annotations", None) or {})
    annotations.pop(v.ANNOTATION_EPOCH, None)  # the fence of rule 7.1
    if annotations:
        metadata["annotations"] = annotations
    return {"spec": spec, "affinity": affinity, "metadata": metadata, "status": pod.get("status")}


def _may_write(change: Change) -> bool:
    """Rule 3.5, by kind: which objects, and which of their parts."""
    old, new = change.before, change.after
    match change.kind.resource:
        case v.RESOURCE_CLAIMS:
            if change.what == ADDED:
                return facts.is_template(new)
            return change.what == DELETED or _only(old, new, {"status"})
        case v.RESOURCE_CLASSES:
            return change.what == DELETED or _only(old, new, {"status"})
        case v.RESOURCE_SYSTEMS | "workloads" | "events" | "leases":
            return True
        case "pods":
            return change.what != ADDED
        case "configmaps":
            return namespace_of(new) == v.NAMESPACE and name_of(new) != v.SETTINGS_NAME
        case "secrets":
            return name_of(new).startswith(v.LICENSE_PREFIX)
        case _:
            return False


def _only(old: Raw | None, new: Raw, parts: set[str]) -> bool:
    """Whether of an object only some parts changed, its finalizers aside."""
    assert old is not None
    kept = [
        {k: each for k, each in obj.items() if k not in {*parts, "metadata"}} for obj in (old, new)
    ]
    is_labelled = labels_of(old) == labels_of(new)
    mine = {v.FINALIZER_CLAIM, v.FINALIZER_CLASS}
    foreign = [[f for f in finalizers_of(obj) if f not in mine] for obj in (old, new)]
    return kept[0] == kept[1] and is_labelled and foreign[0] == foreign[1]
