"""The API server spends so much on an expression and no more: large objects stay within (6.6)."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object
from tests.cluster.session import Cluster
from tests.policies.attempts import Attack, creates
from tests.policies.force import until_let_in, until_refused
from tests.policies.people import TENANT
from tests.policies.raw_names import (
    AMOUNTS,
    DEVICES,
    ENTRY,
    NIC,
    attack,
    by,
    crowded,
    demanding,
    limited,
)
from tests.policies.scene import GPU, Scene, pod, vmi, with_devices
from tests.policies.system import make_system

NAMES_MAX = 1024
"""As many as the kind takes."""

OTHERS = 20_000
"""More entries than anybody has, in an object that etcd would still take."""


def among_nothing() -> Object:
    """A GPU in a VM whose other fields say null."""
    made = with_devices(vmi("mine"), gpus=[{"name": "n", "deviceName": None}, ENTRY])
    made["spec"]["domain"]["devices"]["hostDevices"] = None
    return demanding(made, requests=None, limits={"example.com/device": None})


def pod_among_nothing() -> Object:
    """The same in a pod."""
    made = limited(pod("mine"), GPU)
    made["spec"]["initContainers"] = None
    bare = {"image": "none", "resources": None}
    made["spec"]["containers"] += [{"name": "bare", **bare}]
    return made


def among_many_amounts() -> Object:
    """A GPU in a VM that asks for very many other things."""
    many = {f"a/{number:x}": 1 for number in range(OTHERS)}
    return demanding(vmi("mine"), limits={**many, GPU: 1})


def among_many_devices() -> Object:
    """The same as the last of its devices."""
    return with_devices(vmi("mine"), gpus=[{"name": "n", "deviceName": "d"}] * OTHERS + [ENTRY])


# The policy about raw names lets in whatever its expressions fail on: they must fail on nothing.
STRANGE = (
    attack(TENANT, "among nulls", creates(lambda _: among_nothing()), DEVICES),
    attack(TENANT, "among nulls of a pod", creates(lambda _: pod_among_nothing()), AMOUNTS),
    attack(TENANT, "among many amounts", creates(lambda _: among_many_amounts()), AMOUNTS),
    attack(TENANT, "among many devices", creates(lambda _: among_many_devices()), DEVICES),
)


@pytest.mark.parametrize("attempt", [pytest.param(each, id=each.named) for each in STRANGE])
async def test_a_strange_object_hides_no_gpu(
    cluster: Cluster, scene: Scene, attempt: Attack
) -> None:
    assert attempt.told in await attempt.refusal(cluster, scene)


async def test_a_crowded_pod_is_judged_by_as_many_names_as_there_can_be(
    cluster: Cluster, scene: Scene
) -> None:
    many = [f"nvidia.com/GA100_{number:04}" for number in range(NAMES_MAX - 1)]
    last = attack(TENANT, "the last of all names", creates(lambda _: crowded(many[-1])), AMOUNTS)
    none = by(TENANT, "none of them", creates(lambda _: crowded(NIC)))
    await make_system(cluster, {"resourceNames": [GPU, *many]})
    try:
        await until_refused(cluster, scene, [last])
        assert AMOUNTS in await last.refusal(cluster, scene)
        await until_let_in(cluster, scene, none)
    finally:
        await make_system(cluster, {"resourceNames": [GPU]})
        await until_let_in(cluster, scene, by(TENANT, last.named, last.act))
