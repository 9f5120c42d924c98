"""Raw names of GPUs in tenants' namespaces: what the optional policy refuses, and what not."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.cluster.access import User
from tests.cluster.api import Object
from tests.policies.attempts import Act, Attack, Lawful, creates, patches
from tests.policies.lawful import NOT_OURS, SEEN, TOLD
from tests.policies.people import (
    COLLECTOR,
    KUBEVIRT,
    MANAGER,
    MASTER,
    MIGHTY,
    NAMESPACES,
    REPLICAS,
    TENANT,
)
from tests.policies.scene import GPU, RECORD, VMI, Scene, pod, vmi, with_devices

NIC: Final = "nvidia.com/CX6_VF"
"""Another device: in no list of GPUs."""

ENTRY: Final = {"name": "a", "deviceName": GPU}
DEVICES: Final = "spec.domain.devices: GPUs are not asked for by the name of the device here"
AMOUNTS: Final = "resources: GPUs are not asked for by the name of the device here"


def demanding(machine: Object, **resources: object) -> Object:
    """A VM instance with requests or limits of its guest."""
    machine["spec"]["domain"]["resources"] = resources
    return machine


def limited(made: Object, resource: str, where: str = "containers") -> Object:
    """A pod one of whose containers asks for a unit."""
    amounts = {"cpu": "1", resource: "1"}
    asks = {"name": "asks", "image": "none", "resources": {"limits": amounts, "requests": amounts}}
    made["spec"][where] = [*made["spec"].get(where, []), asks]
    return made


def crowded(resource: str) -> Object:
    """A pod of 50 containers with 20 resources each, the last of which has this one too."""
    made = pod("crowd")
    amounts = {f"example.com/device-{number}": "1" for number in range(20)}
    made["spec"]["containers"] = [
        {"name": f"c{number}", "image": "none", "resources": {"limits": dict(amounts)}}
        for number in range(50)
    ]
    made["spec"]["containers"][-1]["resources"]["limits"][resource] = "1"
    return made


def admitted(scene: Scene) -> Object:
    """A VM instance with the record that our webhook has written."""
    del scene
    return with_devices(vmi("admitted", {words.ANNOTATION_ATTACHMENTS: RECORD}), gpus=[ENTRY])


def raw(scene: Scene) -> Object:
    """A VM instance that names a GPU."""
    del scene
    return with_devices(vmi("mine"), gpus=[ENTRY])


def elsewhere(scene: Scene) -> Object:
    """The same where no tenant is."""
    made = raw(scene)
    made["metadata"]["namespace"] = "default"
    return made


ADDED: Final = patches(VMI, "bare", {"spec": {"domain": {"devices": {"gpus": [ENTRY]}}}})
"""A GPU by its name is added to a VM instance that is there."""


def by(user: User, named: str, act: Act, without: str = "") -> Lawful:
    """What is let in, in the order in which one reads it."""
    return Lawful(named, "raw-name", user, act, without)


def attack(user: User, named: str, act: Act, told: str, only: int | None = None) -> Attack:
    """What is refused, likewise."""
    return Attack(named, "raw-name", user, act, told, only)


ATTACKS: Final = (
    attack(TENANT, "a GPU by its name", creates(raw), DEVICES, 1),
    attack(
        TENANT,
        "a GPU as a host device",
        creates(lambda _: with_devices(vmi("mine"), hostDevices=[{**ENTRY, "name": "b"}])),
        DEVICES,
    ),
    attack(
        TENANT,
        "a GPU among the guest's requests",
        creates(lambda _: demanding(vmi("mine"), requests={"memory": "1Gi", GPU: "1"})),
        AMOUNTS,
        0,
    ),
    attack(
        TENANT,
        "a GPU among its limits",
        creates(lambda _: demanding(vmi("mine"), limits={GPU: 1})),
        AMOUNTS,
    ),
    attack(MIGHTY, "one is added later", ADDED, DEVICES),
    attack(TENANT, "a pod with a GPU", creates(lambda _: limited(pod("p"), GPU)), AMOUNTS),
    attack(REPLICAS, "of a template", creates(lambda _: limited(pod("p"), GPU)), AMOUNTS),
    attack(
        MANAGER,
        "of a template, where all controllers have one account",
        creates(lambda _: limited(pod("p"), GPU)),
        AMOUNTS,
    ),
    attack(
        TENANT,
        "in an init container",
        creates(lambda _: limited(pod("p"), GPU, "initContainers")),
        AMOUNTS,
    ),
    attack(KUBEVIRT, "of a VM of old", creates(lambda _: limited(pod("p"), GPU)), AMOUNTS),
    attack(TENANT, "in a crowd", creates(lambda _: crowded(GPU)), AMOUNTS),
)

LAWFUL: Final = (
    by(TENANT, "a network card", creates(lambda _: limited(pod("p"), NIC))),
    by(TENANT, "a crowd of others", creates(lambda _: crowded(NIC))),
    by(TENANT, "a pod that asks for nothing", creates(lambda _: pod("p"))),
    by(
        TENANT,
        "a VM with a network card",
        creates(lambda _: with_devices(vmi("v"), hostDevices=[{"name": "n", "deviceName": NIC}])),
    ),
    by(
        TENANT,
        "a VM with a device of DRA",
        creates(lambda _: with_devices(vmi("v"), hostDevices=[{"name": "n", "claimName": "c"}])),
    ),
    by(
        TENANT,
        "a VM with memory",
        creates(lambda _: demanding(vmi("v"), requests={"memory": "1Gi"})),
    ),
    by(MIGHTY, "a GPU by its name where no tenant is", creates(elsewhere), "is-a-tenants"),
    by(MIGHTY, "a VM that was admitted", creates(admitted), "is-not-admitted"),
    by(KUBEVIRT, "its launcher", creates(lambda scene: limited(scene.launcher("l2"), GPU))),
    by(
        KUBEVIRT,
        "the state of a VM of old",
        patches(VMI, "raw", TOLD),
        "asks-for-something-new",
    ),
    by(TENANT, "an annotation of it", patches(VMI, "raw", SEEN)),
    by(COLLECTOR, "the garbage collector passes", ADDED),
    by(NAMESPACES, "the namespace controller passes", ADDED),
    by(MANAGER, "the controller manager passes", ADDED, NOT_OURS),
    by(MASTER, "system:masters passes", creates(raw)),
)
