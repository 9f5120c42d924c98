"""VirtualMachineInstances: which pod comes next, and what the instance says about it.

One pass over an instance is `act`, then `told`: first what is created and deleted, then the
instance as it is written back, which depends on how the creation ended. Both see one `Sight`,
taken before the pass began.
"""

from __future__ import annotations

import copy
import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.cluster.api import JSON_PATCH, Object
from tests.kubevirt import rendering
from tests.kubevirt import words as w
from tests.kubevirt.objects import (
    annotations_of,
    condition,
    finalizers_of,
    has_condition,
    is_final,
    is_going,
    items,
    labels_of,
    made,
    phase_of,
    stamp,
    status_of,
    uid_of,
    with_condition,
    without_condition,
)
from tests.kubevirt.volumes import Disks, imports_condition

_UNPROCESSED: Final = frozenset({"", w.PENDING})
_HANDED_OVER: Final = frozenset({w.SCHEDULED, w.RUNNING})
"""Phases in which virt-handler writes the instance too; virt-controller then only patches."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pass did not get its work done: what the condition Synchronized says.

    `informal` failures wait for something to change; others are tried again and again.
    """

    reason: str
    message: str
    informal: bool = False


@dataclass(frozen=True, slots=True)
class Sight:
    """All that virt-controller knows of one instance.

    Attributes:
        vmi: the instance.
        pods: every pod with the label `kubevirt.io` whose controller is this instance, whoever
            made it.
        listed: uids of those that `status.activePods` may show by now.
        attachments: pods for hotplugged volumes, whose controller is one of `pods`.
        disks: of its volumes.
        permitted: names in the KubeVirt object's table of devices; None without a table.
        has_machine: whether the VirtualMachine that controls it still exists.
        is_migrating: whether a migration of it is under way.
    """

    vmi: Object
    pods: tuple[Object, ...] = ()
    listed: frozenset[str] = frozenset()
    attachments: tuple[Object, ...] = ()
    disks: Disks = field(default_factory=Disks)
    permitted: frozenset[str] | None = None
    has_machine: bool = False
    is_migrating: bool = False

    @property
    def pod(self) -> Object | None:
        """The one that counts as its pod."""
        return current_pod(self.vmi, self.pods)


@dataclass(frozen=True, slots=True)
class Act:
    """What is to be done to pods. `create` is one pod at most in a pass."""

    create: Object | None = None
    delete: tuple[Object, ...] = ()
    at_once: bool = False
    """Delete without any grace."""
    failure: Failure | None = None


def current_pod(vmi: Object, pods: Iterable[Object]) -> Object | None:
    """The newest pod, once the instance is on a node the newest there.

    A stranger's pod that looks like a launcher of this instance takes the place of an older one
    (KubeVirt observed 17).
    """
    node = status_of(vmi).get("nodeName")
    found: Object | None = None
    for pod in pods:
        if node and pod["spec"].get("nodeName") != node:
            continue
        if found is None or _created(found) < _created(pod):
            found = pod
    return found


def act(sight: Sight) -> Act:
    """What the instance's pods need now."""
    vmi, pod = sight.vmi, sight.pod
    if is_going(vmi):
        return Act(delete=tuple(each for each in sight.pods if not is_going(each)))
    if is_final(vmi):
        return Act(delete=tuple(each for each in sight.attachments if not is_going(each)))
    if sight.disks.missing:
        message = f"PVC {sight.disks.missing} does not exist, waiting for it to appear"
        return Act(failure=Failure(w.FAILED_PVC_NOT_FOUND, message, informal=True))
    if pod is None:
        return _first_pod(sight)
    if not sight.disks.wait_for_consumer and (done := _finished_temporaries(sight.pods)):
        return Act(delete=done, at_once=True)
    if not is_temporary(pod) and is_ready(pod):
        return _attachments(sight, pod)
    return Act()


def told(
    sight: Sight, pod: Object | None, failure: Failure | None, now: datetime.datetime
) -> Object:
    """The instance with status, labels and finalizers as they are to be.

    Args:
        sight: from before the pass.
        pod: the one that counts as its pod now, perhaps just created; it is listed in
            `activePods` only with a later pass (KubeVirt observed 13).
        failure: of this pass.
        now: for what changes.
    """
    vmi = copy.deepcopy(sight.vmi)
    moment = stamp(now)
    status = vmi["status"] = {**status_of(vmi)}
    _tell_active_pods(status, sight)
    conditions = with_condition(status.get("conditions") or (), _ready(sight.vmi, pod, moment))
    if sight.disks.data_volumes:
        conditions = with_condition(
            conditions, made("DataVolumesReady", *imports_condition(sight.disks), None)
        )
    status["conditions"] = conditions
    before = phase_of(sight.vmi)
    status["phase"] = before
    if before in _UNPROCESSED:
        _tell_unprocessed(vmi, sight, pod, failure)
    elif before == w.SCHEDULING:
        _tell_scheduling(vmi, pod)
    elif before in _HANDED_OVER:
        if pod is None or is_temporary(pod):
            status["phase"] = w.FAILED
    elif before in w.FINAL:
        _let_go(vmi, sight)
    if before not in _HANDED_OVER:
        _tell_failure(status, failure, moment)
        if status["phase"] != before:
            status["phaseTransitionTimestamps"] = [
                *(status.get("phaseTransitionTimestamps") or ()),
                {"phase": status["phase"], "phaseTransitionTimestamp": moment},
            ]
    return vmi


@dataclass(frozen=True, slots=True)
class PodPatch:
    """A write to a pod: what it is to be sent as, and where."""

    patch: object
    content_type: str
    subresource: str = ""


def pod_patches(vmi: Object, pod: Object | None, now: datetime.datetime) -> tuple[PodPatch, ...]:
    """All that is ever written to a pod between its creation and its deletion.

    The condition that it is not paused soon after its creation, gated or not, and the node's label
    once its containers run; nothing of its spec, nothing on temporary pods and on migration targets
    that are not yet the instance's pod (KubeVirt observed 12).
    """
    if pod is None or is_temporary(pod):
        return ()
    patches = []
    if not has_condition(pod, w.CONDITION_UNPAUSED, "True"):
        unpaused = made(
            w.CONDITION_UNPAUSED,
            "True",
            "NotPaused",
            "the virtual machine is not paused",
            stamp(now),
        )
        status = {"status": {"conditions": [unpaused]}}
        patches.append(PodPatch(status, "application/strategic-merge-patch+json", "status"))
    labels = dict(labels_of(pod))
    node = labels_of(vmi).get(w.LABEL_NODE_NAME)
    if labels.get(w.LABEL_NODE_NAME) != node:
        new = {k: v for k, v in labels.items() if k != w.LABEL_NODE_NAME}
        new |= {w.LABEL_NODE_NAME: node} if node else {}
        patches.append(PodPatch(replacement("/metadata/labels", labels, new), JSON_PATCH))
    return tuple(patches)


def patch_of(vmi: Object, told: Object) -> list[Object]:
    """How an instance that virt-handler writes too is changed: each part only if it is as seen."""
    patch: list[Object] = []
    for key in ("conditions", "activePods", "phase"):
        old, new = status_of(vmi).get(key), status_of(told).get(key)
        if old != new:
            patch += replacement(f"/status/{key}", old, new)
    if labels_of(vmi) != labels_of(told):
        old_labels = vmi["metadata"].get("labels")
        patch += replacement("/metadata/labels", old_labels, dict(labels_of(told)))
    return patch


def replacement(path: str, old: object, new: object) -> list[Object]:
    """A JSON Patch that puts a new value where the old one still is."""
    if old is None:
        return [{"op": "add", "path": path, "value": new}]
    test = {"op": "test", "path": path, "value": old}
    if new is None:
        return [test, {"op": "remove", "path": path}]
    return [test, {"op": "replace", "path": path, "value": new}]


def is_handed_over(vmi: Object) -> bool:
    """Whether virt-handler writes the instance too."""
    return phase_of(vmi) in _HANDED_OVER


def is_temporary(pod: Object) -> bool:
    """Whether a pod only makes volumes bind."""
    return w.ANNOTATION_EPHEMERAL in annotations_of(pod)


def is_ready(pod: Object) -> bool:
    """Whether a pod runs with all its containers, and is to stay."""
    states = items(pod, "status", "containerStatuses")
    running = bool(states) and all("running" in (each.get("state") or {}) for each in states)
    return phase_of(pod) == w.RUNNING and running and not is_going(pod)


def is_down(pod: Object) -> bool:
    """Whether a pod ended, its guest ended, or its deletion has begun."""
    guest_ended = any(
        each["name"] == "compute" and "terminated" in (each.get("state") or {})
        for each in items(pod, "status", "containerStatuses")
    )
    return is_final(pod) or guest_ended or is_going(pod)


def _first_pod(sight: Sight) -> Act:
    """The instance's pod: made once, then only while nothing of it was ever seen."""
    if phase_of(sight.vmi) not in _UNPROCESSED or not sight.disks.ready:
        return Act()
    if sight.is_migrating:
        return Act(failure=Failure(w.FAILED_CREATE, "active migration exists"))
    if refusal := rendering.not_permitted(sight.vmi["spec"], sight.permitted):
        message = f"failed to render launch manifest: {refusal}"
        return Act(failure=Failure(w.FAILED_CREATE, message))
    if sight.disks.wait_for_consumer:
        return Act(create=rendering.temporary(sight.vmi))
    return Act(create=rendering.launcher(sight.vmi))


def _finished_temporaries(pods: Sequence[Object]) -> tuple[Object, ...]:
    """Temporary pods that did their work; one that still waits is left (KubeVirt observed 40)."""
    return tuple(
        pod
        for pod in pods
        if is_temporary(pod)
        and not is_going(pod)
        and phase_of(pod) in {w.RUNNING, w.SUCCEEDED, w.FAILED}
    )


def _attachments(sight: Sight, pod: Object) -> Act:
    """One pod for all volumes that are plugged into a running guest (KubeVirt observed 46)."""
    wanted = [
        each for each in items(sight.vmi, "spec", "volumes") if rendering.is_hotpluggable(each)
    ]
    plugged = [each for each in wanted if rendering.claim_of(each)]
    claims = {rendering.claim_of(each) for each in plugged}
    current = [each for each in sight.attachments if not is_going(each)]
    right = [each for each in current if plugged and _claims(each) == claims]
    superseded = tuple(each for each in current if each not in right[:1])
    if not right and plugged:
        return Act(create=rendering.attachment(pod, plugged))
    return Act(delete=superseded)


def _claims(pod: Object) -> set[str]:
    return {
        volume["persistentVolumeClaim"]["claimName"]
        for volume in items(pod, "spec", "volumes")
        if "persistentVolumeClaim" in volume
    }


def _tell_active_pods(status: Object, sight: Sight) -> None:
    """Each pod's uid and node: no proof of anything, since a stranger's is among them.

    Those that ended stay until they are gone (KubeVirt observed 17, 26, 44).
    """
    active = {
        uid_of(pod): pod["spec"].get("nodeName", "")
        for pod in sight.pods
        if uid_of(pod) in sight.listed
    }
    if active:
        status["activePods"] = active
    else:
        status.pop("activePods", None)


def _ready(vmi: Object, pod: Object | None, moment: str) -> Object:
    """The condition Ready (KubeVirt observed 9, 11, 25)."""
    if pod is None or is_temporary(pod):
        return _not_ready("PodNotExists", "virt-launcher pod has not yet been scheduled", moment)
    if is_down(pod):
        return _not_ready("PodTerminating", "virt-launcher pod is terminating", moment)
    if phase_of(vmi) != w.RUNNING:
        return _not_ready("GuestNotRunning", "Guest VM is not reported as running", moment)
    if known := condition(pod, "Ready"):
        ready = made(
            "Ready",
            known["status"],
            known.get("reason", ""),
            known.get("message", ""),
            known.get("lastTransitionTime"),
        )
        return ready | {"lastProbeTime": known.get("lastProbeTime")}
    message = "virt-launcher pod is missing the Ready condition"
    return _not_ready("PodConditionMissing", message, moment)


def _not_ready(reason: str, message: str, moment: str) -> Object:
    return made("Ready", "False", reason, message, moment)


def _tell_unprocessed(
    vmi: Object, sight: Sight, pod: Object | None, failure: Failure | None
) -> None:
    """Pending until there is a pod that is no temporary one (KubeVirt observed 11, 38, 39)."""
    status = vmi["status"]
    if pod is not None and not is_temporary(pod):
        status["phase"] = w.SCHEDULING
        return
    if is_going(vmi) or sight.disks.any_failed:
        status["phase"] = w.FAILED
        return
    status["phase"] = w.PENDING
    if sight.disks.wait_for_consumer:
        if not condition(vmi, "Provisioning"):
            status["conditions"].append(made("Provisioning", "True", "", "", None))
        if pod is not None:
            _tell_scheduled(status, pod)
            if phase_of(pod) == w.FAILED or is_going(pod):
                status["phase"] = w.FAILED  # KubeVirt observed 41
    if failure is not None and failure.reason == w.FAILED_PVC_NOT_FOUND:
        status["conditions"] = [
            *without_condition(status["conditions"], "PodScheduled"),
            made("PodScheduled", "False", "Unschedulable", failure.message, None),
        ]


def _tell_scheduling(vmi: Object, pod: Object | None) -> None:
    """From the pod's creation to the moment when its containers run (KubeVirt observed 19, 24)."""
    status = vmi["status"]
    status["conditions"] = without_condition(status["conditions"], "Provisioning")
    if pod is None or is_temporary(pod):
        status["phase"] = w.FAILED  # somebody took it away (KubeVirt observed 27)
        return
    status["qosClass"] = status_of(pod).get("qosClass", "Burstable")
    _tell_scheduled(status, pod)
    if is_ready(pod) and not is_going(vmi):
        node = pod["spec"]["nodeName"]
        status |= {"phase": w.SCHEDULED, "nodeName": node, "migrationTransport": "Unix"}
        vmi["metadata"]["labels"] = {**labels_of(vmi), w.LABEL_NODE_NAME: node}
    elif is_down(pod):
        status["phase"] = w.FAILED  # KubeVirt observed 25, 27


def _tell_scheduled(status: Object, pod: Object) -> None:
    """Copy a pod's PodScheduled=False, but only where none is yet.

    So after a gate its text stays whatever the pod says later (KubeVirt observed 23), until the
    pod is on a node.
    """
    conditions = status["conditions"]
    if has_condition(pod, "PodScheduled", "False"):
        if not any(each["type"] == "PodScheduled" for each in conditions):
            times = {"lastProbeTime": None, "lastTransitionTime": None}
            known = condition(pod, "PodScheduled")
            kept = ("type", "status", "reason", "message", "lastProbeTime", "lastTransitionTime")
            copied = {key: known[key] for key in kept if key in known}
            status["conditions"] = [*conditions, times | copied]
    else:
        status["conditions"] = without_condition(conditions, "PodScheduled")


def _let_go(vmi: Object, sight: Sight) -> None:
    """Once no pod is left of an instance that ended, its finalizers go (KubeVirt observed 26)."""
    kept = finalizers_of(vmi)
    if not sight.pods:
        kept = [each for each in kept if each != w.FINALIZER_VMI]
    if not sight.has_machine:
        kept = [each for each in kept if each != w.FINALIZER_VM]
    if kept:
        vmi["metadata"]["finalizers"] = kept
    else:
        vmi["metadata"].pop("finalizers", None)


def _tell_failure(status: Object, failure: Failure | None, moment: str) -> None:
    """The condition Synchronized: there while a pass fails, with the first message of its reason.

    KubeVirt does not write a newer message while the reason stays the same.
    """
    if failure is None:
        status["conditions"] = without_condition(status["conditions"], "Synchronized")
        return
    new = made("Synchronized", "False", failure.reason, failure.message, moment)
    new["lastProbeTime"] = None
    status["conditions"] = with_condition(status["conditions"], new)


def _created(pod: Object) -> str:
    return str(pod["metadata"]["creationTimestamp"])
