"""Nothing in a policy is there for nothing: each part that is taken out flips a named case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.api import Object
from tests.cluster.install import MANIFESTS
from tests.cluster.session import Cluster
from tests.policies import attacks, lawful, raw_names
from tests.policies.attempts import Attack, Lawful
from tests.policies.force import changed, until_let_in, until_refused
from tests.policies.scene import Scene

ATTACKS = (*attacks.ATTACKS, *raw_names.ATTACKS)
LAWFUL = (*lawful.LAWFUL, *lawful.PASSES, *raw_names.LAWFUL)
ELSEWHERE = {("cozystack-gpu-epoch-policy", 0)}
"""A validation whose case takes another GPUSystem: test_system has it."""


def policies() -> Iterator[Object]:
    """All policies, as they are written."""
    for path in (
        *MANIFESTS.glob("policies/*.yaml"),
        *MANIFESTS.glob("components/raw-names/*.yaml"),
    ):
        for document in yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader):
            if document["kind"] == "ValidatingAdmissionPolicy":
                yield document


POLICIES = sorted(policies(), key=lambda policy: str(policy["metadata"]["name"]))
VALIDATIONS = [
    (policy["metadata"]["name"], index)
    for policy in POLICIES
    for index in range(len(policy["spec"]["validations"]))
]
CONDITIONS = [
    (policy["metadata"]["name"], condition["name"])
    for policy in POLICIES
    for condition in policy["spec"].get("matchConditions", ())
]


def test_every_part_has_a_case() -> None:
    assert {(each.policy, each.only) for each in ATTACKS if each.only is not None} == {
        each for each in VALIDATIONS if each not in ELSEWHERE
    }
    assert {(each.policy, each.without) for each in LAWFUL if each.without} == set(CONDITIONS)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(each, id=f"{each.policy}, validation {each.only}: {each.named}")
        for each in ATTACKS
        if each.only is not None
    ],
)
async def test_without_its_validation_an_attack_succeeds(
    cluster: Cluster, scene: Scene, attack: Attack
) -> None:
    def take_out(spec: Object) -> None:
        del spec["validations"][attack.only]
        # One there must be.
        spec["validations"] = spec["validations"] or [{"expression": "true"}]

    async with changed(cluster, attack.policy, take_out):
        await until_let_in(cluster, scene, attack)
    await until_refused(cluster, scene, [attack])


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(each, id=f"{each.policy}, {each.without}: {each.named}")
        for each in LAWFUL
        if each.without
    ],
)
async def test_without_its_condition_a_lawful_request_is_refused(
    cluster: Cluster, scene: Scene, request_: Lawful
) -> None:
    def take_out(spec: Object) -> None:
        spec["matchConditions"] = [
            each for each in spec["matchConditions"] if each["name"] != request_.without
        ]

    async with changed(cluster, request_.policy, take_out):
        await until_refused(cluster, scene, [request_])
    await until_let_in(cluster, scene, request_)
