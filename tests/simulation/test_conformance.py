"""The fake API server answers as the real one does, call by call; the real one is right.

The calls of `calls.yaml` run against both, in order, in one namespace; each answer is a test.
Compared are the status code and the whole body: objects with all their fields, errors with reason,
message and details, watches with their events. `tests.simulation.asking` says what is left out.
"""

from __future__ import annotations

import aiohttp
import pytest

from tests.cluster.api import Api
from tests.cluster.install import MANIFESTS
from tests.cluster.session import Cluster
from tests.kubevirt import kinds
from tests.simulation.asking import Answer, Call, Session, both, read_calls, without_chance
from tests.simulation.kinds import NAMESPACE
from tests.simulation.served import fresh, serving

CALLS = read_calls()


@pytest.fixture(scope="module")
async def answers(cluster: Cluster) -> dict[str, tuple[Answer, Answer]]:
    """What the fake and the real one answered, by call."""
    applied = await cluster.kubectl("apply", "-k", str(MANIFESTS / "crds"))
    assert "gpuclaims.gpu.cozystack.io" in applied.checked
    await kinds.install(cluster, kinds.KUBEVIRT, kinds.COZYSTACK)
    await cluster.create_namespace("conformance")
    fake = fresh()
    fake.create(NAMESPACE, "", {"metadata": {"name": "conformance"}}, "admin")
    async with serving(fake, "admin") as address, aiohttp.ClientSession() as session:
        found = await both(
            Session(Api(address, session), "conformance"),
            Session(cluster.admin, "conformance"),
            CALLS,
        )
    return {call.what: pair for call, pair in zip(CALLS, found, strict=True)}


def test_there_are_enough_calls_and_each_has_a_sentence_of_its_own() -> None:
    assert len({call.what for call in CALLS}) == len(CALLS) >= 80


def test_a_uid_that_begins_with_digits_is_not_taken_for_a_version() -> None:
    uid = "01234567-89ab-4cde-8f01-23456789abcd"
    text = f"precondition ({uid}) does not match the UID in record (31)"
    plain = "precondition (uid-4) does not match the UID in record (<version>)"
    assert without_chance(text, {uid: 4}.__getitem__) == plain


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.what)
async def test_the_fake_answers_as_the_real_one(
    answers: dict[str, tuple[Answer, Answer]], call: Call
) -> None:
    fake, real = answers[call.what]
    assert fake == real
