"""What happens to a guest on its node: virt-handler's part, and at a migration's end the kubelet's.

The guest runs as soon as its pod does. When its pod ended, the instance did too.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from tests.cluster.api import MERGE, Object
from tests.kubevirt import words as w
from tests.kubevirt.controller import Hands
from tests.kubevirt.instances import current_pod, is_ready, replacement
from tests.kubevirt.objects import (
    annotations_of,
    is_final,
    items,
    labels_of,
    moment_of,
    name_of,
    phase_of,
    stamp,
    status_of,
)
from tests.kubevirt.workqueue import Key

GUEST = "guest"


@dataclass(frozen=True, slots=True)
class Act:
    """What a pass does.

    Attributes:
        patch: JSON Patch for the instance.
        ended: a pod whose guest left, and which therefore succeeded.
        wait: when a migration will have arrived.
    """

    patch: tuple[Object, ...] = ()
    ended: Object | None = None
    wait: datetime.datetime | None = None


def act(
    vmi: Object, pods: Sequence[Object], now: datetime.datetime, migration: datetime.timedelta
) -> Act:
    """What is to be done for an instance; `migration` is how long one takes."""
    status, phase = status_of(vmi), phase_of(vmi)
    if phase not in {w.SCHEDULED, w.RUNNING}:
        return Act()
    state = status.get("migrationState") or {}
    if state.get("completed"):
        for each in pods:
            if name_of(each) == state.get("sourcePod") and not is_final(each):
                return Act(ended=each)
    pod = current_pod(vmi, pods)
    if pod is None:
        return Act()  # virt-controller's to say
    if is_final(pod):
        return Act(patch=tuple(_ended(vmi, phase_of(pod), now)))  # KubeVirt observed 30
    if phase == w.SCHEDULED:
        return Act(patch=tuple(_runs(vmi, now)) if is_ready(pod) else ())
    if state and not state.get("completed"):
        return _migrates(vmi, state, now, migration)
    return Act()


def _runs(vmi: Object, now: datetime.datetime) -> list[Object]:
    """The guest was seen running (KubeVirt observed 24)."""
    known = annotations_of(vmi)
    new = {**known, w.ANNOTATION_NONROOT: "true"}
    return [
        *_phase(vmi, w.RUNNING, now),
        *replacement("/metadata/annotations", vmi["metadata"].get("annotations"), new),
    ]


def _ended(vmi: Object, phase: str, now: datetime.datetime) -> list[Object]:
    return _phase(vmi, w.SUCCEEDED if phase == w.SUCCEEDED else w.FAILED, now)


def _phase(vmi: Object, phase: str, now: datetime.datetime) -> list[Object]:
    old = list(items(vmi, "status", "phaseTransitionTimestamps"))
    new = [*old, {"phase": phase, "phaseTransitionTimestamp": stamp(now)}]
    return [
        *replacement("/status/phase", phase_of(vmi), phase),
        *replacement("/status/phaseTransitionTimestamps", old or None, new),
    ]


def _migrates(
    vmi: Object, state: Object, now: datetime.datetime, migration: datetime.timedelta
) -> Act:
    """The target's node gets ready, the source's sends, and the instance is on the other node."""
    if "targetNodeAddress" not in state:
        return Act(patch=tuple(_state(state, {"targetNodeAddress": "127.0.0.1"})))
    if "startTimestamp" not in state:
        return Act(patch=tuple(_state(state, {"startTimestamp": stamp(now)})))
    due = moment_of(state["startTimestamp"]) + migration
    if due > now:
        return Act(wait=due)
    node = state["targetNode"]
    labels = {k: v for k, v in labels_of(vmi).items() if k != w.LABEL_TARGET_NODE}
    return Act(
        patch=(
            *_state(state, {"endTimestamp": stamp(now), "completed": True}),
            *replacement("/status/nodeName", status_of(vmi)["nodeName"], node),
            *replacement(
                "/metadata/labels",
                vmi["metadata"].get("labels"),
                {**labels, w.LABEL_NODE_NAME: node},
            ),
        )
    )


def _state(state: Object, more: Object) -> list[Object]:
    return replacement("/status/migrationState", state, {**state, **more})


@dataclass(frozen=True, slots=True)
class Guests:
    """One pass over what an instance's guest does.

    `handler` works as virt-handler's account, `kubelet` as whoever may write a pod's status.
    """

    handler: Hands
    kubelet: Hands

    async def work(self, namespace: str, name: str) -> None:
        """Say what the guest does."""
        hands = self.handler
        vmi = hands.cache.get(w.VMI, namespace, name)
        if vmi is None:
            return
        now = hands.clock.now()
        takes = datetime.timedelta(seconds=hands.timing.real(hands.timing.migration_seconds))
        done = act(vmi, hands.cache.owned(vmi), now, takes)
        if done.patch:
            await hands.patch(vmi, list(done.patch))
        if done.ended is not None:
            await self.kubelet.patch(done.ended, _succeeded(done.ended, now), "status", MERGE)
        if done.wait is not None:
            left = (done.wait - now).total_seconds()
            hands.queue.add_after(Key(GUEST, namespace, name), left)


def _succeeded(pod: Object, now: datetime.datetime) -> Object:
    """A pod's status after all its containers ended well."""
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": stamp(now)}
    states = [
        {**each, "ready": False, "started": False, "state": {"terminated": ended}}
        for each in items(pod, "status", "containerStatuses")
    ]
    return {"status": {"phase": w.SUCCEEDED, "containerStatuses": states}}
