"""The parts of the reading one by one: tenants, tolerations, launchers, what a pod takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.budgets import declared
from shared.core.capacity import takes_new_pods, tolerates
from shared.core.coverage import is_launcher, place, recorded_use
from shared.core.gpunames import gpu_names, is_permitted, kubevirt_in_force
from shared.core.model import GpuClass, KubeVirt, Node, Pod, Quota, RecordEntry, Vmi
from shared.core.scheduling import Taint, Toleration
from shared.core.tenants import is_tenant, is_within, parent

EXISTING = {"tenant-root", "tenant-a", "tenant-a-b", "tenant", "team-a"}


@pytest.mark.parametrize(
    ("namespace", "want"),
    [
        ("tenant-a-b", "tenant-a"),
        ("tenant-a-b-c-d", "tenant-a-b"),
        ("tenant-a--z", "tenant-a"),
        ("tenant-ab", "tenant-root"),
        ("tenant-x-y", "tenant-root"),
        ("tenant-root", None),
        ("tenant", None),
        ("tenant-", None),
        ("tenants-a", None),
        ("team-a", None),
    ],
)
def test_the_parent_is_found_by_cutting_segments(namespace: str, want: str | None) -> None:
    """Rule 4.3."""
    assert parent(namespace, EXISTING) == want


def test_without_a_root_tenant_the_topmost_has_no_parent() -> None:
    assert parent("tenant-x", {"tenant-x"}) is None


def test_a_tenant_namespace_has_a_rest_after_the_prefix() -> None:
    assert [is_tenant(name) for name in ("tenant-a", "tenant-", "tenant", "tenants")] == [
        True,
        False,
        False,
        False,
    ]


def test_what_may_lie_below_a_namespace_is_told_by_its_name() -> None:
    assert is_within("tenant-a-b", "tenant-a")
    assert is_within("tenant-b", "tenant-root")
    assert not is_within("tenant-ab", "tenant-a")
    assert not is_within("team-a", "tenant-root")
    assert not is_within("team-a-b", "team-a")


GPU_TAINT = Taint("dedicated", "NoSchedule", "gpu")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration("dedicated", "Equal", "gpu", "NoSchedule"), True, id="the same"),
        pytest.param(Toleration("dedicated", "Equal", "gpu"), True, id="any effect"),
        pytest.param(Toleration("dedicated", "Exists"), True, id="any value"),
        pytest.param(Toleration("", "Exists"), True, id="everything"),
        pytest.param(Toleration("dedicated", "Equal", "db"), False, id="another value"),
        pytest.param(Toleration("other", "Exists"), False, id="another key"),
        pytest.param(
            Toleration("dedicated", "Exists", effect="NoExecute"), False, id="another effect"
        ),
        pytest.param(Toleration("", "Equal", "gpu"), False, id="no key without Exists"),
    ],
)
def test_a_toleration_matches_as_in_kubernetes(toleration: Toleration, want: bool) -> None:
    assert tolerates(toleration, GPU_TAINT) is want


READY = Node("n", labels={"kubevirt.io/schedulable": "true"}, ready=True)


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(READY, True, id="ready"),
        pytest.param(replace(READY, unschedulable=True), False, id="cordoned"),
        pytest.param(replace(READY, ready=False), False, id="not ready"),
        pytest.param(replace(READY, labels={}), False, id="not KubeVirt's"),
        pytest.param(replace(READY, taints=(GPU_TAINT,)), False, id="tainted"),
        pytest.param(
            replace(READY, taints=(Taint("x", "PreferNoSchedule"),)), True, id="preference"
        ),
        pytest.param(
            replace(READY, taints=(Taint("node.kubernetes.io/not-ready", "NoExecute"),)),
            True,
            id="a taint that only repeats the state",
        ),
    ],
)
def test_a_node_takes_new_pods_or_not(node: Node, want: bool) -> None:
    """Rule 3.1, and 7.11 for the taints that repeat the state."""
    assert takes_new_pods(node, ()) is want


VMI = Vmi("tenant-a", "train", "vmi-uid", active_pods=("pod-uid",))
LAUNCHER = Pod("tenant-a", "p", "pod-uid", owner="vmi-uid", launcher_mark="vmi-uid")


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(LAUNCHER, True, id="owned, listed and marked"),
        pytest.param(replace(LAUNCHER, owner=""), False, id="not owned"),
        pytest.param(replace(LAUNCHER, uid="other"), False, id="not listed"),
        pytest.param(replace(LAUNCHER, launcher_mark=""), False, id="not marked"),
        pytest.param(replace(LAUNCHER, launcher_mark="other"), False, id="another's mark"),
        pytest.param(replace(LAUNCHER, namespace="tenant-b"), False, id="another namespace"),
    ],
)
def test_a_launcher_is_owned_listed_and_marked(pod: Pod, want: bool) -> None:
    """Rule 7.13: neither an owner reference nor activePods proves anything alone."""
    assert is_launcher(pod, VMI) is want


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(Pod("a", "p", node_name="n1"), "n1", id="scheduled"),
        pytest.param(Pod("a", "p", pinned_to="n1"), "", id="a stranger's pin"),
        pytest.param(Pod("a", "p", pinned_to="n1", launcher_mark="u"), "n1", id="our pin"),
        pytest.param(Pod("a", "p", node_name="n1", ended=True), "", id="ended"),
    ],
)
def test_where_a_pod_takes_room(pod: Pod, want: str) -> None:
    """Rule 4.6."""
    assert place(pod) == want


def test_the_smallest_of_all_spellings_counts_and_scoped_or_derived_quotas_do_not() -> None:
    """Rule 4.4."""
    key = "a100.gpuclass.gpu.cozystack.io/units"
    quotas = [
        Quota("t", "tenant-quota", {f"requests.{key}": 9, f"limits.{key}": 7, "pods": 5}),
        Quota("t", "second", {key: 8, "requests.cpu": 4}),
        Quota("t", "tenant-quota-allocated", {key: 1}),
        Quota("t", "scoped", {key: 2}, scoped=True),
    ]
    assert declared(quotas) == {key: 7}


def test_what_a_vm_without_claims_holds_counts_once_however_many_entries_are_of_it() -> None:
    """Rule 4.5, placement `scheduler`: two entries are of three units, a claim covers one."""
    record = tuple(
        RecordEntry(entry=index, class_name="a100", resource_name="n/a", count=count)
        for index, count in enumerate((2, 1))
    )
    used = recorded_use({"n/a": 2}, Vmi("tenant-a", "vm", "u", record=record))
    assert used == {"a100.gpuclass.gpu.cozystack.io/units": 2}


def test_a_kubevirt_object_counts_in_its_namespace_and_with_a_phase() -> None:
    """Rule 4.1."""
    elsewhere = KubeVirt("other", "kubevirt", "Deployed")
    idle = KubeVirt("cozy-kubevirt", "a")
    found = KubeVirt("cozy-kubevirt", "kubevirt", "Deployed", frozenset({"nvidia.com/A"}))
    assert kubevirt_in_force([elsewhere, idle, found], "cozy-kubevirt") == found
    assert kubevirt_in_force([elsewhere, idle], "cozy-kubevirt") is None


def test_no_table_permits_all_and_an_empty_table_none() -> None:
    """Rule 4.1."""
    assert is_permitted("nvidia.com/A", None)
    assert is_permitted("nvidia.com/A", KubeVirt("n", "k", "Deployed", None))
    assert not is_permitted("nvidia.com/A", KubeVirt("n", "k", "Deployed", frozenset()))


def test_a_pci_device_that_only_the_table_names_is_no_gpu() -> None:
    """Rule 4.2."""
    table = KubeVirt(
        "n",
        "k",
        "Deployed",
        frozenset({"nvidia.com/NVSWITCH", "nvidia.com/GRID"}),
        mediated=frozenset({"nvidia.com/GRID"}),
    )
    names = gpu_names([GpuClass("a", "nvidia.com/A")], table, ["amd.com/MI300X"])
    assert names == {"nvidia.com/A", "nvidia.com/GRID", "amd.com/MI300X"}
