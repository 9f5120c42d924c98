"""GPUClasses: one resource each, and a warning for what others feel (rule 6.5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admission import gpuclass as rules
from admission.inputs import ClassInputs, ClassNeeds, Unread
from admission.review import Allow, Decision, Refuse
from shared.core.model import GpuClass
from shared.reasons import PRECEDENCE, Reason
from tests.unit.admission.building import GA100, HOSTER, L40S, hoster, request
from tests.unit.scripted_api import Raw

KIND = ("gpu.cozystack.io", "GPUClass")
ADMIN = "system:admin"
KNOWN = ClassInputs(HOSTER)
FREE = ClassInputs(hoster(kubevirt=None))
NEW = "nvidia.com/GH100_H100_PCIE"


def gpu_class(name: str = "h100", resource: object = NEW, **changes: Any) -> Raw:  # noqa: ANN401 - JSON
    metadata: Raw = {"name": name, **changes.pop("metadata", {})}
    return {
        "apiVersion": "gpu.cozystack.io/v1alpha1",
        "kind": "GPUClass",
        "metadata": metadata,
        "spec": {
            "vendor": "NVIDIA",
            "mode": "Passthrough",
            "resourceName": resource,
            "lifecycle": "Active",
            "disclosure": "Exact",
            **changes,
        },
    }


def made(thing: Raw, inputs: ClassInputs = FREE, chain: Any = rules.CHAIN) -> Decision:  # noqa: ANN401 - a part of it
    return rules.decide(request(thing, kind=KIND, username=ADMIN), inputs, chain)


def changed(old: Raw, new: Raw, inputs: ClassInputs = FREE) -> Decision:
    asked = request(new, kind=KIND, operation="UPDATE", username=ADMIN, old=old)
    return rules.decide(asked, inputs)


A_RESOURCE = (
    "the extended resource that the device plugin advertises on nodes, with a domain that is not "
    'Kubernetes\' own, such as "nvidia.com/GA102GL_A10"'
)

# For each rule a case that it alone decides.
ALONE: dict[Reason, tuple[Raw, ClassInputs, str]] = {
    Reason.MALFORMED: (
        gpu_class(resource="cpu"),
        FREE,
        f'spec.resourceName: "cpu", expected {A_RESOURCE}',
    ),
    Reason.INPUTS_UNREADABLE: (
        gpu_class(),
        replace(FREE, unread=(Unread("the classes", "403"),)),
        "GPU admission: the cluster cannot be read fully at the moment: the classes: 403",
    ),
    Reason.CLASS_CONFLICT: (
        gpu_class(resource=GA100),
        FREE,
        f'spec.resourceName: "{GA100}" is the resource of the class a100 already',
    ),
}


def test_the_chain_stands_in_the_order_of_precedence_with_a_case_for_each_rule() -> None:
    assert [reason for reason, _ in rules.CHAIN] == list(ALONE)
    ranks = [PRECEDENCE[reason] for reason, _ in rules.CHAIN]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("reason", ALONE, ids=str)
def test_each_rule_refuses_and_without_it_the_case_is_let_in(reason: Reason) -> None:
    thing, inputs, told = ALONE[reason]
    got = made(thing, inputs)
    assert isinstance(got, Refuse)
    assert (got.reason, got.message) == (reason.value, told)
    chain = tuple(each for each in rules.CHAIN if each[0] is not reason)
    assert isinstance(made(thing, inputs, chain), Allow)


@pytest.mark.parametrize(
    "resource",
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "hugepages-2Mi",
        "pods",
        "kubernetes.io/gpu",
        "node.kubernetes.io/gpu",
        "requests.nvidia.com/gpu",
        "nvidia.com/a,nvidia.com/b",
        "nvidia.com /GRID_P4-1Q",
        "nvidia.com/",
        "/gpu",
        "gpu",
        "",
        None,
        7,
        "a100.gpuclass.gpu.cozystack.io/units",
        "NVIDIA.com/gpu",
        "nvidia.com/gpu\n",
    ],
)
def test_what_is_no_extended_resource_with_a_domain_is_refused(resource: object) -> None:
    got = made(gpu_class(resource=resource))
    assert isinstance(got, Refuse)
    assert (got.code, got.reason) == (422, "Malformed")


def test_a_new_resource_is_let_in() -> None:
    assert made(gpu_class()) == Allow()


@pytest.mark.parametrize(("length", "fits"), [(244, True), (245, False)])
def test_a_domain_leaves_room_for_what_quotas_put_before_it(length: int, fits: bool) -> None:
    """`requests.` and the domain are one name, of at most 253 characters."""
    domain = ".".join(["d" * 60, "d" * 60, "d" * 60, "d" * (length - 183)])
    assert len(domain) == length
    assert isinstance(made(gpu_class(resource=f"{domain}/gpu")), Allow) is fits


def test_the_case_of_a_resource_counts() -> None:
    assert made(gpu_class(resource=GA100.lower())) == Allow()


def test_a_class_is_not_in_conflict_with_itself() -> None:
    """It may be among those that were read: it was made again, or the answer is repeated."""
    assert made(gpu_class("a100", GA100)) == Allow()


def test_two_classes_in_conflict_are_both_told_in_order() -> None:
    inputs = ClassInputs(hoster(GpuClass("b", NEW), GpuClass("a", NEW), kubevirt=None))
    got = made(gpu_class(), inputs)
    assert isinstance(got, Refuse)
    assert [cause.message.split()[-2] for cause in got.causes] == ["a", "b"]


def test_a_device_that_kubevirt_does_not_permit_comes_with_a_warning() -> None:
    """Trouble 23: the hoster sees it at once, no user later."""
    got = made(gpu_class(), KNOWN)
    assert got == Allow(
        warnings=(
            (
                f"{NEW} is not in KubeVirt's permittedHostDevices: no VM can have this class "
                "until it is"
            ),
        )
    )
    assert made(gpu_class("spare", "intel.com/qat"), KNOWN) == Allow()


def test_a_resource_can_be_changed_to_a_free_one_and_not_to_a_taken_one() -> None:
    old = gpu_class("a100", GA100)
    assert changed(old, gpu_class("a100", NEW)) == Allow()
    got = changed(old, gpu_class("a100", L40S))
    assert isinstance(got, Refuse)
    assert got.reason == "ClassConflict"


def test_a_conflict_that_is_there_does_not_hinder_what_does_not_touch_it() -> None:
    inputs = ClassInputs(hoster(GpuClass("too", GA100), kubevirt=None))
    old = gpu_class("a100", GA100)
    assert changed(old, gpu_class("a100", GA100, displayName="A100"), inputs) == Allow()
    unread = replace(inputs, unread=(Unread("the classes", "403"),))
    assert changed(old, gpu_class("a100", GA100, displayName="A100"), unread) == Allow()


def test_nor_does_a_resource_that_is_there_and_would_not_be_taken_now() -> None:
    """It may have been stored under an older schema, and the class has to be closed."""
    old = gpu_class(resource="cpu")
    assert isinstance(changed(old, gpu_class(resource="cpu", lifecycle="Closed")), Allow)


IN_USE = {"finalizers": ["gpu.cozystack.io/class-in-use"]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"resource": NEW},
            (
                "resourceName changes while the class is in use: claims that are bound keep the "
                "former resource until they are bound anew"
            ),
        ),
        (
            {"maxCount": 2},
            "maxCount changes while the class is in use: claims and VMs that have more keep it",
        ),
        (
            {"entitlement": "Required"},
            (
                "entitlement changes while the class is in use: claims of tenants that are no "
                "longer entitled live on"
            ),
        ),
        (
            {"lifecycle": "Closed"},
            (
                "lifecycle changes while the class is in use: claims live on, and VMs that are "
                "older than the closing still start"
            ),
        ),
        (
            {"disclosure": "Hidden"},
            (
                "disclosure changes while the class is in use: tenants see at once what it "
                "discloses now"
            ),
        ),
        (
            {"tolerations": [{"operator": "Exists"}]},
            "tolerations changes while the class is in use: pods that are there keep theirs",
        ),
        (
            {"guestLicense": {"secretName": "x"}},
            (
                "guestLicense changes while the class is in use: VMs that run keep theirs until "
                "they start anew"
            ),
        ),
    ],
)
def test_a_change_of_a_class_in_use_comes_with_a_warning(change: Raw, told: str) -> None:
    old = gpu_class("a100", GA100, metadata=IN_USE)
    new = gpu_class("a100", **({"resource": GA100} | change), metadata=IN_USE)
    assert changed(old, new) == Allow(warnings=(f"spec.{told}",))
    by_claims = replace(FREE, claims=1)
    bare = gpu_class("a100", **({"resource": GA100} | change))
    assert changed(gpu_class("a100", GA100), bare, by_claims) == Allow(warnings=(f"spec.{told}",))
    assert changed(gpu_class("a100", GA100), bare) == Allow()


@pytest.mark.parametrize(
    ("operation", "thing", "old"),
    [
        pytest.param("DELETE", None, gpu_class(resource="cpu"), id="a deletion"),
        pytest.param(
            "UPDATE",
            gpu_class(resource="cpu", metadata={"deletionTimestamp": "2026-11-29T12:00:00Z"}),
            gpu_class(),
            id="what is being deleted",
        ),
        pytest.param(
            "UPDATE",
            gpu_class(resource="cpu", metadata={"labels": {"a": "b"}}),
            gpu_class(resource="cpu"),
            id="what changes no spec",
        ),
    ],
)
def test_deletions_and_what_changes_no_spec_are_let_in_and_need_no_read(
    operation: str, thing: Raw | None, old: Raw
) -> None:
    """Trouble 19."""
    asked = request(thing, kind=KIND, operation=operation, username=ADMIN, old=old)
    assert rules.needs(asked) is None
    assert rules.decide(asked, replace(FREE, unread=(Unread("x", "y"),))) == Allow()


def test_what_is_read_for_a_decision_is_named_before() -> None:
    assert rules.needs(request(gpu_class(), kind=KIND)) == ClassNeeds("h100")
