"""Each attack is refused and told who may; each lawful request is let in (rule 6.6)."""

from __future__ import annotations

import pytest

from tests.cluster.session import Cluster
from tests.policies import attacks, lawful, raw_names
from tests.policies.attempts import Attack, Lawful
from tests.policies.scene import Scene

ATTACKS = (*attacks.ATTACKS, *raw_names.ATTACKS)
LAWFUL = (*lawful.LAWFUL, *lawful.PASSES, *raw_names.LAWFUL)


@pytest.mark.parametrize(
    "attack", [pytest.param(each, id=f"{each.thing}: {each.named}") for each in ATTACKS]
)
async def test_an_attack_is_refused_and_told_who_may(
    cluster: Cluster, scene: Scene, attack: Attack
) -> None:
    message = await attack.refusal(cluster, scene)
    told = f"'{attack.policy}' with binding '{attack.policy}' denied request: {attack.told}"
    assert told in message


@pytest.mark.parametrize(
    "request_", [pytest.param(each, id=f"{each.thing}: {each.named}") for each in LAWFUL]
)
async def test_whose_business_it_is_may(cluster: Cluster, scene: Scene, request_: Lawful) -> None:
    assert await request_.refusal(cluster, scene) == ""
