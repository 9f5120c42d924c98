"""The work that follows from a decision about a unit: its writes in their order (rules 7.8, 7.9).

A work without steps has nothing to write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from binder.actions import (
    Action,
    AddFinalizer,
    BookClaim,
    CreateClaim,
    Kind,
    Ref,
    StartPod,
    Work,
)
from binder.agenda import Task
from binder.memory import Memory
from binder.report import (
    Gap,
    Standing,
    Verdict,
    because,
    booked,
    conditions,
    gap,
    held_for_one_that_waits,
    is_told,
    release,
    report,
    said_of,
    waits,
    words,
)
from binder.rewording import Rewording
from binder.sets import is_attached, is_lost
from binder.telling import events, is_news, refusal
from binder.units import Item, Unit
from shared.core.model import Attachment, Claim, Node, Pod
from shared.reasons import LET_GO, Reason, say
from shared.vocabulary import FINALIZER_CLAIM


def book(unit: Unit, node_name: str, nodes: Mapping[str, Node], memory: Memory, now: str) -> Work:
    """All claims of a unit are booked on a node, and its pod starts there (rule 7.8)."""
    obstacle = refusal(unit, memory)
    laid: list[Claim | Pod] = []
    prepare: list[Action] = []
    bookings: list[Action] = []
    for item in unit.items:
        user = _user(unit, item)
        laid.append(replace(item.unbound, node_name=node_name, attached_to=user))
        made = _made(unit, item)
        prepare += made
        standing = booked(nodes.get(node_name), user, obstacle)
        bookings += _booking(item, node_name, standing, now, is_new=bool(made))
    steps = [prepare, bookings]
    if obstacle:
        # First: what was refused may be a booking, and no step comes after it. Then no claim
        # says it either, for as long as it lasts.
        why = because(Reason.NODE_REFUSED, obstacle)
        again = bool(prepare or bookings)
        steps.insert(0, events(unit, why, {}, memory, now, again=again))
    pod = unit.pod
    if pod is not None:
        laid.append(replace(pod, pinned_to=node_name))
        steps.append([_start(pod, node_name)])
    return _work(unit, steps, laid)


def let_go(unit: Unit, memory: Memory, now: str) -> Work:
    """With the feature off a pod goes wherever the scheduler lets it (rule 7.15)."""
    off = because(Reason.DISABLED, f"{say(Reason.DISABLED)}; {LET_GO}")
    starts: list[Action] = [] if unit.pod is None else [_start(unit.pod, "")]
    return _work(unit, [events(unit, off, {}, memory, now), starts])


def wait(
    unit: Unit,
    why: Verdict,
    nodes: Mapping[str, Node],
    memory: Memory,
    now: str,
    *,
    lose: bool,
) -> Work | Rewording:
    """The claims of a unit say why it waits; what they hold they keep, or `lose` (rule 7.9).

    All claims of a unit are written together, after the event. Where that tells nothing but other
    words, or another reason of the stock's, it may wait.
    """
    made = [item for item in unit.items if item.before is None]
    creations: list[Action] = [_creation(unit, item) for item in made]
    reports: list[tuple[Gap, Action]] = []
    for item in unit.items:
        if item.is_booked:
            reports += _keep(unit, item, why, nodes, now, lose=lose)
        else:
            lost = is_lost(item.before or item.unbound)
            reports += _report(item, waits(why, _user(unit, item), lost=lost), now)
    said = said_of(unit.gpu_set.vmi, unit.claims) if unit.gpu_set is not None else {}
    # First: where a claim may not be made, no step comes after it, and none says it.
    told = events(unit, why, said, memory, now, again=bool(creations))
    steps = [told + creations, [action for _, action in reports]]
    work = _work(unit, steps, [item.unbound for item in made])
    may_wait = (
        not creations
        and reports
        and all(lacks is Gap.WORDS for lacks, _ in reports)
        and not (told and is_news(unit, why, said, memory))
    )
    return Rewording(work, words(unit.claims)) if may_wait else work


def _booking(
    item: Item, node_name: str, standing: Standing, now: str, *, is_new: bool
) -> list[Action]:
    """Write a booking, unless it stands there already."""
    before = item.before or item.unbound
    held = (before.node_name, before.resource_name) == (node_name, item.resource)
    ref = _after_first_write(item.ref) if is_new else item.ref
    if held:
        return [] if is_told(before, standing) else [report(before, ref, standing, now)]
    since = before.written.bound if before.written is not None else ""
    return [
        BookClaim(
            ref,
            node_name,
            item.resource,
            since or now,
            standing.attached_to,
            conditions(before, standing, now),
        )
    ]


def _keep(
    unit: Unit, item: Item, why: Verdict, nodes: Mapping[str, Node], now: str, *, lose: bool
) -> list[tuple[Gap, Action]]:
    """What a claim that holds its units says while the VM waits for more.

    An order is held all the same, a template claim for its VM alone.
    """
    claim, gpu_set = item.before or item.unbound, unit.gpu_set
    belongs = gpu_set is not None and is_attached(claim, gpu_set.vmi)
    if lose and (belongs or claim.is_template):
        standing = waits(why, _user(unit, item), lost=True)
        return [(Gap.MORE, release(claim, item.ref, standing, now))]
    # Attached to another, it would be no item while that is there.
    if unit.pod is None and (claim.attached_to is None or belongs):
        return []
    return _report(item, held_for_one_that_waits(nodes.get(claim.node_name), why), now)


def _report(item: Item, standing: Standing, now: str) -> list[tuple[Gap, Action]]:
    """Say how a claim stands, with what it does not say yet; nothing where it says all."""
    claim = item.before or item.unbound
    lacks = gap(claim, standing)
    return [(lacks, report(claim, item.ref, standing, now))] if lacks else []


def _made(unit: Unit, item: Item) -> list[Action]:
    """What has to be written before a claim's status: the claim itself, or our finalizer."""
    if item.before is None:
        return [_creation(unit, item)]
    written = item.before.written
    finalizers = written.finalizers if written is not None else ()
    if FINALIZER_CLAIM in finalizers or item.before.deleting:
        return []
    return [AddFinalizer(Kind.CLAIM, item.ref, FINALIZER_CLAIM, finalizers)]


def _creation(unit: Unit, item: Item) -> CreateClaim:
    vmi = unit.gpu_set.vmi if unit.gpu_set is not None else None
    assert vmi is not None, "only a VM's class entries have claims that we make"
    claim = item.unbound
    return CreateClaim(item.ref, claim.class_name, claim.count, vmi.name, vmi.uid)


def _user(unit: Unit, item: Item) -> Attachment | None:
    """Whom a claim is attached to: the VM whose pod it is for, else nobody new."""
    if unit.gpu_set is None:
        return None
    if unit.pod is not None or unit.task is Task.ELSEWHERE or item.before is None:
        return unit.gpu_set.attachment
    return item.before.attached_to if is_attached(item.before, unit.gpu_set.vmi) else None


def _after_first_write(ref: Ref) -> Ref:
    """The object after an earlier step of the same work has changed it."""
    return replace(ref, version="")


def _start(pod: Pod, node_name: str) -> StartPod:
    placing = pod.placing
    assert placing is not None, "a pod at the gate is read with its placing"
    return StartPod(
        Ref(pod.namespace, pod.name, pod.uid, placing.resource_version),
        node_name,
        placing.gates,
        json.loads(placing.affinity) if placing.affinity else {},
    )


def _work(unit: Unit, steps: Sequence[Sequence[Action]], laid: Sequence[Claim | Pod] = ()) -> Work:
    return Work(unit.key, tuple(tuple(step) for step in steps if step), tuple(laid))
