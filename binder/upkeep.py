"""What claims need about which nothing is decided: finalizers, their end, a true status."""

from __future__ import annotations

from dataclasses import replace

from binder.actions import Action, AddFinalizer, DeleteClaim, Kind, RemoveFinalizer, Work
from binder.agenda import Task
from binder.report import report, settled
from binder.sets import user_of
from binder.units import claim_ref
from shared.core.cluster import ClusterState
from shared.core.model import Claim, Key
from shared.vocabulary import FINALIZER_CLAIM


def look_after(state: ClusterState, key: Key, task: Task, now: str) -> Work | None:
    """What a claim needs to have written; None where a decision is due instead."""
    claim = state.holders.claims[key]
    actions = _actions(state, claim, task, now)
    if not actions:
        return None
    steps = tuple((action,) for action in actions)
    return Work(f"claim/{claim.namespace}/{claim.name}", steps)


def _actions(state: ClusterState, claim: Claim, task: Task, now: str) -> list[Action]:
    ref = claim_ref(claim)
    finalizers = claim.written.finalizers if claim.written is not None else ()
    match task:
        case Task.ENDS:
            guarded = FINALIZER_CLAIM in finalizers
            left = RemoveFinalizer(
                Kind.CLAIM, replace(ref, version=""), FINALIZER_CLAIM, finalizers
            )
            return [DeleteClaim(ref), *([left] if guarded else [])]
        case Task.LEAVES:
            return [RemoveFinalizer(Kind.CLAIM, ref, FINALIZER_CLAIM, finalizers)]
        case Task.UNGUARDED:
            return [AddFinalizer(Kind.CLAIM, ref, FINALIZER_CLAIM, finalizers)]
        case Task.UNTOLD:
            user = user_of(claim, state.holders)
            node = state.nodes.get(claim.node_name)
            standing = settled(claim, node, user, enabled=state.settings.enabled)
            return [report(claim, ref, standing, now)] if standing is not None else []
        case _:
            return []
