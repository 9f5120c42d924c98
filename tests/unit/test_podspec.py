"""What a pod asks for and where it is pinned, as Kubernetes itself reads a pod's spec."""

from __future__ import annotations

from typing import Any

import pytest

from shared.kube.podspec import pinned_to, requests
from tests.unit.scripted_api import Raw

GPU = "nvidia.com/GA100"


def container(restart: str = "", **amounts: str) -> Raw:
    """A container; `gpu`, `cpu` and `memory` are its requests."""
    names = {"gpu": GPU}
    asked = {names.get(key, key): amount for key, amount in amounts.items()}
    return {"resources": {"requests": asked}} | ({"restartPolicy": restart} if restart else {})


def silent(problem: str) -> None:
    raise AssertionError(problem)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {}, id="nothing asked"),
        pytest.param(
            {"containers": [container(gpu="1", cpu="200m"), container(gpu="2", cpu="900m")]},
            {GPU: 3, "cpu": 1100},
            id="containers add up",
        ),
        pytest.param(
            {"containers": [container(gpu="2")], "initContainers": [container(gpu="3")]},
            {GPU: 3},
            id="an init container counts where it asks more than all containers",
        ),
        pytest.param(
            {
                "containers": [container(gpu="2")],
                "initContainers": [container(gpu="1"), container(gpu="2")],
            },
            {GPU: 2},
            id="init containers run one after the other and do not add up",
        ),
        pytest.param(
            {"containers": [container(gpu="2")], "initContainers": [container("Always", gpu="1")]},
            {GPU: 3},
            id="a sidecar adds to the containers",
        ),
        pytest.param(
            {
                "containers": [container(gpu="1")],
                "initContainers": [container("Always", gpu="2"), container(gpu="3")],
            },
            {GPU: 5},
            id="an init container runs beside the sidecars that were started before it",
        ),
        pytest.param(
            {
                "containers": [container(gpu="1")],
                "initContainers": [container(gpu="3"), container("Always", gpu="1")],
            },
            {GPU: 3},
            id="and not beside those after it",
        ),
        pytest.param(
            {
                "containers": [container(gpu="1", cpu="4", memory="1Gi")],
                "resources": {"requests": {"cpu": "2", "hugepages-2Mi": "4Mi", GPU: "9"}},
            },
            {GPU: 1, "cpu": 2000, "memory": 1073741824, "hugepages-2Mi": 4194304},
            id="the pod's own request stands for CPU, memory and huge pages only",
        ),
        pytest.param(
            {"containers": [container(cpu="1", gpu="1")], "overhead": {"cpu": "250m"}},
            {GPU: 1, "cpu": 1250},
            id="the overhead comes on top",
        ),
        pytest.param(
            {"containers": [container(cpu="1500u", memory="100m"), container(memory="800m")]},
            {"cpu": 2, "memory": 1},
            id="CPU counts in thousandths, all else whole, rounded up after adding",
        ),
        pytest.param(
            {"containers": [{"resources": {"limits": {GPU: "1"}}}]},
            {},
            id="a limit is no request: the API server has filled requests in",
        ),
    ],
)
def test_a_pod_asks_for(spec: Raw, want: dict[str, int]) -> None:
    assert requests(spec, {}, silent) == want


def reported(name: str, actual: Raw, allocated: Raw | None = None) -> Raw:
    """What a node says of a container."""
    said: Raw = {"name": name, "resources": {"requests": actual}}
    return said if allocated is None else {**said, "allocatedResources": allocated}


INFEASIBLE = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, 3000, id="nothing said"),
        pytest.param({"containerStatuses": [{"name": "a"}]}, 3000, id="nothing said of resources"),
        pytest.param(
            {"containerStatuses": [reported("a", {"cpu": "2"}, {"cpu": "2"})]}, 3000, id="as asked"
        ),
        pytest.param(
            {"containerStatuses": [reported("a", {"cpu": "4"}, {"cpu": "2"})]},
            5000,
            id="not yet made smaller",
        ),
        pytest.param(
            {"containerStatuses": [reported("a", {"cpu": "1"}, {"cpu": "1500m"})]},
            3000,
            id="not yet made larger",
        ),
        pytest.param(
            {
                "containerStatuses": [reported("a", {"cpu": "1"}, {"cpu": "1500m"})],
                "conditions": [DEFERRED],
            },
            3000,
            id="to be made larger later",
        ),
        pytest.param(
            {
                "containerStatuses": [reported("a", {"cpu": "1"}, {"cpu": "1500m"})],
                "conditions": [{"type": "Ready", "reason": "Infeasible"}, INFEASIBLE],
            },
            2500,
            id="never to be made larger",
        ),
        pytest.param(
            {"initContainerStatuses": [reported("side", {"cpu": "3"})]}, 5000, id="a sidecar"
        ),
        pytest.param(
            {"initContainerStatuses": [reported("first", {"cpu": "9"})]},
            3000,
            id="an init container is never resized",
        ),
    ],
)
def test_a_pod_that_is_resized_counts_as_the_most_of_what_it_has_and_wants(
    status: Raw, want: int
) -> None:
    """As component-helpers of 1.36 adds up with UseStatusResources."""
    spec = {
        "initContainers": [
            {"name": "first", **container(cpu="1")},
            {"name": "side", **container("Always", cpu="1")},
        ],
        "containers": [{"name": "a", **container(cpu="2")}],
    }
    assert requests(spec, status, silent) == {"cpu": want}


def test_a_pods_own_request_is_resized_alike() -> None:
    spec = {
        "containers": [{"name": "a", **container(cpu="1")}],
        "resources": {"requests": {"cpu": "2"}},
    }
    status = {"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "2"}}
    assert requests(spec, status, silent) == {"cpu": 5000}


def test_an_amount_that_is_no_quantity_counts_as_nothing_and_is_told() -> None:
    told: list[str] = []
    spec = {"containers": [container(gpu="many", cpu="1"), container(gpu="2")]}
    assert requests(spec, {}, told.append) == {GPU: 2, "cpu": 1000}
    assert len(told) == 1
    assert told[0].startswith(f"resources.requests[{GPU}]: 'many' is not a quantity")


def test_pods_that_ask_for_the_same_share_one_mapping() -> None:
    spec = {"containers": [container(gpu="1")]}
    assert requests(spec, {}, silent) is requests(dict(spec), {}, silent)


def expression(key: str = "zone", operator: str = "In", *values: str) -> Raw:
    return {"key": key, "operator": operator, "values": list(values)}


def named(*nodes: str, operator: str = "In", key: str = "metadata.name") -> Raw:
    return {"matchFields": [expression(key, operator, *nodes)]}


def affine(*terms: Any) -> Raw:  # noqa: ANN401 - malformed ones too
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
            }
        }
    }


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, "", id="no affinity"),
        pytest.param(affine(named("gpu-1")), "gpu-1", id="one term that names it"),
        pytest.param(affine(named("gpu-1"), named("gpu-1")), "gpu-1", id="both terms name it"),
        pytest.param(
            affine(named("gpu-1"), {"matchExpressions": [expression("zone", "In", "a")]}),
            "",
            id="one of two terms leaves the others open",
        ),
        pytest.param(
            affine({**named("gpu-1"), "matchExpressions": [expression("zone", "In", "a")]}),
            "gpu-1",
            id="an expression beside it narrows only",
        ),
        pytest.param(affine(named("gpu-1"), {}), "gpu-1", id="an empty term matches nothing"),
        pytest.param(
            affine(named("gpu-1"), {"matchFields": [], "matchExpressions": []}),
            "gpu-1",
            id="an empty term, written out",
        ),
        pytest.param(affine({}), "", id="nothing but an empty term"),
        pytest.param(affine(named("gpu-1"), named("gpu-2")), "", id="two nodes"),
        pytest.param(affine(named("gpu-1", operator="NotIn")), "", id="not this node"),
        pytest.param(affine(named("gpu-1", "gpu-2")), "", id="either of two"),
        pytest.param(affine(named("gpu-1", key="metadata.uid")), "", id="another field"),
        pytest.param(
            affine({"matchExpressions": [expression("kubernetes.io/hostname", "In", "gpu-1")]}),
            "",
            id="a label is no name",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}},
            "",
            id="a preference",
        ),
        pytest.param({"nodeName": "gpu-1"}, "", id="scheduled is not pinned"),
        pytest.param(affine(None, 3, "x"), "", id="terms that are none"),
        pytest.param(
            {**affine(named("gpu-1")), "schedulingGates": [{"name": "gpu.cozystack.io/claims"}]},
            "",
            id="a pod at our gate is nowhere yet",
        ),
        pytest.param(
            {**affine(named("gpu-1")), "schedulingGates": [{"name": "other/gate"}, None]},
            "gpu-1",
            id="at another's gate it is",
        ),
    ],
)
def test_a_pod_is_pinned_where_every_term_names_one_node(spec: Raw, want: str) -> None:
    """Rules 4.6 and 7.8."""
    assert pinned_to(spec) == want
