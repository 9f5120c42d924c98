"""What it takes to place a VM's pod, and what other pods mean for it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from shared.core.placing import Condition, PodPlacing, Presence
from shared.core.scheduling import (
    HostPort,
    NodeTerm,
    PodTerm,
    Requirement,
    Selector,
    Spread,
    Toleration,
)
from shared.kube import decode
from tests.unit.decoding.placed import AFFINITY, GATED, MOMENT
from tests.unit.decoding.raws import POD, changed, no_problem
from tests.unit.scripted_api import Raw

APART = PodTerm(
    "kubernetes.io/hostname",
    Selector(
        (Requirement("kubevirt.io/created-by", "In", ("vmi-1",)), Requirement("tier", "Exists"))
    ),
)

read = partial(decode.pod, placing=True)


def placing_of(raw: Raw) -> PodPlacing:
    placing = read(raw, no_problem).placing
    assert placing is not None
    return placing


def test_everything_that_placing_a_vms_pod_takes_is_read() -> None:
    got = read(GATED, no_problem)
    assert got.presence == Presence(
        labels={"app": "train", "kubevirt.io/migrationJobUID": "migration-1"},
        anti_affinity=(APART,),
        is_leaving=True,
    )
    assert replace(placing_of(GATED), affinity="") == PodPlacing(
        resource_version="1504",
        created=MOMENT,
        deleted="2026-11-29T19:00:00Z",
        gates=("example.com/other", "gpu.cozystack.io/claims"),
        node_selector={"kubevirt.io/schedulable": "true", "kubernetes.io/arch": "amd64"},
        node_terms=(
            NodeTerm(
                (
                    Requirement("zone", "In", ("gpu-a", "gpu-b")),
                    Requirement("node-labeller.kubevirt.io/obsolete-host-model", "DoesNotExist"),
                ),
                (Requirement("metadata.name", "NotIn", ("gpu-7",)),),
            ),
            NodeTerm((Requirement("cores", "Gt", ("8",)),)),
        ),
        pod_affinity=(
            PodTerm(
                "zone",
                Selector((Requirement("a", "In", ("1",)), Requirement("app", "In", ("db",)))),
                ("tenant-b",),
                Selector(),
            ),
        ),
        spread=(
            Spread(
                2,
                "zone",
                Selector((Requirement("app", "In", ("train",)),)),
                min_domains=3,
                honors_affinity=False,
                honors_taints=True,
                label_keys=("revision",),
            ),
            Spread(1, "rack"),
        ),
        tolerations=(
            Toleration("gpu", "Exists", "", "NoSchedule"),
            Toleration("sku", "Equal", "x", "", 300),
        ),
        volume_claims=("boot", "root-disk", "virt-launcher-vm1-abcde-scratch"),
        phase="Failed",
        reason="OutOfnvidia.com/GA100",
        message="Pod was rejected",
        scheduled=Condition("PodScheduled", "False", "SchedulingGated", since=MOMENT),
        is_started=False,
        is_temporary=True,
        migration="migration-1",
    )


def test_its_affinity_is_kept_as_it_is_written() -> None:
    """A JSON Patch tests the old terms, and adds to what is there (rule 7.8)."""
    assert json.loads(placing_of(GATED).affinity) == AFFINITY


@pytest.mark.parametrize(
    ("affinity", "want"),
    [
        (None, None),
        ({}, None),
        ({"podAntiAffinity": {}}, None),
        ({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}, None),
        (
            {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}
                }
            },
            (NodeTerm(),),
        ),
    ],
)
def test_no_required_terms_are_not_an_empty_one(
    affinity: object, want: tuple[NodeTerm, ...] | None
) -> None:
    """Without any a pod may go anywhere; a term that requires nothing matches nowhere."""
    assert placing_of(changed(GATED, "spec.affinity", affinity)).node_terms == want


RAN = {"containerID": "containerd://1", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
LOST = {"state": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, False, id="nothing said"),
        pytest.param(
            {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            False,
            id="waiting",
        ),
        pytest.param({"containerStatuses": [{}, {"state": {"running": {}}}]}, True, id="running"),
        pytest.param(
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}, True, id="ended"
        ),
        pytest.param({"containerStatuses": [RAN]}, True, id="ran, and waits to run again"),
        pytest.param({"containerStatuses": [LOST]}, False, id="ended, and nobody knows how"),
        pytest.param({"initContainerStatuses": [RAN]}, True, id="an init container"),
        pytest.param(
            {"containerStatuses": [{"lastState": {"terminated": {"exitCode": 1}}}]},
            True,
            id="ended before",
        ),
    ],
)
def test_has_started_where_a_container_ever_ran(status: Raw, want: bool) -> None:
    """A pod that failed before is refused by its node (rule 7.10)."""
    assert placing_of({**GATED, "status": status}).is_started is want


def test_a_pod_of_nobody_or_of_something_else_is_not_for_us_to_place() -> None:
    raw = changed(GATED, "metadata.ownerReferences", None)
    got = read(raw, no_problem)
    assert got.placing is None
    assert got.presence is not None


def test_who_does_not_place_reads_nothing_of_it() -> None:
    got = decode.pod(GATED, no_problem)
    assert (got.presence, got.placing) == (None, None)


def test_ports_of_the_node_are_those_of_containers_that_last() -> None:
    """As kube-scheduler counts them (GetHostPorts)."""

    def container(port: int, **more: object) -> Raw:
        return {"ports": [{"containerPort": 1, "hostPort": port, **more}]}

    raw = changed(
        POD,
        "spec",
        {
            "initContainers": [
                container(1),
                {**container(2, protocol="UDP"), "restartPolicy": "Always"},
            ],
            "containers": [
                container(3, hostIP="10.0.0.1"),
                container(4, hostIP="0.0.0.0", protocol="TCP"),
                {"ports": [{"containerPort": 5}]},
            ],
        },
    )
    presence = read(raw, no_problem).presence
    assert presence is not None
    assert set(presence.host_ports) == {
        HostPort(2, "UDP"),
        HostPort(3, "TCP", "10.0.0.1"),
        HostPort(4),
    }


def test_pods_of_one_template_share_what_they_mean_for_others() -> None:
    first = changed(POD, "metadata.labels", {"app": "web", "hash": "1"})
    second = changed(first, "metadata.name", "another")
    assert read(first, no_problem).presence is read(second, no_problem).presence
