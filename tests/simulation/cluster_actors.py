"""The rest of a cluster in virtual time: scheduler, kubelets, garbage collector."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.kubevirt.objects import (
    has_condition,
    is_final,
    is_going,
    items,
    phase_of,
    stamp,
    uid_of,
    with_condition,
)
from tests.simulation import collector, facts
from tests.simulation.kinds import NAMESPACE, NODE, POD
from tests.simulation.stage import Stage, key_of
from tests.simulation.store import DELETED, Change, Key

Raw = dict[str, Any]

SCHEDULER: Final = "system:kube-scheduler"
KUBELET: Final = "system:node"
RETRY_SECONDS: Final = 5.0


@dataclass(slots=True)
class Scheduler:
    """Binds pods without gates to nodes, as their affinity, selector and the nodes' room allow."""

    stage: Stage
    _here: dict[str, dict[str, Raw]] = field(default_factory=dict)
    """Pods by node and uid."""

    def begin(self) -> None:
        """Follow pods and nodes from now on."""
        self.stage.on((POD,), self._pod)

    def _pod(self, change: Change) -> None:
        pod = change.after
        node = pod["spec"].get("nodeName", "")
        if node:
            here = self._here.setdefault(node, {})
            if change.what == DELETED or is_final(pod):
                here.pop(uid_of(pod), None)
            else:
                here[uid_of(pod)] = pod
        elif change.what != DELETED and not facts.gates(pod):
            self._try(key_of(pod), self.stage.chance.uniform(0.003, 0.1))

    def _try(self, key: Key, seconds: float) -> None:
        self.stage.plan(("schedule", key), seconds, lambda: self._work(key))

    def _work(self, key: Key) -> None:
        pod = self.stage.get(POD, *key)
        if pod is None or pod["spec"].get("nodeName") or facts.gates(pod) or is_going(pod):
            return
        if is_final(pod):
            return
        fitting = [each for each in self.stage.store.all(NODE) if self._fits(pod, each)]
        if fitting:
            chosen = self.stage.chance.choice(fitting)
            self.stage.api.bind(key, chosen["metadata"]["name"], SCHEDULER)
            return
        if not has_condition(pod, "PodScheduled", "False") or not _is_unschedulable(pod):
            known = pod["status"].get("conditions") or ()
            new = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0 nodes are available",
                "lastTransitionTime": stamp(self.stage.now()),
            }
            status = {"status": {"conditions": with_condition(known, new)}}
            self.stage.api.merge(POD, key, status, SCHEDULER, "status")
        self._try(key, RETRY_SECONDS)

    def _fits(self, pod: Raw, node: Raw) -> bool:
        name = node["metadata"]["name"]
        if facts.terms(pod) and facts.pinned_to(pod) not in {"", name}:
            return False
        if node["spec"].get("unschedulable") or not facts.is_ready(node):
            return False
        if any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints", ())):
            return False
        labels = node["metadata"].get("labels") or {}
        wanted = pod["spec"].get("nodeSelector") or {}
        if any(labels.get(key) != value for key, value in wanted.items()):
            return False
        offered, asked = facts.allocatable(node), facts.requested(pod)
        for each in self._here.get(name, {}).values():
            asked.update(facts.requested(each))
        return all(units <= offered.get(device, 0) for device, units in asked.items())


def _is_unschedulable(pod: Raw) -> bool:
    return any(each.get("reason") == "Unschedulable" for each in items(pod, "status", "conditions"))


@dataclass(slots=True)
class Kubelets:
    """Run what is bound to their nodes, refuse some of it, and let go of what is deleted.

    `refuses` is the chance of a pod with devices to be refused though the node seemed to have room.
    """

    stage: Stage
    refuses: float = 0.0

    def begin(self) -> None:
        """Follow pods from now on."""
        self.stage.on((POD,), self._pod)

    def _pod(self, change: Change) -> None:
        pod = change.after
        if change.what != DELETED and pod["spec"].get("nodeName"):
            key, uid = key_of(pod), uid_of(pod)
            if is_going(pod):
                self.stage.plan(
                    ("end", uid), self.stage.chance.uniform(0.2, 8), lambda: self._end(key, uid)
                )
            elif phase_of(pod) == "Pending":
                self.stage.plan(
                    ("run", uid), self.stage.chance.uniform(0.05, 2), lambda: self._run(key, uid)
                )

    def _run(self, key: Key, uid: str) -> None:
        pod = self.stage.get(POD, *key)
        if pod is None or uid_of(pod) != uid or is_going(pod) or phase_of(pod) != "Pending":
            return
        node = self.stage.get(NODE, "", pod["spec"]["nodeName"])
        if node is None or not facts.is_ready(node):
            self.stage.plan(("run", uid), RETRY_SECONDS, lambda: self._run(key, uid))
            return
        lacking = self._lacking(pod, node)
        refuses = self.stage.chance.random() < self.refuses
        if facts.mark_of(pod) and self.stage.refusing[node["metadata"]["name"]]:
            self.stage.refusing[node["metadata"]["name"]] -= 1
            refuses = True
        if lacking or (facts.mark_of(pod) and refuses):
            reason = f"OutOf{lacking}" if lacking else "UnexpectedAdmissionError"
            failed = {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}
            self.stage.api.merge(POD, key, {"status": failed}, KUBELET, "status")
            return
        now = stamp(self.stage.now())
        running = {"running": {"startedAt": now}}
        conditions = with_condition(
            pod["status"].get("conditions") or (),
            {"type": "Ready", "status": "True", "lastTransitionTime": now},
        )
        status = {
            "phase": "Running",
            "startTime": now,
            "conditions": conditions,
            "containerStatuses": [
                {"name": each["name"], "ready": True, "started": True, "state": running}
                for each in pod["spec"]["containers"]
            ],
        }
        self.stage.api.merge(POD, key, {"status": status}, KUBELET, "status")

    def _lacking(self, pod: Raw, node: Raw) -> str:
        """A device of which the node has too few for all that it runs."""
        offered, asked = facts.allocatable(node), facts.requested(pod)
        name = node["metadata"]["name"]
        for other in self.stage.store.each(POD).values():
            runs = other["spec"].get("nodeName") == name and phase_of(other) == "Running"
            if runs and uid_of(other) != uid_of(pod):
                asked.update(facts.requested(other))
        for device in sorted(facts.requested(pod)):
            if asked[device] > offered.get(device, 0):
                return device
        return ""

    def _end(self, key: Key, uid: str) -> None:
        pod = self.stage.get(POD, *key)
        if pod is None or uid_of(pod) != uid:
            return
        node = self.stage.get(NODE, "", pod["spec"]["nodeName"])
        if node is not None and not facts.is_ready(node):
            self.stage.plan(("end", uid), RETRY_SECONDS, lambda: self._end(key, uid))
            return
        self.stage.api.delete(POD, key, KUBELET, uid=uid, grace=0)


@dataclass(slots=True)
class Collector:
    """Sweeps some time after something went."""

    stage: Stage

    def begin(self) -> None:
        """Follow everything from now on."""
        self.stage.store.on_change.append(self._changed)

    def _changed(self, change: Change) -> None:
        is_leaving = change.kind is NAMESPACE and is_going(change.after)
        if change.what == DELETED or is_leaving or change.after["metadata"].get("ownerReferences"):
            self.stage.soon("sweep", self._sweep, 0.05, 1.0)

    def _sweep(self) -> None:
        collector.collect(self.stage.api)
