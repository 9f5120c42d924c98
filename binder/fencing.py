"""Fences: before units are freed, no earlier leader starts a pod on them any more (rule 7.1).

A booking carries its term, and the API server refuses an older one. A start carries none, and a
leader may sleep between its check and its send. But a start names the pod's version: who changes
the pod first has it refused, or learns that it came before. One place for all works. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from binder.actions import (
    Action,
    BookClaim,
    DeleteClaim,
    FencePod,
    Kind,
    Ref,
    ReleaseClaim,
    RemoveFinalizer,
    StartPod,
    Work,
)
from binder.sets import is_gated
from shared.core.holders import Holders
from shared.core.model import Claim, Pod
from shared.core.templates import made_for


def fenced(work: Work, holders: Holders) -> Work:
    """A work that begins with fences, where it frees units with which a pod could be started.

    Args:
        work: as it was decided.
        holders: who holds what, before any of it is done.
    """
    actions = [action for step in work.steps for action in step]
    freed = (claim for each in actions for claim in _freed(each, holders))
    pods = {pod.uid: pod for claim in freed for pod in _startable(claim, holders)}
    if not pods:
        return work
    fences = tuple(FencePod(_ref(pod)) for _, pod in sorted(pods.items()))
    steps = (tuple(_after(each, pods) for each in step) for step in work.steps)
    return replace(work, steps=(fences, *steps))


def _freed(action: Action, holders: Holders) -> Iterator[Claim]:
    """The claim that holds units, and would not hold them where they are after an action."""
    match action:
        case BookClaim() | ReleaseClaim() | DeleteClaim():
            ref, node = action.claim, action.node_name if isinstance(action, BookClaim) else ""
        case RemoveFinalizer(Kind.CLAIM):
            ref, node = action.object, ""
        case _:
            return
    claim = holders.claims.get((ref.namespace, ref.name))
    if claim is not None and claim.node_name not in ("", node):
        yield claim


def _startable(claim: Claim, holders: Holders) -> Iterator[Pod]:
    """Pods at our gate that could be started with a claim's units."""
    for uid in {made_for(claim), *(vmi.uid for vmi in holders.naming(claim.key))} - {""}:
        for pod in holders.pods_of(uid):
            if is_gated(pod) and pod.namespace == claim.namespace:
                yield pod


def _ref(pod: Pod) -> Ref:
    assert pod.placing is not None, "a pod at the gate is read with its placing"
    return Ref(pod.namespace, pod.name, pod.uid, pod.placing.resource_version)


def _after(action: Action, pods: dict[str, Pod]) -> Action:
    """A start of a pod that is fenced before: the answer to the fence tells its version."""
    if isinstance(action, StartPod) and action.pod.uid in pods:
        return replace(action, pod=replace(action.pod, version=""))
    return action
