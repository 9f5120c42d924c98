"""What is to be done: the sets, claims and classes that a pass has to look at, and no others.

`Agenda` is kept by what changed. An entry stays until the cluster is as it should be, so that a
write that failed, or that nobody sent, is decided about again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from binder.quotas import BudgetKeys
from binder.report import is_told, settled
from binder.rewording import Rewordings
from binder.sets import (
    GpuSet,
    ground,
    holds_units,
    is_elsewhere,
    is_lost,
    set_of,
    user_of,
)
from shared.core.cluster import ClusterState, Touched
from shared.core.coverage import place
from shared.core.model import (
    Change,
    Claim,
    Key,
    Node,
    Placement,
    Pod,
    Vmi,
)
from shared.core.templates import made_for
from shared.vocabulary import FINALIZER_CLAIM


class Task(IntEnum):
    """What a set or a claim needs, in the order of a pass (rule 7.3)."""

    ELSEWHERE = 1
    """The VM is on a node where not all of its claims are booked (7.17)."""
    SPLIT = 2
    """Its claims are neither on one node nor all without one, and nothing of it runs (7.4)."""
    GATED = 3
    """Its launcher waits at our gate (7.5 to 7.9)."""
    LOST = 4
    """It has lost its node, and nothing of it waits at the gate."""
    UNBOUND = 5
    """Orders of it are not bound yet, and nothing of it waits at the gate."""
    OFF = 6
    """Its launcher waits at our gate, and the feature is off (7.15)."""
    ENDS = 7
    """A template claim that nothing needs any more (3.2)."""
    LEAVES = 8
    """A claim is being deleted, and no pod holds its units any more (3.2)."""
    UNGUARDED = 9
    """A claim holds units without our finalizer."""
    UNTOLD = 10
    """A claim's status does not say how it stands (3.5)."""


_NOTED_MAX: Final = 10_000
"""From so many touched objects on everything is looked at instead."""

_BY_SET = frozenset({Task.ELSEWHERE, Task.SPLIT, Task.GATED, Task.LOST, Task.UNBOUND})
"""Tasks in which a set decides about its claims."""


def vmi_task(state: ClusterState, uid: str) -> Task | None:
    """What the set of a VMI needs, by the state alone; None where it has none or all is well."""
    vmi = state.holders.vmis.get(uid)
    if vmi is None or not vmi.record:
        return None
    gpu_set = set_of(vmi, state.holders)
    if vmi.final and not gpu_set.placed:
        return None
    if not state.settings.enabled:
        return Task.OFF if gpu_set.gated else None
    if state.settings.placement is Placement.SCHEDULER and not _is_ours(gpu_set):
        return None  # no claims are made for its class entries
    if gpu_set.placed:
        node = state.nodes.get(ground(gpu_set))
        # Another launcher at the gate waits until this one is gone.
        return Task.ELSEWHERE if is_elsewhere(gpu_set, node) else None
    if gpu_set.gated:
        return Task.GATED
    if vmi.placing is not None and vmi.placing.deleted:
        return None
    if gpu_set.is_split:
        return Task.SPLIT
    unbound = [claim for claim in gpu_set.claims if not claim.node_name]
    if any(is_lost(claim) for claim in unbound):
        return Task.LOST
    return Task.UNBOUND if unbound else None


def _is_ours(gpu_set: GpuSet) -> bool:
    """Whether a set is placed by us where the scheduler places: one that began so, goes on so."""
    names_claims = any(member.entry.claim for member in gpu_set.members)
    return names_claims or bool(gpu_set.gated or gpu_set.claims)


def claim_task(state: ClusterState, key: Key) -> Task | None:
    """What a claim needs besides what its set decides, by the state alone."""
    claim = state.holders.claims.get(key)
    if claim is None:
        return None
    user = user_of(claim, state.holders)
    if claim.deleting:
        guarded = claim.written is not None and FINALIZER_CLAIM in claim.written.finalizers
        if guarded and not is_held(claim, user, state):
            return Task.LEAVES
    elif claim.is_template and user is None and not is_held(claim, None, state):
        return Task.ENDS
    elif user is None and not claim.node_name and state.settings.enabled:
        return Task.LOST if is_lost(claim) else Task.UNBOUND
    if user is not None and vmi_task(state, user.uid) in _BY_SET:
        return None
    return _upkeep(state, claim, user)


def _upkeep(state: ClusterState, claim: Claim, user: Vmi | None) -> Task | None:
    """What a claim needs about which nothing is decided."""
    guarded = claim.written is None or FINALIZER_CLAIM in claim.written.finalizers
    if claim.node_name and not claim.deleting and not guarded:
        return Task.UNGUARDED
    node = state.nodes.get(claim.node_name)
    standing = settled(claim, node, user, enabled=state.settings.enabled)
    return None if standing is None or is_told(claim, standing) else Task.UNTOLD


def is_held(claim: Claim, user: Vmi | None, state: ClusterState) -> bool:
    """Whether a pod of the claim's VM is on a node, or bound to go to one, whoever owns the pod."""
    holders = state.holders
    if user is not None and holds_units(user, holders):
        return True
    # A VMI may be gone before its pod is. The pod's mark says whose it was, and stays.
    uid = made_for(claim)
    if not uid:
        return holders.is_held_by_what_is_left(claim)
    return any(place(pod) for pod in holders.pods_of(uid) if pod.namespace == claim.namespace)


@dataclass(slots=True)
class _Stale:
    """What was touched since the last look."""

    vmis: set[str]
    claims: set[Key]
    everything: bool = False


class Agenda:
    """What is to be done in a state. `note` every change, after it was applied.

    Attributes:
        budget_keys: those that name no GPU.
        rewordings: units whose claims say why they wait in other words than those of now, or name
            another reason of the stock's.
    """

    def __init__(self, state: ClusterState) -> None:
        self.budget_keys = BudgetKeys(state)
        self.rewordings = Rewordings()
        self._state = state
        self._vmis: dict[str, Task] = {}
        self._claims: dict[Key, Task] = {}
        self._classes: set[str] = set()
        self._stale = _Stale(set(), set(), everything=True)

    def note(self, change: Change, touched: Touched) -> None:
        """A change was applied to the state, and touched this."""
        stale, value = self._stale, change.object
        self.budget_keys.note(change)
        if stale.everything:
            return  # all will be looked at
        self._classes |= touched.classes
        stale.everything |= touched.everything
        stale.vmis |= touched.vmis
        match value:
            case Pod():
                if touched.vmis - self._state.holders.vmis.keys():
                    self._note_booked_with(value)
            case Vmi():
                self._note_vmi(value)
            case Claim():
                stale.claims.add(value.key)
                self._classes.add(value.class_name)
            case Node():
                holders = self._state.holders
                stale.claims.update(claim.key for claim in holders.booked_on(value.name))
                stale.vmis.update({pod.launcher_mark for pod in holders.pods_on(value.name)} - {""})
            case _:
                pass  # what else they change is told by `touched`
        if stale.everything or len(stale.vmis) + len(stale.claims) > _NOTED_MAX:
            # Who stands by looks at nothing for weeks, while VMs come and go.
            self.note_all()

    def note_all(self) -> None:
        """Anything may have changed."""
        self._stale = _Stale(set(), set(), everything=True)

    def sets(self) -> dict[str, Task]:
        """The VMIs, by uid, whose sets need something."""
        self._look()
        return self._vmis

    def claims(self) -> dict[Key, Task]:
        """The claims that need something besides what their sets decide."""
        self._look()
        return self._claims

    def classes(self) -> frozenset[str]:
        """The classes whose figures or claims changed since `told` of them."""
        self._look()
        return frozenset(self._classes)

    def told(self, class_name: str) -> None:
        """The status of a class says what is so."""
        self._classes.discard(class_name)

    def _note_vmi(self, vmi: Vmi) -> None:
        self._stale.claims |= self._claims_of(vmi.uid, vmi)
        # It may have come later than its pod did, or be gone before: see `is_held`.
        for pod in self._state.holders.pods_of(vmi.uid):
            self._note_booked_with(pod)

    def _note_booked_with(self, pod: Pod) -> None:
        """Claims that are kept for as long as a pod of an unknown VMI is where they are booked.

        Also of a pod that just ended, and takes no room any more.
        """
        booked = self._state.holders.booked_on(pod.node_name or pod.pinned_to)
        self._stale.claims.update(claim.key for claim in booked)

    def _look(self) -> None:
        """Judge anew what was touched, and what hangs together with it."""
        state, stale = self._state, self._stale
        if not (stale.everything or stale.vmis or stale.claims):
            return
        self._stale = _Stale(set(), set())
        holders = state.holders
        if stale.everything:
            self._vmis.clear()
            self._claims.clear()
            self._classes |= state.classes.keys()
            stale.vmis = set(holders.vmis)
            stale.claims = set(holders.claims)
        else:
            self._spread(stale)
        for uid in stale.vmis:
            task = vmi_task(state, uid)
            if task is None:
                self._vmis.pop(uid, None)
            else:
                self._vmis[uid] = task
        for key in stale.claims:
            need = claim_task(state, key)
            if need is None:
                self._claims.pop(key, None)
            else:
                self._claims[key] = need

    def _spread(self, stale: _Stale) -> None:
        """Add what is judged together: all VMIs that name a claim, and all claims of a VMI."""
        holders = self._state.holders
        for uid in list(stale.vmis):
            stale.claims |= self._claims_of(uid, holders.vmis.get(uid))
        for key in stale.claims:
            stale.vmis.update(vmi.uid for vmi in holders.naming(key))
        for uid in stale.vmis:
            stale.claims |= self._claims_of(uid, holders.vmis.get(uid))

    def _claims_of(self, uid: str, vmi: Vmi | None) -> set[Key]:
        """The claims whose standing hangs on a VMI, which may be gone, and its record with it."""
        keys = {claim.key for claim in self._state.holders.used_by(uid)}
        if vmi is not None:
            keys |= {(vmi.namespace, entry.claim) for entry in vmi.record if entry.claim}
        return keys
