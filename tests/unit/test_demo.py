"""The demo's figures follow from its objects; and its placeholders are filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.api.conditions import Condition, ConditionType
from shared.api.gpuclassoption import from_option
from shared.core.cluster import ClusterState
from shared.core.model import Gone, Put
from shared.core.terms import Truth
from tests.demo.stage import (
    OBJECTS,
    REPOSITORY,
    TRIES,
    DemoFailed,
    Kubectl,
    attempts,
    fill_in,
)
from tests.demo.story import STOCKS, TENANTS, Tenant, differences, figures
from tests.demo.tries import ADMITTED, PLACED, REFUSED, REFUSED_AT_START, WAITS
from tests.worlds.reading import value

Manifest = dict[str, Any]

NOW = "2026-11-29T12:00:00Z"

MADE = Path(__file__).parents[1] / "data" / "demo"
"""What others make of the demo's objects: KubeVirt, our webhooks and the binder; by hand."""

FILES = (
    OBJECTS / "kubevirt.yaml",
    OBJECTS / "nodes.yaml",
    OBJECTS / "tenants.yaml",
    OBJECTS / "classes.yaml",
    OBJECTS / "claims.yaml",
    OBJECTS / "classes-closed.yaml",
    OBJECTS / "machines.yaml",
    MADE / "instances.yaml",
    MADE / "launchers.yaml",
    MADE / "instances-running.yaml",
    MADE / "claims-of-vms.yaml",
    MADE / "system.yaml",
    MADE / "claims-bound.yaml",
    OBJECTS / "pods.yaml",
    OBJECTS / "budgets.yaml",
)
"""In the order in which the demo applies them; a later file adds to what an earlier one made."""


def cluster() -> dict[tuple[str, str, str], Manifest]:
    """What is in the API server after the demo's set-up, as far as we read it."""
    served: dict[tuple[str, str, str], Manifest] = {}
    for file in FILES:
        text = fill_in((REPOSITORY / file).read_text(), list(served.values()))
        for manifest in yaml.load_all(text, Loader=yaml.CSafeLoader):
            meta = manifest["metadata"]
            key = (manifest["kind"], meta.get("namespace", ""), meta["name"])
            if key in served:
                for part in {"spec", "status"} & manifest.keys():
                    served[key].setdefault(part, {}).update(manifest[part])
                continue
            meta |= {"uid": f"{len(served):08}-uid", "creationTimestamp": NOW}
            served[key] = manifest
    for kind, _, name in served:
        if kind == "Node":
            served[kind, _, name]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        if kind == "Pod":
            run(served[kind, _, name])
    return served


def run(pod: Manifest) -> None:
    """What the scheduler and a kubelet make of a pod: on the node that it asks for, running."""
    spec = pod["spec"]
    if "nodeSelector" in spec:
        spec["nodeName"] = spec["nodeSelector"]["kubernetes.io/hostname"]
    else:
        affinity = spec["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        (spec["nodeName"],) = term["matchFields"][0]["values"]
    pod["status"] = {"phase": "Running"}


def state_of(served: dict[tuple[str, str, str], Manifest]) -> ClusterState:
    state = ClusterState()
    for manifest in served.values():
        found = value(manifest)
        if found is not None:
            state.apply(Put(found))
    return state


def served_to(state: ClusterState, tenant: Tenant) -> dict[str, dict[str, object]]:
    """The figures of a tenant's options, by class name, from the objects that he would get."""
    fresh = Condition(
        type=ConditionType.FRESH,
        status=Truth.TRUE,
        last_transition_time=NOW,
        reason="Current",
        message="",
    )
    found = {}
    for class_name in STOCKS:
        option = state.option(tenant.namespace, class_name)
        assert option is not None
        served = from_option(
            option,
            resource_version="1",
            observed_time=NOW,
            last_transition_time=NOW,
            fresh=fresh,
        )
        found[class_name] = figures(served.model_dump(mode="json", by_alias=True))
    return found


@pytest.mark.parametrize(
    "tenant", [pytest.param(tenant, id=tenant.namespace) for tenant in TENANTS]
)
def test_each_tenant_sees_what_was_worked_out_by_hand(tenant: Tenant) -> None:
    state = state_of(cluster())
    assert differences(tenant, served_to(state, tenant)) == []
    assert {seen.class_name for seen in tenant.options} == STOCKS.keys()


def test_a_figure_that_is_not_as_told_is_named() -> None:
    served = cluster()
    state = state_of(served)
    claim = value(served["GPUClaim", "tenant-acme-lab", "spare"])
    assert claim is not None
    state.apply(Gone(claim))
    lab = next(tenant for tenant in TENANTS if tenant.namespace == "tenant-acme-lab")
    found = differences(lab, served_to(state, lab))
    assert "a100-80gb: remaining is 4, worked out by hand: 0" in found
    assert "a100-80gb: freeUnits is 19, worked out by hand: 15" in found


def test_a_class_that_is_not_served_is_named() -> None:
    assert differences(TENANTS[0], {}) == [
        f"{seen.class_name}: no such option" for seen in TENANTS[0].options
    ]


def test_placeholders_become_what_the_api_server_chose() -> None:
    served = [
        {
            "kind": "Pod",
            "metadata": {"namespace": "a", "name": "b", "uid": "u-1", "creationTimestamp": NOW},
        }
    ]
    assert fill_in("x: ${uid Pod a/b}-0, ${created Pod a/b}", served) == f"x: u-1-0, {NOW}"


def test_a_placeholder_for_what_is_not_there_is_an_error_that_names_it() -> None:
    with pytest.raises(DemoFailed, match="Pod a/c"):
        fill_in("${uid Pod a/c}", [])


def test_every_file_of_the_demo_is_used() -> None:
    used = {file.name for file in FILES if file.parent == OBJECTS}
    assert {path.name for path in (REPOSITORY / OBJECTS).glob("*.yaml")} == used
    tried = {tried.file for tried in REFUSED} | {ADMITTED, REFUSED_AT_START, PLACED, WAITS}
    assert {path.name for path in (REPOSITORY / TRIES).iterdir()} == tried


TOLD = (
    'Error from server (Malformed): error when creating "x": admission webhook'
    f' "vmis.gpu.cozystack.io" denied the request: {REFUSED[0].message}'
)


@pytest.mark.parametrize(
    ("told", "code", "failure"),
    [
        pytest.param(TOLD, 1, "", id="refused as written"),
        pytest.param(TOLD + " and more", 1, "must be refused with Malformed", id="other words"),
        pytest.param(
            TOLD.replace("Malformed", "Disabled"), 1, "(Disabled)", id="for another reason"
        ),
        pytest.param("created", 0, "created", id="let in"),
    ],
)
def test_the_demo_fails_where_a_refusal_is_not_as_written(
    tmp_path: Path, told: str, code: int, failure: str
) -> None:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "kubectl"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{told}\nEND\nexit {code}\n")
    program.chmod(0o755)
    kubectl = Kubectl(tmp_path, lambda _: None)
    if not failure:
        attempts(kubectl, REFUSED[0])
        return
    with pytest.raises(DemoFailed) as failed:
        attempts(kubectl, REFUSED[0])
    assert failure in str(failed.value)
