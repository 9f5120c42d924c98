"""Objects as the API server sends them become the values that rules are about."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.model import (
    Attachment,
    Claim,
    Disclosure,
    Entitlement,
    GpuClass,
    KubeVirt,
    Lifecycle,
    Migration,
    Mode,
    Namespace,
    Node,
    Pod,
    Quota,
    RecordEntry,
    Taint,
    Toleration,
    Vm,
    Vmi,
)
from shared.kube import decode
from shared.kube.decode import Undecodable
from tests.unit.scripted_api import Raw


def no_problem(problem: str) -> None:
    raise AssertionError(problem)


def owner(
    kind: str, uid: str, *, group: str = "kubevirt.io/v1", controller: bool | None = True
) -> Raw:
    reference = {"apiVersion": group, "kind": kind, "name": "vm1", "uid": uid}
    return reference if controller is None else {**reference, "controller": controller}


NODE: Raw = {
    "metadata": {"name": "gpu-1", "labels": {"kubevirt.io/schedulable": "true"}},
    "spec": {
        "unschedulable": True,
        "taints": [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
            {"key": "sku", "effect": "NoExecute", "timeAdded": "2026-11-29T12:00:00Z"},
        ],
    },
    "status": {
        "capacity": {"nvidia.com/GA100": "9"},
        "allocatable": {
            "cpu": "63500m",
            "memory": "263514892Ki",
            "devices.kubevirt.io/kvm": "1k",
            "nvidia.com/GA100": "8",
        },
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": "True"},
        ],
    },
}

POD: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "virt-launcher-vm1-abcde",
        "uid": "pod-1",
        "annotations": {"gpu.cozystack.io/launcher": "vmi-1"},
        "ownerReferences": [owner("VirtualMachineInstance", "vmi-1")],
    },
    "spec": {
        "nodeName": "gpu-1",
        "containers": [{"resources": {"requests": {"nvidia.com/GA100": "2"}}}],
    },
    "status": {"phase": "Running"},
}

CLAIM: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "c1",
        "uid": "claim-1",
        "deletionTimestamp": "2026-11-29T12:00:00Z",
    },
    "spec": {"className": "a100", "count": 4},
    "status": {
        "resourceName": "nvidia.com/GA100",
        "nodeName": "gpu-1",
        "attachedTo": {"kind": "VirtualMachine", "name": "vm1", "uid": "vm-1"},
    },
}

CLASS: Raw = {
    "metadata": {
        "name": "a100",
        "uid": "class-1",
        "creationTimestamp": "2026-11-29T12:00:00Z",
        "labels": {"tier": "gold"},
    },
    "spec": {
        "displayName": "A100",
        "description": "a card",
        "vendor": "NVIDIA",
        "mode": "Passthrough",
        "resourceName": "nvidia.com/GA100",
        "memory": "40Gi",
        "maxCount": 8,
        "entitlement": "Required",
        "lifecycle": "Deprecated",
        "disclosure": "Bucketed",
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "sku", "value": "gpu", "tolerationSeconds": 60},
        ],
        "guestLicense": {"secretName": "nvidia-license"},
    },
    "status": {
        "conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-29T13:00:00Z"},
            {"type": "Open", "status": "False", "lastTransitionTime": "2026-11-29T14:00:00Z"},
        ]
    },
}

QUOTA: Raw = {
    "metadata": {"namespace": "tenant-a", "name": "tenant-quota"},
    "spec": {"hard": {"requests.nvidia.com/GA100": "2000m", "pods": 10}},
    "status": {"hard": {"pods": "99"}},
}

NAMESPACE: Raw = {"metadata": {"name": "tenant-a", "labels": {"gpu.cozystack.io/vgpu": "denied"}}}

RECORD = [
    {"claim": "c1", "className": "a100", "resourceName": "nvidia.com/GA100", "count": 4},
    {"entry": 0, "className": "t4", "resourceName": "nvidia.com/T4", "count": 1},
]

VMI: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "vm1",
        "uid": "vmi-1",
        "annotations": {"gpu.cozystack.io/attachments": json.dumps(RECORD)},
        "ownerReferences": [owner("VirtualMachine", "vm-1")],
    },
    "status": {
        "phase": "Running",
        "nodeName": "gpu-1",
        "activePods": {"pod-1": "gpu-1", "pod-2": ""},
    },
}

VM: Raw = {
    "metadata": {
        "namespace": "tenant-a",
        "name": "vm1",
        "uid": "vm-1",
        "creationTimestamp": "2026-11-29T12:00:00Z",
    },
}

MIGRATION: Raw = {
    "metadata": {"namespace": "tenant-a", "name": "m1", "uid": "migration-1"},
    "spec": {"vmiName": "vm1"},
    "status": {"phase": "Running"},
}

KUBEVIRT: Raw = {
    "metadata": {"namespace": "cozy-kubevirt", "name": "kubevirt"},
    "spec": {
        "configuration": {
            "permittedHostDevices": {
                "pciHostDevices": [
                    {"pciVendorSelector": "10DE:20B0", "resourceName": "nvidia.com/GA100"},
                    {"pciVendorSelector": "10de:1B38", "resourceName": "nvidia.com /P40"},
                ],
                "mediatedDevices": [
                    {"mdevNameSelector": "GRID T4-1Q", "resourceName": "nvidia.com/GRID_T4-1Q"}
                ],
                "usb": [{"resourceName": "kubevirt.io/skyconnect", "selectors": []}],
            }
        }
    },
    "status": {"phase": "Deployed"},
}


@pytest.mark.parametrize(
    ("read", "raw", "want"),
    [
        (
            decode.node,
            NODE,
            Node(
                name="gpu-1",
                allocatable={
                    "cpu": 63,
                    "memory": 269839249408,
                    "devices.kubevirt.io/kvm": 1000,
                    "nvidia.com/GA100": 8,
                },
                labels={"kubevirt.io/schedulable": "true"},
                taints=(
                    Taint("nvidia.com/gpu", "NoSchedule", "present"),
                    Taint("sku", "NoExecute"),
                ),
                unschedulable=True,
                ready=True,
            ),
        ),
        (
            decode.pod,
            POD,
            Pod(
                namespace="tenant-a",
                name="virt-launcher-vm1-abcde",
                uid="pod-1",
                node_name="gpu-1",
                requests={"nvidia.com/GA100": 2},
                owner="vmi-1",
                launcher_mark="vmi-1",
            ),
        ),
        (
            decode.claim,
            CLAIM,
            Claim(
                namespace="tenant-a",
                name="c1",
                class_name="a100",
                count=4,
                uid="claim-1",
                resource_name="nvidia.com/GA100",
                node_name="gpu-1",
                attached_to=Attachment("VirtualMachine", "vm1", "vm-1"),
                deleting=True,
            ),
        ),
        (
            decode.gpu_class,
            CLASS,
            GpuClass(
                name="a100",
                resource_name="nvidia.com/GA100",
                mode=Mode.PASSTHROUGH,
                uid="class-1",
                created="2026-11-29T12:00:00Z",
                labels={"tier": "gold"},
                display_name="A100",
                description="a card",
                vendor="NVIDIA",
                memory="40Gi",
                max_count=8,
                entitlement=Entitlement.REQUIRED,
                lifecycle=Lifecycle.DEPRECATED,
                disclosure=Disclosure.BUCKETED,
                tolerations=(
                    Toleration("nvidia.com/gpu", "Exists", "", "NoSchedule"),
                    Toleration("sku", "Equal", "gpu", "", 60),
                ),
                closed_since="2026-11-29T14:00:00Z",
                license_secret="nvidia-license",
            ),
        ),
        (
            decode.quota,
            QUOTA,
            Quota("tenant-a", "tenant-quota", {"requests.nvidia.com/GA100": 2, "pods": 10}),
        ),
        (decode.namespace, NAMESPACE, Namespace("tenant-a", "denied")),
        (
            decode.vmi,
            VMI,
            Vmi(
                namespace="tenant-a",
                name="vm1",
                uid="vmi-1",
                vm="vm-1",
                active_pods=("pod-1", "pod-2"),
                record=(
                    RecordEntry(
                        claim="c1", class_name="a100", resource_name="nvidia.com/GA100", count=4
                    ),
                    RecordEntry(entry=0, class_name="t4", resource_name="nvidia.com/T4", count=1),
                ),
                phase="Running",
                node_name="gpu-1",
            ),
        ),
        (decode.vm, VM, Vm("tenant-a", "vm1", "vm-1", "2026-11-29T12:00:00Z")),
        (decode.migration, MIGRATION, Migration("tenant-a", "m1", "migration-1", "vm1")),
        (
            decode.kubevirt,
            KUBEVIRT,
            KubeVirt(
                namespace="cozy-kubevirt",
                name="kubevirt",
                phase="Deployed",
                permitted=frozenset(
                    {
                        "nvidia.com/GA100",
                        "nvidia.com /P40",
                        "nvidia.com/GRID_T4-1Q",
                        "kubevirt.io/skyconnect",
                    }
                ),
                mediated=frozenset({"nvidia.com/GRID_T4-1Q"}),
            ),
        ),
    ],
    ids=lambda value: type(value).__name__ if not callable(value) else value.__name__,
)
def test_everything_that_a_rule_reads_is_read(
    read: Callable[[Raw, decode.Note], object], raw: Raw, want: object
) -> None:
    assert read(raw, no_problem) == want


def changed(raw: Raw, path: str, value: object) -> Raw:
    """A copy of an object with the field at a dotted path set; None takes it away."""
    copy: Raw = json.loads(json.dumps(raw))
    at = copy
    *parents, last = path.split(".")
    for parent in parents:
        at = at.setdefault(parent, {})
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value
    return copy


class TestNode:
    """What a node offers, and whether it is up."""

    @pytest.mark.parametrize(
        ("conditions", "want"),
        [
            ([{"type": "Ready", "status": "True"}], True),
            ([{"type": "Ready", "status": "False"}], False),
            ([{"type": "Ready", "status": "Unknown"}], False),
            ([], False),
            (None, False),
        ],
    )
    def test_is_ready_only_where_it_says_so(self, conditions: object, want: bool) -> None:
        assert decode.node(changed(NODE, "status.conditions", conditions), no_problem).ready is want

    def test_an_amount_that_is_no_quantity_offers_nothing_and_is_told(self) -> None:
        told: list[str] = []
        raw = changed(NODE, "status.allocatable", {"nvidia.com/GA100": "eight", "cpu": "-2"})
        assert decode.node(raw, told.append).allocatable == {"nvidia.com/GA100": 0, "cpu": 0}
        assert len(told) == 1
        assert told[0].startswith("status.allocatable[nvidia.com/GA100]: 'eight' is not a quantity")
        assert told[0].endswith("; taken as 0")


class TestPod:
    """Whose a pod is, and whether it holds anything."""

    @pytest.mark.parametrize(
        ("phase", "want"),
        [
            ("Pending", False),
            ("Running", False),
            ("Succeeded", True),
            ("Failed", True),
            ("", False),
        ],
    )
    def test_has_ended_in_its_final_phases(self, phase: str, want: bool) -> None:
        assert decode.pod(changed(POD, "status.phase", phase), no_problem).ended is want

    @pytest.mark.parametrize(
        ("references", "want"),
        [
            ([owner("VirtualMachineInstance", "u")], "u"),
            ([owner("VirtualMachineInstance", "u", group="kubevirt.io/v1alpha3")], "u"),
            ([owner("VirtualMachineInstance", "u", controller=False)], ""),
            ([owner("VirtualMachineInstance", "u", controller=None)], ""),
            ([owner("VirtualMachineInstance", "u", group="example.com/v1")], ""),
            ([owner("VirtualMachineInstance", "u", group="v1")], ""),
            ([owner("ReplicaSet", "u", group="apps/v1")], ""),
            (
                [
                    owner("ReplicaSet", "r", group="apps/v1", controller=False),
                    owner("VirtualMachineInstance", "u"),
                ],
                "u",
            ),
            ([], ""),
            (None, ""),
        ],
    )
    def test_its_owner_is_the_vmi_that_controls_it(self, references: object, want: str) -> None:
        raw = changed(POD, "metadata.ownerReferences", references)
        assert decode.pod(raw, no_problem).owner == want


class TestClaim:
    """An order or a template claim."""

    def test_asks_for_one_unless_it_says_more(self) -> None:
        assert decode.claim(changed(CLAIM, "spec.count", None), no_problem).count == 1

    @pytest.mark.parametrize("count", [0, -1, 1025, 2.0, "4", True, [], 10**20])
    def test_a_count_that_is_none_is_no_claim(self, count: object) -> None:
        with pytest.raises(Undecodable, match=r"spec\.count: .*a whole number from 1 to 1024"):
            decode.claim(changed(CLAIM, "spec.count", count), no_problem)

    @pytest.mark.parametrize("path", ["spec.className", "metadata.name", "metadata.namespace"])
    def test_without_a_class_or_a_name_it_is_none(self, path: str) -> None:
        with pytest.raises(Undecodable, match=path):
            decode.claim(changed(CLAIM, path, None), no_problem)

    def test_without_a_status_it_is_unbound_and_attached_to_nothing(self) -> None:
        got = decode.claim(changed(CLAIM, "status", None), no_problem)
        assert (got.resource_name, got.node_name, got.attached_to) == ("", "", None)

    @pytest.mark.parametrize(
        ("label", "is_template", "vmi"),
        [("true", True, "vmi-1"), ("false", False, ""), ("True", False, ""), (None, False, "")],
    )
    def test_is_a_template_claim_by_its_mark_and_then_owned_by_a_vmi(
        self,
        label: str | None,
        is_template: bool,
        vmi: str,
    ) -> None:
        """An order that somebody gave an owner reference to a VMI stays an order."""
        raw = changed(
            CLAIM,
            "metadata.ownerReferences",
            [owner("VirtualMachineInstance", "vmi-1", controller=False)],
        )
        raw = changed(raw, "metadata.labels", {"gpu.cozystack.io/template": label} if label else {})
        got = decode.claim(raw, no_problem)
        assert (got.is_template, got.owner) == (is_template, vmi)


class TestClass:
    """A class, with what it leaves out."""

    @pytest.mark.parametrize(
        ("mode", "want"),
        [("Passthrough", Entitlement.OPEN), ("VirtualGPU", Entitlement.REQUIRED)],
    )
    def test_who_may_order_follows_from_the_mode_unless_it_is_said(
        self, mode: str, want: Entitlement
    ) -> None:
        raw = changed(changed(CLASS, "spec.entitlement", None), "spec.mode", mode)
        assert decode.gpu_class(raw, no_problem).entitlement is want

    def test_what_it_leaves_out_is_as_the_schema_has_it(self) -> None:
        raw = {
            "metadata": {"name": "a100"},
            "spec": {"mode": "Passthrough", "resourceName": "nvidia.com/GA100"},
        }
        assert decode.gpu_class(raw, no_problem) == GpuClass("a100", "nvidia.com/GA100")

    @pytest.mark.parametrize(
        "path", ["spec.mode", "spec.entitlement", "spec.lifecycle", "spec.disclosure"]
    )
    def test_a_word_that_we_do_not_know_is_not_guessed_at(self, path: str) -> None:
        with pytest.raises(Undecodable, match=f"{path}: 'Later', expected .* or "):
            decode.gpu_class(changed(CLASS, path, "Later"), no_problem)

    @pytest.mark.parametrize("memory", ["40Gi", "42949672960", 85899345920])
    def test_memory_is_kept_as_written(self, memory: object) -> None:
        got = decode.gpu_class(changed(CLASS, "spec.memory", memory), no_problem)
        assert got.memory == str(memory)


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


class TestKubeVirt:
    """The table of permitted devices."""

    @pytest.mark.parametrize(
        ("path", "value", "permitted"),
        [
            ("spec.configuration.permittedHostDevices", None, None),
            ("spec.configuration", None, None),
            ("spec.configuration.permittedHostDevices", {}, frozenset()),
            (
                "spec.configuration.permittedHostDevices",
                {"pciHostDevices": None, "mediatedDevices": []},
                frozenset(),
            ),
        ],
    )
    def test_no_table_is_not_an_empty_one(
        self, path: str, value: object, permitted: frozenset[str] | None
    ) -> None:
        """Rule 4.1."""
        assert decode.kubevirt(changed(KUBEVIRT, path, value), no_problem).permitted == permitted

    @pytest.mark.parametrize("entry", [{}, None, "x", {"resourceName": 7}, {"resourceName": ""}])
    def test_an_entry_without_a_name_is_left_out_and_told(self, entry: object) -> None:
        told: list[str] = []
        raw = changed(
            KUBEVIRT,
            "spec.configuration.permittedHostDevices.pciHostDevices",
            [entry, {"resourceName": "nvidia.com/GA100"}],
        )
        assert "nvidia.com/GA100" in (decode.kubevirt(raw, told.append).permitted or ())
        path = "spec.configuration.permittedHostDevices.pciHostDevices[0].resourceName"
        assert told == [f"{path}: expected the name of a resource; left out"]


@pytest.mark.parametrize(
    ("phase", "want"), [("Succeeded", True), ("Failed", True), ("Running", False)]
)
def test_a_migration_is_over_in_its_final_phases(phase: str, want: bool) -> None:
    assert decode.migration(changed(MIGRATION, "status.phase", phase), no_problem).final is want


ENTRY = '{"entry": 0, "className": "a", "resourceName": "n/a", "count": 1}'


class TestRecord:
    """The record of admission is our webhook's own, so anything unusual in it is a forgery."""

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "null",
            "{}",
            '"text"',
            "[1]",
            "[null]",
            "[{}]",
            "[",
            f"[{ENTRY}] x",
            f"[{ENTRY},]",
            ENTRY.join("[]").replace('"entry": 0, ', ""),
            ENTRY.join("[]").replace('"entry": 0', '"entry": 0, "claim": "c"'),
            ENTRY.join("[]").replace('"entry": 0', '"entry": 0, "entry": 1'),
            ENTRY.join("[]").replace('"entry": 0', '"entry": 0, "more": 1'),
            ENTRY.join("[]").replace('"entry": 0', '"entry": -1'),
            ENTRY.join("[]").replace('"entry": 0', '"entry": true'),
            ENTRY.join("[]").replace('"entry": 0', '"claim": ""'),
            ENTRY.join("[]").replace('"count": 1', '"count": 0'),
            ENTRY.join("[]").replace('"count": 1', '"count": 2.0'),
            ENTRY.join("[]").replace('"count": 1', '"count": true'),
            ENTRY.join("[]").replace('"count": 1', '"count": 1025'),
            ENTRY.join("[]").replace('"count": 1', '"count": NaN'),
            ENTRY.join("[]").replace('"count": 1', '"count": ' + "9" * 5000),
            ENTRY.join("[]").replace('"n/a"', "null"),
            ENTRY.join("[]").replace('"className": "a", ', ""),
            "[" * 100_000,
            "[" * 90_000 + "]" * 90_000,
            f"[{ENTRY}]" + " " * 300_000,
        ],
        ids=lambda text: f"{len(text)} characters {text[:80]}",
    )
    def test_a_malformed_one_reads_as_none_and_is_told(self, text: str) -> None:
        told: list[str] = []
        raw = changed(VMI, "metadata.annotations", {"gpu.cozystack.io/attachments": text})
        assert decode.vmi(raw, told.append).record == ()
        assert len(told) == 1
        assert told[0].startswith("metadata.annotations[gpu.cozystack.io/attachments]")
        assert len(told[0]) < 500

    def test_a_vmi_without_one_has_none(self) -> None:
        assert decode.vmi(changed(VMI, "metadata.annotations", None), no_problem).record == ()


def test_a_class_that_is_open_was_closed_at_no_time() -> None:
    opened = {"type": "Open", "status": "True", "lastTransitionTime": "2026-11-29T14:00:00Z"}
    raw = changed(CLASS, "status.conditions", [opened])
    assert decode.gpu_class(raw, no_problem).closed_since == ""


ALL: list[tuple[Callable[[Raw, decode.Note], object], Raw]] = [
    (decode.node, NODE),
    (decode.pod, POD),
    (decode.claim, CLAIM),
    (decode.gpu_class, CLASS),
    (decode.quota, QUOTA),
    (decode.namespace, NAMESPACE),
    (decode.vmi, VMI),
    (decode.vm, VM),
    (decode.migration, MIGRATION),
    (decode.kubevirt, KUBEVIRT),
]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def places(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a JSON value."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


def put(value: Any, path: tuple[str | int, ...], new: object) -> Any:  # noqa: ANN401 - JSON
    """A copy of a JSON value with another in one place."""
    if not path:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(value[path[0]], path[1:], new)
    return copy


@given(data=st.data())
def test_anything_anywhere_is_a_value_or_undecodable_and_nothing_else(data: st.DataObject) -> None:
    read, raw = data.draw(st.sampled_from(ALL))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(raw)[1:]))
        raw = put(raw, path, data.draw(JSON))
    told: list[str] = []
    try:
        read(raw, told.append)
    except Undecodable as error:
        told.append(str(error))
    assert all(isinstance(each, str) for each in told)
