"""Imported disks: what the Containerized Data Importer does with a DataVolume, without any data.

A claim is made for it; where its storage class binds late, the DataVolume waits for a pod to
choose the node; once the claim is bound, the import takes its time (KubeVirt observed 38, 39).
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.controller import Hands
from tests.kubevirt.objects import (
    condition,
    is_going,
    made,
    moment_of,
    name_of,
    namespace_of,
    owner_reference,
    phase_of,
    stamp,
    status_of,
    with_condition,
)
from tests.kubevirt.workqueue import Key

IMPORT: Final = "import"
IMPORTING: Final = "ImportInProgress"
STORAGE_CLASS: Final = "storage.k8s.io/v1/StorageClass"


@dataclass(frozen=True, slots=True)
class Act:
    """What a pass does: make the claim, or say how far the import is."""

    create: Object | None = None
    status: Object | None = None
    wait: datetime.datetime | None = None


def act(
    data_volume: Object,
    claim: Object | None,
    binds_late: bool,
    now: datetime.datetime,
    takes: datetime.timedelta,
) -> Act:
    """What is to be done for a DataVolume.

    Args:
        data_volume: with the claim that it wants in `spec.storage` or `spec.pvc`.
        claim: the PersistentVolumeClaim of its name, if it exists.
        binds_late: whether the storage class waits for a first consumer.
        now: for what changes.
        takes: how long an import takes.
    """
    phase = phase_of(data_volume)
    if is_going(data_volume) or phase in w.FINAL:
        return Act()
    if claim is None:
        return Act(create=claim_of(data_volume))
    if phase_of(claim) != "Bound":
        wanted = w.WAITS_FOR_CONSUMER if binds_late else w.PENDING
        return Act(status=_status(data_volume, wanted, now)) if phase != wanted else Act()
    if phase != IMPORTING:
        return Act(status=_status(data_volume, IMPORTING, now))
    due = moment_of(condition(data_volume, "Bound")["lastTransitionTime"]) + takes
    if due > now:
        return Act(wait=due)
    return Act(status=_status(data_volume, w.SUCCEEDED, now))


def claim_of(data_volume: Object) -> Object:
    """The claim of a DataVolume: of its name, and owned by it."""
    spec = data_volume["spec"]
    wanted = spec.get("storage") or spec.get("pvc") or {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name_of(data_volume),
            "namespace": namespace_of(data_volume),
            "ownerReferences": [owner_reference(data_volume)],
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **wanted,
        },
    }


def _status(data_volume: Object, phase: str, now: datetime.datetime) -> Object:
    status, moment = status_of(data_volume), stamp(now)
    conditions = status.get("conditions") or ()
    bound = "True" if phase in {IMPORTING, w.SUCCEEDED} else "False"
    ready = "True" if phase == w.SUCCEEDED else "False"
    for kind, value in (("Bound", bound), ("Ready", ready)):
        conditions = with_condition(conditions, made(kind, value, "", "", moment))
    return {**status, "phase": phase, "conditions": conditions}


@dataclass(frozen=True, slots=True)
class Imports:
    """One pass over a DataVolume."""

    hands: Hands

    async def work(self, namespace: str, name: str) -> None:
        """Make its claim, or say how far its import is."""
        hands = self.hands
        data_volume = hands.cache.get(w.DATA_VOLUME, namespace, name)
        if data_volume is None:
            return
        claim = hands.cache.get(w.PVC, namespace, name)
        late = claim is not None and await self._binds_late(claim)
        now = hands.clock.now()
        takes = datetime.timedelta(seconds=hands.timing.real(hands.timing.import_seconds))
        done = act(data_volume, claim, late, now, takes)
        if done.create is not None:
            await hands.create(done.create)
        if done.status is not None:
            await hands.replace({**data_volume, "status": done.status}, "status")
        if done.wait is not None:
            left = (done.wait - now).total_seconds()
            hands.queue.add_after(Key(IMPORT, namespace, name), left)

    async def _binds_late(self, claim: Object) -> bool:
        name = claim["spec"].get("storageClassName")
        found = await self.hands.api.find(STORAGE_CLASS, name) if name else None
        return found is not None and found.get("volumeBindingMode") == w.WAITS_FOR_CONSUMER
