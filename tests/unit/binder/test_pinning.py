"""Rule 7.8: a pod is pinned where every term of its required node affinity names the node."""

from __future__ import annotations

from typing import Any

import pytest

from binder.pinning import pinned
from shared.kube.podspec import pinned_to

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
OTHER = {"key": "zone", "operator": "NotIn", "values": ["b"]}


def required(*terms: Any) -> dict[str, Any]:  # noqa: ANN401 - terms as anybody may write them
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, required({"matchFields": [NODE]})),
        (
            required({"matchExpressions": [ZONE]}),
            required({"matchExpressions": [ZONE], "matchFields": [NODE]}),
        ),
        (
            required({"matchExpressions": [ZONE]}, {"matchExpressions": [OTHER]}),
            required(
                {"matchExpressions": [ZONE], "matchFields": [NODE]},
                {"matchExpressions": [OTHER], "matchFields": [NODE]},
            ),
        ),
        (
            required({"matchFields": [{**NODE, "values": ["n1", "n2"]}]}),
            required({"matchFields": [{**NODE, "values": ["n1", "n2"]}, NODE]}),
        ),
        (
            required({}, {"matchExpressions": [ZONE]}),
            required({}, {"matchExpressions": [ZONE], "matchFields": [NODE]}),
        ),
        (required({}), required({})),
    ],
)
def test_the_node_is_demanded_in_each_term_that_matches_anything(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert pinned(before, "n1") == after


def test_everything_else_that_the_pod_demands_stays() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    before = {
        "podAntiAffinity": {"x": 1},
        "nodeAffinity": {**preferred, **required({"matchExpressions": [ZONE]})["nodeAffinity"]},
    }
    after = pinned(before, "n1")
    assert after["podAntiAffinity"] == {"x": 1}
    assert after["nodeAffinity"] == {
        **preferred,
        **required({"matchExpressions": [ZONE], "matchFields": [NODE]})["nodeAffinity"],
    }
    assert "matchFields" not in str(before), "the pod as it was seen is not changed"


def test_what_is_pinned_reads_as_pinned() -> None:
    for before in ({}, required({"matchExpressions": [ZONE]}, {}, {"matchExpressions": [OTHER]})):
        assert pinned_to({"affinity": pinned(before, "n1")}) == "n1"
