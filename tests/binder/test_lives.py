"""What else happens to VMs: disks that bind late, pods that pose as launchers, migrations.

KubeVirt's part is played as it was observed; the scheduler and the volume binder are the real ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest

from shared.kube.podspec import pinned_to
from shared.reasons import SHUT_OUT
from tests.binder.history import Recorder
from tests.binder.lives import Life
from tests.binder.replica import Replica, replicas
from tests.binder.truth import node_of
from tests.cluster.api import Object
from tests.cluster.plane import ControlPlane, system_clock
from tests.cluster.waiting import wait_until
from tests.kubevirt import power
from tests.kubevirt import words as w
from tests.kubevirt.objects import annotations_of, moment_of, phase_of, status_of, uid_of
from tests.policies.people import TENANT, introduce


@pytest.fixture
async def life(whole: ControlPlane, recorder: Recorder, unique: Callable[[str], str]) -> Life:
    """A class with two nodes of two units each."""
    life = await Life.begin(whole, recorder, unique)
    for _ in range(2):
        await life.node(2)
    return life


@pytest.fixture
async def leader(whole: ControlPlane, unique: Callable[[str], str]) -> AsyncIterator[Replica]:
    """A binder that leads."""
    async with replicas(whole, unique) as start:
        leader = await start()
        await leader.until_in_office()
        yield leader


async def late_binding(life: Life) -> None:
    """A storage class that binds late, with a volume on each node, and a disk to import."""
    name = life.unique("local")
    await life.api.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    for node, _ in life.room:
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        await life.api.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": f"{name}-{node}"},
                "spec": {
                    "capacity": {"storage": "10Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": name,
                    "local": {"path": "/data"},
                    "nodeAffinity": affinity,
                },
            }
        )
    await life.api.create(
        {
            "apiVersion": "cdi.kubevirt.io/v1beta1",
            "kind": "DataVolume",
            "metadata": {"name": "boot", "namespace": life.namespace},
            "spec": {"storage": {"storageClassName": name}},
        }
    )


async def test_a_booking_outlives_the_temporary_pod_and_the_launcher_follows_it(
    life: Life, leader: Replica
) -> None:
    """Rule 7.12; KubeVirt observed 38 and 39. Meanwhile others want the units, and get none."""
    del leader
    await late_binding(life)
    await life.machine("train", 2, volumes=[{"name": "root", "dataVolume": {"name": "boot"}}])

    async def imports() -> bool:
        found = await life.api.get(w.DATA_VOLUME, "boot", life.namespace)
        return phase_of(found) in {"ImportInProgress", "Succeeded"}

    await wait_until(imports, "the temporary pod did its part")
    await life.machine("next", 2)
    other = await life.until_running("next")
    await life.machine("last", 2)
    assert await life.until_waiting("last") == "NoCapacity"
    node = await life.until_running("train")
    assert {node, other} == {name for name, _ in life.room}

    uid = uid_of(await life.vmi("train"))
    temporary, launcher = await life.pods_made(uid)
    assert annotations_of(temporary)["kubevirt.io/ephemeral-provisioning"] == "true"
    assert "kubevirt.io/ephemeral-provisioning" not in annotations_of(launcher)
    assert await life.nodes_booked(uid) == [node], "it was booked once, and never let go"
    ledger = await life.ledger()
    assert ledger.starts[uid] == 2
    assert ledger.wrong == []
    assert pinned_to((await current(life, launcher))["spec"]) == node


async def current(life: Life, pod: Object) -> Object:
    """The pod as it is now; the audit log has no generated name."""
    (found,) = [p for p in await life.api.list(w.POD, life.namespace) if uid_of(p) == uid_of(pod)]
    return found


async def test_a_strangers_pod_among_the_active_ones_moves_no_booking(
    life: Life, leader: Replica
) -> None:
    """Rule 7.13; KubeVirt observed 17. It holds what it holds, outside of claims."""
    del leader
    await life.machine("train", 1)
    node = await life.until_running("train")
    (other,) = {name for name, _ in life.room} - {node}
    await life.machine("large", 2)  # it gets the other node, but for the stranger
    assert await life.until_running("large") == other
    await life.machine("waiting", 2)
    assert await life.until_waiting("waiting") == "NoCapacity"
    launcher = await a_second_old(life, "waiting")
    for name in ("train", "waiting"):
        await pose(life, name, on=node if name == "waiting" else other)
        await until_listed(life, name)
    await life.until_stock(bound=3, outside=1)
    # A pass that has seen all of it: it books what comes free next.
    await life.api.delete(w.VM, "large", life.namespace)
    await life.until_booked("waiting", other)
    await until_it_starts(life, launcher, other)
    claim = await life.claim_of("train")
    assert claim is not None
    assert node_of(claim) == node
    assert await life.nodes_booked(uid_of(await life.vmi("train"))) == [node]
    assert await life.nodes_booked(uid_of(await life.vmi("waiting"))) == ["", other]
    assert (await life.ledger()).wrong == []


async def pose(life: Life, name: str, on: str) -> None:
    """A pod that says it is a VM's, and runs somewhere; the one for `waiting` holds a unit."""
    vmi = await life.vmi(name)
    owner = {
        "apiVersion": w.API_VERSION,
        "kind": "VirtualMachineInstance",
        "name": name,
        "uid": uid_of(vmi),
        "controller": True,
    }
    held = {life.resource: "1"} if name == "waiting" else {}
    await life.api.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-stranger",
                "namespace": life.namespace,
                "labels": {w.LABEL_APP: w.LAUNCHER, w.LABEL_CREATED_BY: uid_of(vmi)},
                "ownerReferences": [owner],
            },
            "spec": {
                "nodeName": on,
                "containers": [
                    {
                        "name": "compute",
                        "image": "registry.example/none",
                        "resources": {"requests": held, "limits": held},
                    }
                ],
            },
        }
    )


async def a_second_old(life: Life, name: str) -> Object:
    """A VM's launcher, once any other pod is newer: KubeVirt takes the newest for current."""
    (launcher,) = await life.pods_made(uid_of(await life.vmi(name)))
    made = moment_of(launcher["metadata"]["creationTimestamp"])

    async def older() -> bool:
        return system_clock() >= made + timedelta(seconds=1)

    await wait_until(older, f"the launcher of {name} is of an earlier second")
    return launcher


async def until_it_starts(life: Life, launcher: Object, node: str) -> None:
    """Wait until a pod may start on a node, whatever is said of its instance meanwhile."""

    async def may_start() -> bool:
        spec = (await current(life, launcher))["spec"]
        return pinned_to(spec) == node and not spec.get("schedulingGates")

    await wait_until(may_start, f"the launcher starts on {node}")


async def until_listed(life: Life, name: str) -> None:
    """Wait until KubeVirt lists two pods of a VM."""

    async def listed() -> bool:
        return len(status_of(await life.vmi(name)).get("activePods", {})) == 2

    await wait_until(listed, f"the stranger is listed by {name}")


async def test_the_booking_of_a_vm_that_migrated_follows_it_and_its_old_units_are_free(
    life: Life, leader: Replica
) -> None:
    """Rule 7.17; KubeVirt observed 43."""
    del leader
    await life.machine("train", 2)
    node = await life.until_running("train")
    (other,) = {name for name, _ in life.room} - {node}
    before = await life.until_booked("train", node)
    await life.api.create(
        {
            "apiVersion": w.API_VERSION,
            "kind": "VirtualMachineInstanceMigration",
            "metadata": {"name": "move", "namespace": life.namespace},
            "spec": {"vmiName": "train"},
        }
    )
    claim = await life.until_booked("train", other)
    assert uid_of(claim) == uid_of(before)
    assert {each["reason"] for each in status_of(claim)["conditions"]} == {
        "Placed",
        "InUse",
        "Undisturbed",
    }
    await life.until_stock(bound=2, outside=0, free=2)
    await life.machine("next", 2)
    assert await life.until_running("next") == node, "what it left is free"
    assert await life.nodes_booked(uid_of(await life.vmi("train"))) == [node, other]
    assert (await life.ledger()).wrong == []


async def test_a_vm_whose_own_units_are_on_a_cordoned_node_says_so_and_starts_after_it(
    life: Life, leader: Replica
) -> None:
    """Rule 7.5: cordoned while the VM was stopped. It is the tenant who asks, not the hoster."""
    del leader
    await introduce(life.plane.cluster, life.namespace)
    tenant = life.plane.cluster.api(TENANT)
    await life.order("own", 2)
    await life.machine("train", claims=["own"])
    node = await life.until_running("train")
    await life.machine("other", 1)
    await life.until_running("other")  # so that one unit is left elsewhere
    await power.stop(tenant, life.namespace, "train")
    await until_gone(life, "train")
    await until_attached(life, "own", ("False", "NotInUse", ""))
    cordoned = await life.plane.cluster.kubectl("cordon", node)
    assert cordoned.checked
    await life.until_stock(unavailable=0, free=1)

    await power.start(tenant, life.namespace, "train")
    why = f"asked 2: 1 free; {SHUT_OUT}"
    await until_attached(life, "own", ("False", "NoCapacity", why))
    assert await told(life, "train") == [f"NoCapacity: {why}"]
    assert await column(life, "own", "{.status.nodeName}") == node, "they stay its own"

    uncordoned = await life.plane.cluster.kubectl("uncordon", node)
    assert uncordoned.checked
    assert await life.until_running("train") == node
    await until_attached(life, "own", ("True", "InUse", ""))
    assert len(await told(life, "train")) == 1


async def until_gone(life: Life, name: str) -> None:
    """Wait until a VM has no instance."""

    async def gone() -> bool:
        return await life.api.find(w.VMI, name, life.namespace) is None

    await wait_until(gone, f"{name} has no instance")


async def column(life: Life, name: str, path: str) -> str:
    """What the tenant's kubectl shows of an order at a JSON path."""
    shown = await life.plane.cluster.kubectl(
        *("get", "gpuclaim", name, "-o", f"jsonpath={path}"), user=TENANT, namespace=life.namespace
    )
    return shown.checked


async def until_attached(life: Life, name: str, said: tuple[str, str, str]) -> None:
    """Wait until an order says so to the tenant in its condition Attached."""
    found = '.status.conditions[?(@.type=="Attached")]'
    fields = (f"{{{found}.{field}}}" for field in ("status", "reason", "message"))
    path = "|".join(fields)

    async def says() -> bool:
        return await column(life, name, path) == "|".join(said)

    await wait_until(says, f"the order {name} is attached: {said}")


async def told(life: Life, name: str) -> list[str]:
    """The Warning events of an instance, for the tenant."""
    shown = await life.plane.cluster.kubectl(
        *("get", "events", f"--field-selector=involvedObject.name={name},type=Warning"),
        *("-o", 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}'),
        user=TENANT,
        namespace=life.namespace,
    )
    return shown.checked.splitlines()
