"""A hoster's own group is trusted once the literal names it, in a copy of the component (6.6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import vocabulary as words
from tests.catalog.objects import CLAIM
from tests.cluster.access import User
from tests.cluster.install import MANIFESTS, Catalog
from tests.policies import attacks, lawful
from tests.policies.attempts import Lawful, patches
from tests.policies.changes import booking
from tests.policies.force import until_let_in, until_refused
from tests.policies.people import HELM, MIGHTY
from tests.policies.scene import Scene

GROUP = "oidc:gpu-operators"
OPERATOR = User(MIGHTY.name, (GROUP,))
"""With the rights of the one who may do everything by rights."""

BY_HAND = [
    Lawful(each.named, each.thing, OPERATOR, each.act) for each in lawful.LAWFUL if each.who == HELM
]


@pytest.fixture
async def component(catalog: Catalog, scene: Scene) -> AsyncIterator[Path]:
    """The component, copied as `docs/installing.md` says, with one group more."""
    folder = catalog.plane.at.folder / "manifests" / "components" / "operators"
    folder.mkdir(parents=True)
    written = (MANIFESTS / "components/kubevirt-namespace/kustomization.yaml").read_text()
    here = written.replace("account:kubevirt:", f"account:{words.KUBEVIRT_NAMESPACE}:")
    here = here.replace('"system:masters",', f'"system:masters", "{GROUP}",')
    (folder / "kustomization.yaml").write_text(here)
    yield folder
    await catalog.apply_policies(["raw-names"])
    await until_refused(catalog.plane.cluster, scene, (*BY_HAND, *attacks.ATTACKS))


async def test_a_group_of_the_hosters_own_may_do_by_hand_what_trusted_groups_may(
    catalog: Catalog, scene: Scene, component: Path
) -> None:
    cluster = catalog.plane.cluster
    assert {each.thing for each in BY_HAND} == {"launcher", "finalizer", "entitlement"}
    for attempt in BY_HAND:
        assert attempt.policy in await attempt.refusal(cluster, scene)

    await catalog.apply_policies(["raw-names", component])
    for attempt in BY_HAND:
        await until_let_in(cluster, scene, attempt)
    # All else is as it was, for the group too.
    for attack in attacks.ATTACKS:
        assert await attack.refusal(cluster, scene), attack.named
    status = patches(CLAIM, "order", booking(9), "status")
    await until_refused(cluster, scene, [Lawful("books", "status", OPERATOR, status)])
