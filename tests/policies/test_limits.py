"""The API server spends so much on an expression and no more: large objects stay within (6.6)."""

from __future__ import annotations

from tests.cluster.session import Cluster
from tests.policies.attempts import creates
from tests.policies.force import until_let_in, until_refused
from tests.policies.people import TENANT
from tests.policies.raw_names import AMOUNTS, NIC, attack, by, crowded
from tests.policies.scene import GPU, Scene
from tests.policies.system import make_system

NAMES_MAX = 1024
"""As many as the kind takes."""


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
