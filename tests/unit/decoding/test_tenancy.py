"""Quotas and namespaces."""

from __future__ import annotations

import pytest

from shared.kube import decode
from tests.unit.decoding.raws import NAMESPACE, QUOTA, changed, no_problem
from tests.unit.scripted_api import Raw


class TestQuota:
    """Limits."""

    @pytest.mark.parametrize(
        ("spec", "want"),
        [
            ({"scopes": ["BestEffort"]}, True),
            (
                {
                    "scopeSelector": {
                        "matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]
                    }
                },
                True,
            ),
            ({"scopes": [], "scopeSelector": {}}, False),
            ({"scopeSelector": {"matchExpressions": []}}, False),
            ({}, False),
        ],
    )
    def test_is_scoped_where_it_names_scopes(self, spec: Raw, want: bool) -> None:
        raw = {**QUOTA, "spec": {**QUOTA["spec"], **spec}}
        assert decode.quota(raw, no_problem).scoped is want

    def test_a_limit_that_is_no_quantity_grants_nothing_and_the_others_still_count(self) -> None:
        told: list[str] = []
        raw = changed(QUOTA, "spec.hard", {"requests.nvidia.com/GA100": "4 units", "pods": "10"})
        got = decode.quota(raw, told.append)
        assert got.hard == {"requests.nvidia.com/GA100": 0, "pods": 10}
        assert told[0].startswith("spec.hard[requests.nvidia.com/GA100]: '4 units' is not")


class TestNamespace:
    """A tenant's entitlement."""

    @pytest.mark.parametrize(
        ("labels", "want"),
        [
            ({"gpu.cozystack.io/vgpu": "entitled"}, "entitled"),
            ({"gpu.cozystack.io/vgpu": ""}, ""),
            ({}, None),
            (None, None),
        ],
    )
    def test_carries_its_entitlement_label(self, labels: object, want: str | None) -> None:
        raw = changed(NAMESPACE, "metadata.labels", labels)
        assert decode.namespace(raw, no_problem).entitlement == want
