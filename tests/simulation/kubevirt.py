"""KubeVirt in virtual time: its decisions are those of `tests.kubevirt`, carried out at once.

virt-controller for machines and instances, and virt-handler for guests. Migrations, replica sets
and imports are left to the real control plane.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from tests.kubevirt import guests, instances, machines
from tests.kubevirt import words as w
from tests.kubevirt.backoff import retry_seconds
from tests.kubevirt.defaults import with_defaults
from tests.kubevirt.objects import (
    controller_of,
    finalizers_of,
    is_final,
    is_going,
    namespace_of,
    phase_of,
    status_of,
    uid_of,
    with_condition,
)
from tests.simulation import admitted
from tests.simulation.kinds import POD, kind_named
from tests.simulation.policies import KUBEVIRT
from tests.simulation.stage import Stage, key_of
from tests.simulation.store import DELETED, Change, Key

Raw = dict[str, Any]

VM: Final = kind_named("virtualmachines")
VMI: Final = kind_named("virtualmachineinstances")


@dataclass(slots=True)
class KubeVirt:
    """The controllers, once `begin` was called."""

    stage: Stage
    _listed_at: dict[str, float] = field(default_factory=dict)
    _failures: dict[Key, int] = field(default_factory=dict)
    _pods: dict[str, dict[str, Raw]] = field(default_factory=dict)
    """Pods by the uid of the VMI that controls them, and their own."""

    def begin(self) -> None:
        """Follow machines, instances and pods from now on."""
        self.stage.on((VM, VMI, POD), self._concerned)

    def _concerned(self, change: Change) -> None:
        obj = change.after
        if change.kind is VM:
            self._machine(key_of(obj))
            return
        if change.kind is VMI:
            self._instance(key_of(obj))
            owner = controller_of(obj)
            if owner.get("kind") == "VirtualMachine":
                self._machine((namespace_of(obj), owner["name"]))
            return
        # One whose owner was taken away is no pod of its any more, which it gets to know.
        owner = controller_of(change.before or obj)
        if owner.get("kind") != "VirtualMachineInstance":
            return
        own = self._pods.setdefault(owner["uid"], {})
        if change.what == DELETED or not controller_of(obj):
            own.pop(uid_of(obj), None)
        else:
            own[uid_of(obj)] = obj
            lag = self.stage.chance.uniform(0.012, 0.066)
            self._listed_at.setdefault(uid_of(obj), change.at + lag)
        self._instance((namespace_of(obj), owner["name"]))

    def _machine(self, key: Key) -> None:
        self.stage.soon((VM.resource, key), lambda: self._work_on_machine(key))

    def _instance(self, key: Key) -> None:
        self.stage.soon((VMI.resource, key), lambda: self._work_on_instance(key))
        self.stage.soon(("guest", key), lambda: self._work_on_guest(key))

    # Machines.

    def _work_on_machine(self, key: Key) -> None:
        stage, api = self.stage, self.stage.api
        vm = stage.get(VM, *key)
        if vm is None:
            return
        vmi = stage.get(VMI, *key)
        if vmi is not None and controller_of(vmi).get("uid") != uid_of(vm):
            vmi = None
        sight = machines.Sight(vm, vmi, vm["spec"])
        now = stage.now()
        act = machines.act(sight, now)
        if act.finalizers is not None:
            api.merge(VM, key, {"metadata": {"finalizers": list(act.finalizers)}}, KUBEVIRT)
            return
        if act.strategy:
            api.merge(VM, key, {"spec": {"runStrategy": act.strategy}}, KUBEVIRT)
            return
        if act.stop and vmi is not None:
            api.delete(VMI, key, KUBEVIRT)
        failure = None
        if act.start is not None:
            failure = self._start(act.start, key)
        told = machines.told(sight, act.start is not None, failure, now, stage.chance)
        if told != status_of(vm):
            api.merge(VM, key, {"status": _replacing(status_of(vm), told)}, KUBEVIRT, "status")
        if vmi is not None and is_final(vmi):
            self._let_go(key)
        if act.wait is not None:
            left = (act.wait - now).total_seconds()
            stage.plan((VM.resource, "wait", key), left, lambda: self._machine(key))

    def _start(self, wanted: Raw, key: Key) -> instances.Failure | None:
        try:
            made = admitted.vmi(self.stage.store, wanted)
        except admitted.NotAdmitted as refused:
            self._failures[key] = self._failures.get(key, 7) + 1
            pause = retry_seconds(self._failures[key])
            self.stage.plan((VM.resource, "again", key), pause, lambda: self._machine(key))
            return instances.Failure(w.FAILED_CREATE, f"Failure while starting VMI: {refused}")
        self._failures.pop(key, None)
        self.stage.api.create(VMI, key[0], with_defaults(made), KUBEVIRT)
        return None

    def _let_go(self, key: Key) -> None:
        """Let an instance that ended go, now that its end is counted."""
        vmi = self.stage.get(VMI, *key)
        if vmi is not None and w.FINALIZER_VM in finalizers_of(vmi):
            kept = [each for each in finalizers_of(vmi) if each != w.FINALIZER_VM]
            self.stage.api.merge(VMI, key, {"metadata": {"finalizers": kept}}, KUBEVIRT)

    # Instances.

    def _work_on_instance(self, key: Key) -> None:
        stage, api = self.stage, self.stage.api
        vmi = stage.get(VMI, *key)
        if vmi is None:
            return
        pods = tuple(self._pods.get(uid_of(vmi), {}).values())
        now = stage.loop.time()
        late = [at for pod in pods if (at := self._listed_at[uid_of(pod)]) > now]
        if late:
            again = min(late) - now
            stage.plan((VMI.resource, "late", key), again, lambda: self._instance(key))
        owner = controller_of(vmi)
        vm = stage.get(VM, key[0], owner.get("name", ""))
        sight = instances.Sight(
            vmi=vmi,
            pods=pods,
            listed=frozenset(uid_of(pod) for pod in pods if self._listed_at[uid_of(pod)] <= now),
            has_machine=vm is not None and uid_of(vm) == owner.get("uid"),
        )
        act = instances.act(sight)
        for each in act.delete:
            if stage.get(POD, *key_of(each)) is not None:
                grace = 0 if act.at_once else None
                api.delete(POD, key_of(each), KUBEVIRT, uid=uid_of(each), grace=grace)
        pod = sight.pod
        if act.create is not None:
            made = admitted.pod(stage.store, vmi, act.create)
            pod = pod or api.create(POD, key[0], made, KUBEVIRT)
        if pod is not None and (found := stage.get(POD, *key_of(pod))) is not None:
            self._patch(vmi, found)
        told = instances.told(sight, pod, act.failure, stage.now())
        present = stage.get(VMI, *key)
        if told != vmi and present is not None and uid_of(present) == uid_of(vmi):
            told["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
            api.replace(VMI, key, told, KUBEVIRT)

    def _patch(self, vmi: Raw, pod: Raw) -> None:
        for each in instances.pod_patches(vmi, pod, self.stage.now()):
            key = key_of(pod)
            if each.subresource:
                assert isinstance(each.patch, dict)
                (new,) = each.patch["status"]["conditions"]
                known = status_of(pod).get("conditions") or ()
                status = {"status": {"conditions": with_condition(known, new)}}
                self.stage.api.merge(POD, key, status, KUBEVIRT, "status")
            else:
                self.stage.api.json_patch(POD, key, each.patch, KUBEVIRT)

    # Guests.

    def _work_on_guest(self, key: Key) -> None:
        vmi = self.stage.get(VMI, *key)
        if vmi is None or is_going(vmi) or phase_of(vmi) not in {w.SCHEDULED, w.RUNNING}:
            return
        pods = tuple(self._pods.get(uid_of(vmi), {}).values())
        now = self.stage.now()
        act = guests.act(vmi, pods, now, now - now)
        if act.patch:
            self.stage.api.json_patch(VMI, key, list(act.patch), KUBEVIRT)


def _replacing(old: Raw, new: Raw) -> Raw:
    """A merge patch that makes one object of another."""
    return {**{key: None for key in old if key not in new}, **new}
