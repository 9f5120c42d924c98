"""virt-controller: carries out what the pure modules decide, as KubeVirt's account.

Each class here does one pass over one object: take a sight from the cache, act, write back. A
write that is refused ends the pass; it is tried again with a growing pause.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from dataclasses import dataclass

from tests.cluster.api import JSON_PATCH, Api, Object, Refused
from tests.kubevirt import instances, machines, migrations, replicasets
from tests.kubevirt import words as w
from tests.kubevirt.cache import Cache
from tests.kubevirt.defaults import with_defaults
from tests.kubevirt.instances import Failure
from tests.kubevirt.objects import (
    annotations_of,
    controller_of,
    finalizers_of,
    is_final,
    is_going,
    name_of,
    namespace_of,
    phase_of,
    stamp,
    status_of,
    uid_of,
)
from tests.kubevirt.timing import Clock, Timing
from tests.kubevirt.volumes import disks_of
from tests.kubevirt.workqueue import Key, WorkQueue

MACHINE, INSTANCE, MIGRATION, REPLICA_SET = "machine", "instance", "migration", "replicaset"


@dataclass(frozen=True, slots=True)
class Hands:
    """What all parts of the stand-in work with."""

    api: Api
    cache: Cache
    queue: WorkQueue
    clock: Clock
    timing: Timing
    chance: random.Random
    kubevirt_namespace: str

    async def create(self, obj: Object) -> Object:
        """Create an object, and know of it at once."""
        created = await self.api.create(obj)
        self.cache.see(f"{obj['apiVersion']}/{obj['kind']}", created)
        return created

    async def replace(self, obj: Object, subresource: str = "") -> Object:
        """Replace an object as it was seen, and know of it at once."""
        written = await self.api.replace(obj, subresource)
        self.cache.see(f"{obj['apiVersion']}/{obj['kind']}", written)
        return written

    async def patch(
        self,
        obj: Object,
        patch: object,
        subresource: str = "",
        content_type: str = JSON_PATCH,
    ) -> Object:
        """Patch an object, and know of it at once."""
        kind = f"{obj['apiVersion']}/{obj['kind']}"
        written = await self.api.patch(
            kind,
            name_of(obj),
            patch,
            namespace_of(obj),
            subresource=subresource,
            content_type=content_type,
        )
        self.cache.see(kind, written)
        return written

    async def delete(self, obj: Object, at_once: bool = False) -> None:
        """Delete an object; that it is gone already is as good."""
        query = {"gracePeriodSeconds": "0"} if at_once else {}
        kind = f"{obj['apiVersion']}/{obj['kind']}"
        try:
            await self.api.delete(kind, name_of(obj), namespace_of(obj), **query)
        except Refused as refused:
            if refused.code != 404:
                raise

    async def tell(self, obj: Object, kind: str, reason: str, message: str) -> None:
        """Make an Event about an object. A refusal, as in a namespace that goes, does no harm."""
        now = stamp(self.clock.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "generateName": f"{name_of(obj)[:200]}.",
                "namespace": namespace_of(obj),
            },
            "involvedObject": {
                "apiVersion": obj["apiVersion"],
                "kind": obj["kind"],
                "name": name_of(obj),
                "namespace": namespace_of(obj),
                "uid": uid_of(obj),
            },
            "type": kind,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "virt-controller"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with contextlib.suppress(Refused):
            await self.api.create(event)

    @property
    def configuration(self) -> Object:
        """Of KubeVirt: that of an object in its namespace that says how far it is, else none."""
        for kubevirt in self.cache.of(w.KUBEVIRT, self.kubevirt_namespace):
            if phase_of(kubevirt) and not is_going(kubevirt):
                configuration: Object = kubevirt["spec"].get("configuration") or {}
                return configuration
        return {}

    @property
    def permitted(self) -> frozenset[str] | None:
        """Names in the table of devices; None without a table."""
        table = self.configuration.get("permittedHostDevices")
        if table is None:
            return None
        return frozenset(
            str(device["resourceName"])
            for listed in ("pciHostDevices", "mediatedDevices", "usb")
            for device in table.get(listed) or ()
        )


@dataclass(frozen=True, slots=True)
class Instances:
    """One pass over a VirtualMachineInstance."""

    hands: Hands

    async def work(self, namespace: str, name: str) -> None:
        """Make and delete pods, then write the instance."""
        hands = self.hands
        vmi = hands.cache.get(w.VMI, namespace, name)
        if vmi is None:
            return
        if not phase_of(vmi) and w.FINALIZER_VMI not in finalizers_of(vmi) and not is_going(vmi):
            await hands.replace(with_defaults(vmi))  # no webhook of KubeVirt did
            return
        sight = self._sight(vmi)
        act = instances.act(sight)
        for each in act.delete:
            await hands.delete(each, act.at_once)
        pod, failure = sight.pod, act.failure
        if act.create is not None:
            created, failure = await self._create(vmi, act.create)
            pod = pod or created  # an attachment is none of its own pods
        if pod is not None:
            pod = await self._patch(vmi, pod)
        await self._write(vmi, instances.told(sight, pod, failure, hands.clock.now()))
        if failure is not None and not failure.informal:
            raise Unfinished(failure)

    async def _create(self, vmi: Object, wanted: Object) -> tuple[Object | None, Failure | None]:
        hands = self.hands
        try:
            pod = await hands.create(wanted)
        except Refused as refused:
            await hands.tell(
                vmi, "Warning", w.FAILED_CREATE, f"Error creating pod: {refused.message}"
            )
            message = f"failed to create virtual machine pod: {refused.message}"
            return None, Failure(w.FAILED_CREATE, message)
        hands.cache.expect_own(pod)
        await hands.tell(
            vmi, "Normal", "SuccessfulCreate", f"Created virtual machine pod {name_of(pod)}"
        )
        return pod, None

    async def _patch(self, vmi: Object, pod: Object) -> Object:
        for each in instances.pod_patches(vmi, pod, self.hands.clock.now()):
            pod = await self.hands.patch(pod, each.patch, each.subresource, each.content_type)
        return pod

    async def _write(self, vmi: Object, told: Object) -> None:
        if told == vmi:
            return
        if not instances.is_handed_over(vmi):
            await self.hands.replace(told)
        elif patch := instances.patch_of(vmi, told):
            await self.hands.patch(vmi, patch)

    def _sight(self, vmi: Object) -> instances.Sight:
        cache, namespace = self.hands.cache, namespace_of(vmi)
        pods = cache.owned(vmi)
        for pod in pods:
            if not cache.is_listed(pod):
                key = Key(INSTANCE, namespace, name_of(vmi))
                self.hands.queue.add_after(key, cache.seconds_until_listed(pod))
        owner = controller_of(vmi)
        machine = cache.get(w.VM, namespace, owner.get("name", ""))
        return instances.Sight(
            vmi=vmi,
            pods=pods,
            listed=frozenset(uid_of(pod) for pod in pods if cache.is_listed(pod)),
            attachments=tuple(each for pod in pods for each in cache.owned(pod)),
            disks=disks_of(
                vmi, cache.named(w.PVC, namespace), cache.named(w.DATA_VOLUME, namespace)
            ),
            permitted=self.hands.permitted,
            has_machine=machine is not None and uid_of(machine) == owner.get("uid"),
            is_migrating=any(
                each["spec"].get("vmiName") == name_of(vmi) and not is_final(each)
                for each in cache.of(w.MIGRATION, namespace)
            ),
        )


@dataclass(frozen=True, slots=True)
class Machines:
    """One pass over a VirtualMachine."""

    hands: Hands

    async def work(self, namespace: str, name: str) -> None:
        """Make or end its instance, then write the machine's status."""
        hands = self.hands
        vm = hands.cache.get(w.VM, namespace, name)
        if vm is None:
            return
        vmi = hands.cache.get(w.VMI, namespace, name)
        if vmi is not None and uid_of(vm) not in _owners(vmi):
            vmi = None
        live = self.hands.configuration.get("vmRolloutStrategy", "LiveUpdate") == "LiveUpdate"
        sight = machines.Sight(vm, vmi, await self._started_as(vm, vmi), live)
        act = machines.act(sight, hands.clock.now())
        if act.finalizers is not None:
            patch = instances.replacement(
                "/metadata/finalizers", vm["metadata"].get("finalizers"), list(act.finalizers)
            )
            await hands.patch(vm, patch)
            return
        if act.strategy:
            field = "runStrategy" if "runStrategy" in vm["spec"] else "running"
            value = act.strategy if field == "runStrategy" else True
            await hands.patch(vm, [{"op": "add", "path": f"/spec/{field}", "value": value}])
            return
        if act.stop and vmi is not None:
            await hands.delete(vmi)
        if act.start_again:
            sight = dataclasses.replace(sight, vm=await self._ask_to_start(vm))
        started, failure = await self._start(vm, act.start)
        if act.patch and vmi is not None:
            await hands.patch(vmi, list(act.patch))
        now = hands.clock.now()
        status = machines.told(sight, started, failure, now, hands.chance, hands.timing.speed)
        if status != status_of(sight.vm):
            await hands.replace({**sight.vm, "status": status}, "status")
        if vmi is not None and is_final(vmi):
            await self._let_go(vmi)
        if act.wait is not None:
            left = (act.wait - now).total_seconds()
            hands.queue.add_after(Key(MACHINE, namespace, name), left)
        if failure is not None:
            raise Unfinished(failure)

    async def _start(self, vm: Object, vmi: Object | None) -> tuple[bool, Failure | None]:
        if vmi is None:
            return False, None
        hands = self.hands
        # Applied, not created: after a refused instance it is there already.
        revision = machines.revision_of(vm)
        await hands.api.apply(revision, "virt-controller")
        try:
            await hands.create(vmi)
        except Refused as refused:
            message = f"Error creating virtual machine instance: {refused.message}"
            await hands.tell(vm, "Warning", w.FAILED_CREATE, message)
            message = f"Failure while starting VMI: {refused.message}"
            return False, Failure(w.FAILED_CREATE, message)
        message = f"Started the virtual machine by creating the new instance {name_of(vm)}"
        await hands.tell(vm, "Normal", "SuccessfulCreate", message)
        return True, None

    async def _ask_to_start(self, vm: Object) -> Object:
        """Not with the status as it was seen: an answer that got lost would leave it stopped."""
        requests = [*(status_of(vm).get("stateChangeRequests") or ()), {"action": "Start"}]
        patch = [{"op": "add", "path": "/status/stateChangeRequests", "value": requests}]
        written = await self.hands.patch(vm, patch, "status")
        return {**vm, **written}

    async def _let_go(self, vmi: Object) -> None:
        """Let an instance that ended go, now that its end is counted."""
        old = finalizers_of(vmi)
        if w.FINALIZER_VM in old:
            new = [each for each in old if each != w.FINALIZER_VM]
            await self.hands.patch(vmi, instances.replacement("/metadata/finalizers", old, new))

    async def _started_as(self, vm: Object, vmi: Object | None) -> Object | None:
        """The machine's spec at the start, where it is another now."""
        if vmi is None:
            return None
        generation = annotations_of(vmi).get(w.ANNOTATION_GENERATION)
        if generation == str(vm["metadata"]["generation"]):
            spec: Object = vm["spec"]
            return spec
        name = status_of(vmi).get("virtualMachineRevisionName", "")
        revision = await self.hands.api.find(w.REVISION, name, namespace_of(vm)) if name else None
        return None if revision is None else revision["data"]["spec"]


@dataclass(frozen=True, slots=True)
class Migrations:
    """One pass over a VirtualMachineInstanceMigration."""

    hands: Hands

    async def work(self, namespace: str, name: str) -> None:
        """Make or give up the target's pod, tell the instance, write the migration."""
        hands = self.hands
        migration = hands.cache.get(w.MIGRATION, namespace, name)
        if migration is None:
            return
        sight = self._sight(migration)
        now = hands.clock.now()
        act = migrations.act(sight, now, hands.timing.speed)
        if act.create is not None:
            pod = await hands.create(act.create)
            hands.cache.expect_own(pod)
            sight = dataclasses.replace(sight, target=pod)
        if act.delete is not None:
            await hands.delete(act.delete)
        if act.event:
            await hands.tell(migration, "Warning", "FailedMigration", act.event)
        if act.patch and sight.vmi is not None:
            await hands.patch(sight.vmi, list(act.patch))
        if act.wait is not None:
            left = (act.wait - now).total_seconds()
            hands.queue.add_after(Key(MIGRATION, namespace, name), left)
        await self._write(migration, migrations.told(sight, now, hands.timing.speed))

    async def _write(self, migration: Object, told: Object) -> None:
        """Metadata and status are two writes: this kind has a status subresource."""
        if told["metadata"] != migration["metadata"]:
            written = await self.hands.replace(told)
            told = {**told, "metadata": written["metadata"]}
        if status_of(told) != status_of(migration):
            await self.hands.replace(told, "status")

    def _sight(self, migration: Object) -> migrations.Sight:
        cache, namespace = self.hands.cache, namespace_of(migration)
        vmi = cache.get(w.VMI, namespace, migration["spec"]["vmiName"])
        if vmi is None:
            return migrations.Sight(migration)
        pods = cache.owned(vmi)
        job = uid_of(migration)
        target = next(
            (p for p in pods if p["metadata"]["labels"].get(w.LABEL_MIGRATION_JOB) == job), None
        )
        node = status_of(vmi).get("nodeName", "")
        return migrations.Sight(
            migration=migration,
            vmi=vmi,
            source=instances.current_pod(vmi, [pod for pod in pods if pod is not target]),
            source_node=cache.get(w.NODE, "", node),
            target=target,
            others=any(
                each["spec"]["vmiName"] == name_of(vmi)
                and not is_final(each)
                and _age(each) < _age(migration)
                for each in cache.of(w.MIGRATION, namespace)
            ),
        )


@dataclass(frozen=True, slots=True)
class ReplicaSets:
    """One pass over a VirtualMachineInstanceReplicaSet."""

    hands: Hands

    async def work(self, namespace: str, name: str) -> None:
        """Make and delete instances, write how many there are."""
        hands = self.hands
        replica_set = hands.cache.get(w.REPLICA_SET, namespace, name)
        if replica_set is None:
            return
        uid = uid_of(replica_set)
        own = [each for each in hands.cache.of(w.VMI, namespace) if uid in _owners(each)]
        act = replicasets.act(replica_set, own)
        for vmi in act.create:
            await hands.create(vmi)
        for vmi in act.delete:
            await hands.delete(vmi)
        status = replicasets.told(replica_set, own)
        if status != status_of(replica_set):
            await hands.replace({**replica_set, "status": status}, "status")


class Unfinished(Exception):
    """A pass ended with a failure that is tried again, and was told in a condition."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _owners(obj: Object) -> set[str]:
    return {each["uid"] for each in obj["metadata"].get("ownerReferences") or ()}


def _age(obj: Object) -> tuple[str, str]:
    return obj["metadata"]["creationTimestamp"], name_of(obj)
