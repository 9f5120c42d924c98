"""A refusal names who tried and who may: what somebody who installs us looks for (rule 6.6)."""

from __future__ import annotations

import pytest

from tests.cluster.session import Cluster
from tests.policies import attacks
from tests.policies.scene import Scene

TRUSTED = (
    "system:masters, system:serviceaccounts:cozy-system, system:serviceaccounts:cozy-fluxcd, "
    "system:serviceaccounts:kube-system"
)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        pytest.param(
            "the same by trusted people",
            "; this one was made by system:serviceaccount:cozy-fluxcd:helm-controller, expected "
            "system:serviceaccount:cozy-kubevirt:kubevirt-controller (kubevirtUsernames, in the "
            "settings and in the policies: docs/installing.md)",
            id="a launcher that another account made",
        ),
        pytest.param(
            "a namespace is labelled",
            f"; ask the hoster. Trusted are {TRUSTED}",
            id="an entitlement",
        ),
        pytest.param(
            "a claim without our finalizer",
            f"before that only trusted groups may: {TRUSTED}",
            id="a finalizer",
        ),
    ],
)
async def test_a_refusal_names_accounts_and_groups(
    cluster: Cluster, scene: Scene, named: str, told: str
) -> None:
    (attack,) = [each for each in attacks.ATTACKS if each.named == named]
    assert (await attack.refusal(cluster, scene)).endswith(told)
