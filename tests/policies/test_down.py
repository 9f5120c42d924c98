"""With our server away the webhooks refuse what they cannot judge, and the policies hold (6.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared import vocabulary as words
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster
from tests.policies import attacks, lawful, raw_names
from tests.policies.attempts import Attack, Attempt, Lawful
from tests.policies.force import remove_webhooks
from tests.policies.scene import Scene

ATTACKS = (*attacks.ATTACKS, *raw_names.ATTACKS)
LAWFUL = (*lawful.LAWFUL, *lawful.PASSES, *raw_names.LAWFUL)


ASKED = ("vmis", "pods", "gpuclaims", "gpuclasses")
MADE = frozenset(
    {
        # Pods and VMs that carry something of ours when they are made; orders.
        "a tenant's pod at our gate",
        "a template's pod at our gate",
        "a launcher without mark",
        "a pod with a mark",
        "a mark that says nothing",
        "a template's pod with a mark",
        "a copied launcher",
        "the same by trusted people",
        "another VM's uid",
        "an owner that controls nothing",
        "an owner of another kind",
        "makes a launcher",
        "makes a migration target",
        "its launcher",
        "a VM that was admitted",
        "KubeVirt makes a VM that nobody admitted",
        "a tenant makes one",
        "one of both by trusted people",
        "one with a record, and without a GPU",
        "one that says nothing",
        "a VM with its GPU",
        "orders",
        "a claim for an entry",
    }
)
"""Of what is tried here, all that our server is asked about."""


async def answered(cluster: Cluster, scene: Scene, attempt: Attempt) -> str:
    """Why an attempt is refused, by whomever; empty where it is let in."""
    reply = await attempt.answer(cluster, scene)
    return str(reply.body["message"]) if reply.status >= 400 else ""


@pytest.fixture(scope="module")
async def down(catalog: Catalog, scene: Scene) -> AsyncIterator[Cluster]:
    """The webhooks are installed, and nobody answers them."""
    cluster = catalog.plane.cluster
    await catalog.enforce()
    yield cluster
    await remove_webhooks(cluster, scene)


@pytest.mark.parametrize(
    "attack", [pytest.param(each, id=f"{each.thing}: {each.named}") for each in ATTACKS]
)
async def test_an_attack_is_refused_also_while_our_server_is_away(
    down: Cluster, scene: Scene, attack: Attack
) -> None:
    message = await answered(down, scene, attack)
    if is_asked_of_us(message):  # when it is made, before the policies are asked
        assert attack.named in MADE
    else:
        assert f"'{attack.policy}'" in message
        assert attack.told in message


@pytest.mark.parametrize(
    "request_", [pytest.param(each, id=f"{each.thing}: {each.named}") for each in LAWFUL]
)
async def test_what_is_there_is_written_as_if_our_server_were_there(
    down: Cluster, scene: Scene, request_: Lawful
) -> None:
    message = await answered(down, scene, request_)
    if message:
        assert is_asked_of_us(message)
        assert request_.named in MADE


def is_asked_of_us(message: str) -> bool:
    return any(f'failed calling webhook "{kind}.{words.GROUP}"' in message for kind in ASKED)
