"""Each rule for VMIs alone: what it refuses, in which words, and what it lets in (rule 6.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from admission import vmi as rules
from admission.inputs import Unread, View, VmiInputs, VmiNeeds
from admission.review import Allow, Refuse
from shared.core.budgets import Remaining
from shared.core.model import (
    Attachment,
    Claim,
    GpuClass,
    KubeVirt,
    Namespace,
    Placement,
    Vm,
)
from shared.core.terms import LimitingLevel
from shared.reasons import PRECEDENCE, Reason
from tests.unit.admission.building import (
    A100,
    CLASSES,
    GA100,
    HOSTER,
    L40S,
    NIC,
    TENANT,
    changed_by,
    entries,
    hoster,
    request,
    vmi,
)
from tests.unit.scripted_api import Raw

KIND = ("kubevirt.io", "VirtualMachineInstance")
CLASSES_FIELD = "metadata.annotations[gpu.cozystack.io/classes]"
CLAIMS_FIELD = "metadata.annotations[gpu.cozystack.io/claims]"

TRAIN = Claim("tenant-a", "train", "a100", 2, uid="claim-1")
ONE = entries(("a100", 1))
"""One unit of a class that everybody may have."""


@dataclass(frozen=True)
class Refused:
    """A VMI that one rule alone refuses: with that rule taken out it is let in."""

    reason: Reason
    told: str
    vmi: Raw
    inputs: VmiInputs = field(default_factory=lambda: VmiInputs(HOSTER))


def claimed(
    *claims: Claim,
    present: frozenset[str] = frozenset(),
    owner: Vm | None = None,
    rivals: Mapping[str, frozenset[str]] | None = None,
) -> VmiInputs:
    named = {claim.name: claim for claim in claims}
    return VmiInputs(HOSTER, named, present, rivals or {}, owner)


def view(remaining: int, gpu_class: GpuClass = A100, age: float = 1.0) -> View:
    left = Remaining(remaining, LimitingLevel.SELF)
    return View(age, gpu_class.resource_name, remaining=left)


BY_SCHEDULER = hoster(placement=Placement.SCHEDULER)

# One case for each rule of the chain, which that rule alone decides.
ALONE: dict[str, Refused] = {
    "disabled": Refused(
        Reason.DISABLED,
        "GPUs are switched off on this platform",
        vmi(ONE),
        VmiInputs(hoster(enabled=False)),
    ),
    "malformed": Refused(
        Reason.MALFORMED,
        f'{CLAIMS_FIELD}[1]: "train", expected each claim once',
        vmi(ONE, '["train","train"]'),
    ),
    "too_many_units": Refused(
        Reason.TOO_MANY_UNITS,
        f"{CLASSES_FIELD}: asked 1025 units: a VM has at most 1024 units",
        vmi(entries(("l40s", 1000), ("l40s", 25))),
    ),
    "mixed_requests": Refused(
        Reason.MIXED_REQUESTS,
        f'spec.domain.devices.hostDevices[0]: the entry asks for the GPU "{L40S}", beside the '
        "class entries or claims of the VM: leave one of them out",
        vmi(ONE, devices={"hostDevices": [{"name": "x", "deviceName": L40S}]}),
    ),
    "inputs_unreadable": Refused(
        Reason.INPUTS_UNREADABLE,
        "GPU admission: the cluster cannot be read fully at the moment: the settings: no answer "
        "in time",
        vmi(ONE),
        VmiInputs(HOSTER, unread=(Unread("the settings", "no answer in time"),)),
    ),
    "claim_not_found": Refused(
        Reason.CLAIM_NOT_FOUND,
        f"{CLAIMS_FIELD}[0]: the claim gone does not exist in this namespace",
        vmi(ONE, '["gone"]'),
    ),
    "claim_in_use": Refused(
        Reason.CLAIM_IN_USE,
        f"{CLAIMS_FIELD}[0]: the claim train belongs to the VirtualMachine other",
        vmi(claims='["train"]'),
        claimed(
            replace(TRAIN, attached_to=Attachment("VirtualMachine", "other", "vm-2")),
            present=frozenset({"vm-2"}),
        ),
    ),
    "class_not_found": Refused(
        Reason.CLASS_NOT_FOUND,
        f"{CLASSES_FIELD}[1].className: there is no class h100",
        vmi(entries(("a100", 1), ("h100", 1))),
    ),
    "class_conflict": Refused(
        Reason.CLASS_CONFLICT,
        f"{CLASSES_FIELD}[0]: class a100: another class names the same device, which the platform "
        "must mend",
        vmi(ONE),
        VmiInputs(hoster(GpuClass("a100-too", GA100))),
    ),
    "not_permitted": Refused(
        Reason.NOT_PERMITTED,
        f"{CLASSES_FIELD}[0]: class t4 (nvidia.com/TU104GL_Tesla_T4): virtual machines are not "
        "permitted to use this device",
        vmi(entries(("t4", 1))),
        # FR-038: both spellings exist in the field, and KubeVirt compares letter by letter.
        VmiInputs(
            hoster(
                GpuClass("t4", "nvidia.com/TU104GL_Tesla_T4"),
                kubevirt=KubeVirt(
                    "cozy-kubevirt",
                    "kubevirt",
                    "Deployed",
                    permitted=frozenset({"nvidia.com/TU104GL_TESLA_T4"}),
                ),
            )
        ),
    ),
    "class_closed": Refused(
        Reason.CLASS_CLOSED,
        f"{CLASSES_FIELD}[0]: class p40: the class takes no new orders and no new VMs",
        vmi(entries(("p40", 1))),
    ),
    "not_entitled": Refused(
        Reason.NOT_ENTITLED,
        f"{CLASSES_FIELD}[0]: class t4-1q: this tenant is not entitled to the class",
        vmi(entries(("t4-1q", 1))),
        VmiInputs(
            hoster(
                namespaces={
                    "tenant-a": Namespace("tenant-a", "denied"),
                    "tenant-root": Namespace("tenant-root", "entitled"),
                }
            )
        ),
    ),
    "max_count": Refused(
        Reason.MAX_COUNT_EXCEEDED,
        f"{CLASSES_FIELD}[0]: class a100: asked 9, up to 8: one order, or one VM, has at most 8 "
        "units of this class",
        vmi(entries(("a100", 4), ("l40s", 1), ("a100", 5))),
    ),
    "budget": Refused(
        Reason.BUDGET_EXCEEDED,
        f"{CLASSES_FIELD}[0]: class a100: asked 4, up to 2: this tenant's budget has 2 left",
        vmi(entries(("a100", 4))),
        VmiInputs(BY_SCHEDULER, views={"a100": view(2)}),
    ),
}


def decided(case: Refused, chain: tuple[tuple[Reason, rules.Rule], ...] = rules.CHAIN) -> object:
    return rules.decide(request(case.vmi, kind=KIND), case.inputs, chain)


def test_the_chain_stands_in_the_order_of_precedence_with_a_case_for_each_rule() -> None:
    assert [rule.__name__ for _, rule in rules.CHAIN] == list(ALONE)
    ranks = [PRECEDENCE[reason] for reason, _ in rules.CHAIN]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("rule", ALONE)
def test_each_rule_refuses_with_its_reason_and_words(rule: str) -> None:
    case = ALONE[rule]
    got = decided(case)
    assert isinstance(got, Refuse)
    assert (got.reason, got.message) == (case.reason.value, case.told)
    assert {cause.reason for cause in got.causes} == {case.reason}


@pytest.mark.parametrize("rule", ALONE)
def test_without_its_rule_each_case_is_let_in(rule: str) -> None:
    chain = tuple(each for each in rules.CHAIN if each[1].__name__ != rule)
    assert len(chain) == len(rules.CHAIN) - 1
    assert isinstance(decided(ALONE[rule], chain), Allow)


@pytest.mark.parametrize("rule", ALONE)
def test_no_refusal_counts_or_names_nodes(rule: str) -> None:
    assert "node" not in ALONE[rule].told


def verdict(thing: Raw, inputs: VmiInputs) -> str:
    """The reason of a refusal, or how many units are let in."""
    got = rules.decide(request(thing, kind=KIND), inputs)
    if isinstance(got, Refuse):
        return got.reason
    return str(len(changed_by(got, thing)["spec"]["domain"]["devices"]["gpus"]))


def units(**cases: tuple[Raw, VmiInputs, str]) -> pytest.MarkDecorator:
    """A table of VMIs, each with its verdict."""
    return pytest.mark.parametrize(
        ("thing", "inputs", "want"),
        [pytest.param(*case, id=name.replace("_", " ")) for name, case in cases.items()],
    )


PLAIN = VmiInputs(HOSTER)


@units(
    all_the_units_there_may_be=(vmi(entries(("l40s", 1024))), PLAIN, "1024"),
    summed_before_expanding=(vmi(entries(("l40s", 10**15), ("l40s", 1))), PLAIN, "TooManyUnits"),
    claims_count_as_well=(
        vmi(entries(("l40s", 1023)), '["train"]'),
        claimed(TRAIN),
        "TooManyUnits",
    ),
    claims_alone=(
        vmi(claims='["train","big"]'),
        claimed(TRAIN, Claim("tenant-a", "big", "l40s", 1022)),
        "1024",
    ),
    thirty_two_entries=(vmi(entries(*[("l40s", 1)] * 32)), PLAIN, "32"),
    thirty_three_entries=(vmi(entries(*[("l40s", 1)] * 33)), PLAIN, "TooManyUnits"),
)
def test_how_many_units_and_entries_a_vm_may_have(thing: Raw, inputs: VmiInputs, want: str) -> None:
    assert verdict(thing, inputs) == want


@pytest.mark.parametrize(("number", "want"), [(32, "32"), (33, "TooManyUnits")])
def test_how_many_claims_a_vm_may_name(number: int, want: str) -> None:
    names = [f"c{n}" for n in range(number)]
    inputs = claimed(*(Claim("tenant-a", name, "l40s", 1) for name in names))
    assert verdict(vmi(claims=str(names).replace("'", '"')), inputs) == want


RAW = {"name": "g9", "deviceName": GA100}


@units(
    a_raw_entry=(vmi(ONE, devices={"gpus": [RAW]}), PLAIN, "MixedRequests"),
    # A GPU by its place, whatever it is called (4.2).
    a_raw_entry_of_any_name=(
        vmi(ONE, devices={"gpus": [{"name": "x", "deviceName": NIC}]}),
        PLAIN,
        "MixedRequests",
    ),
    an_entry_by_device_claim=(
        vmi(ONE, devices={"gpus": [{"name": "x", "claimName": "c", "requestName": "r"}]}),
        PLAIN,
        "MixedRequests",
    ),
    an_empty_entry=(vmi(ONE, devices={"gpus": [{}]}), PLAIN, "MixedRequests"),
    an_entry_that_is_null=(vmi(ONE, devices={"gpus": [None]}), PLAIN, "MixedRequests"),
    a_list_that_is_empty=(vmi(ONE, devices={"gpus": []}), PLAIN, "1"),
    a_list_that_is_null=(vmi(ONE, devices={"gpus": None}), PLAIN, "1"),
    no_devices=(vmi(ONE, devices={}), PLAIN, "1"),
    another_shape=(vmi(ONE, devices={"gpus": "all"}), PLAIN, "Malformed"),
    # FR-039 and FR-040: what stands in the table, or carries the vendor's prefix, is no GPU for it.
    a_network_card=(
        vmi(ONE, devices={"hostDevices": [{"name": "n", "deviceName": NIC}]}),
        PLAIN,
        "1",
    ),
    switches_and_sound=(
        vmi(
            ONE,
            devices={
                "hostDevices": [
                    {"name": "sw0", "deviceName": "nvidia.com/NVSwitch"},
                    {
                        "name": "sn",
                        "deviceName": "nvidia.com/AD102_HIGH_DEFINITION_AUDIO_CONTROLLER",
                    },
                ]
            },
        ),
        PLAIN,
        "1",
    ),
    a_mediated_device_of_the_table=(
        vmi(ONE, devices={"hostDevices": [{"name": "m", "deviceName": "nvidia.com/GRID_T4-8Q"}]}),
        PLAIN,
        "MixedRequests",
    ),
    a_name_that_the_hoster_lists=(
        vmi(ONE, devices={"hostDevices": [{"name": "p", "deviceName": "nvidia.com/gpu"}]}),
        VmiInputs(hoster(listed=frozenset({"nvidia.com/gpu"}))),
        "MixedRequests",
    ),
    a_name_that_he_does_not_list=(
        vmi(ONE, devices={"hostDevices": [{"name": "p", "deviceName": "nvidia.com/gpu"}]}),
        PLAIN,
        "1",
    ),
    a_host_device_by_claim=(
        vmi(ONE, devices={"hostDevices": [{"name": "h", "claimName": "c", "requestName": "r"}]}),
        PLAIN,
        "MixedRequests",
    ),
    requests_of_the_guest=(
        vmi(ONE, resources={"requests": {"memory": "8Gi", GA100: "1"}}),
        PLAIN,
        "MixedRequests",
    ),
    # Kubernetes' lists replace the count of the entries, so nought would take the GPU away.
    limits_of_nought=(vmi(ONE, resources={"limits": {GA100: "0"}}), PLAIN, "MixedRequests"),
    other_resources=(
        vmi(ONE, resources={"requests": {"memory": "8Gi", NIC: "1"}, "limits": {NIC: "1"}}),
        PLAIN,
        "1",
    ),
    a_device_claim_that_nothing_names=(
        vmi(ONE, spec={"resourceClaims": [{"name": "c", "resourceClaimName": "gpu"}]}),
        PLAIN,
        "MixedRequests",
    ),
    a_device_claim_of_a_network=(
        vmi(
            ONE,
            spec={
                "networks": [
                    {"name": "n", "resourceClaim": {"claimName": "c", "requestName": "v"}}
                ],
                "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "vf"}],
            },
        ),
        PLAIN,
        "1",
    ),
    a_device_claim_without_a_name=(
        vmi(ONE, spec={"networks": [{"name": "n", "pod": {}}], "resourceClaims": [{}]}),
        PLAIN,
        "MixedRequests",
    ),
    beside_claims_too=(
        vmi(claims='["train"]', devices={"gpus": [RAW]}),
        claimed(TRAIN),
        "MixedRequests",
    ),
    a_claims_own_resource_from_before_a_renaming=(
        vmi(claims='["train"]', devices={"hostDevices": [{"name": "x", "deviceName": "n/old"}]}),
        claimed(replace(TRAIN, resource_name="n/old", node_name="gpu-1")),
        "MixedRequests",
    ),
)
def test_no_gpu_is_asked_for_in_two_ways(thing: Raw, inputs: VmiInputs, want: str) -> None:
    assert verdict(thing, inputs) == want


def attached(kind: str, name: str, uid: str) -> Claim:
    return replace(TRAIN, attached_to=Attachment(kind, name, uid))


OWNED = vmi(claims='["train"]', vm=("vm1", "vm-1"))
OWNER = Vm("tenant-a", "vm1", "vm-1", "2026-11-29T10:00:00Z")


@units(
    of_nobody=(vmi(claims='["train"]'), claimed(TRAIN), "2"),
    being_deleted=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, deleting=True)),
        "ClaimNotFound",
    ),
    made_for_a_class_entry=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, is_template=True, owner="vmi-9")),
        "ClaimNotFound",
    ),
    of_a_vm_that_is_gone=(
        vmi(claims='["train"]'),
        claimed(attached("VirtualMachine", "other", "vm-2")),
        "2",
    ),
    of_a_vmi_that_runs=(
        vmi(claims='["train"]'),
        claimed(attached("VirtualMachineInstance", "other", "vmi-2"), present=frozenset({"vmi-2"})),
        "ClaimInUse",
    ),
    of_the_same_vm=(
        OWNED,
        claimed(
            attached("VirtualMachine", "vm1", "vm-1"), present=frozenset({"vm-1"}), owner=OWNER
        ),
        "2",
    ),
    of_the_same_vm_whatever_others_name_it=(
        OWNED,
        claimed(
            attached("VirtualMachine", "vm1", "vm-1"),
            present=frozenset({"vm-1"}),
            owner=OWNER,
            rivals={"train": frozenset({"thief"})},
        ),
        "2",
    ),
    # An owner reference proves nothing: KubeVirt names a VM's instance as the VM.
    of_a_vm_that_a_stranger_poses_for=(
        vmi(claims='["train"]', name="thief", vm=("vm1", "vm-1")),
        claimed(
            attached("VirtualMachine", "vm1", "vm-1"), present=frozenset({"vm-1"}), owner=OWNER
        ),
        "ClaimInUse",
    ),
    of_a_vm_of_the_same_name_before=(
        vmi(claims='["train"]', vm=("vm1", "vm-0")),
        claimed(
            attached("VirtualMachine", "vm1", "vm-0"), present=frozenset({"vm-0"}), owner=OWNER
        ),
        "ClaimInUse",
    ),
    named_by_an_older_vmi=(
        vmi(claims='["train"]'),
        claimed(TRAIN, rivals={"train": frozenset({"elder"})}),
        "ClaimInUse",
    ),
    named_by_the_vmi_before_it_of_the_same_name=(
        vmi(claims='["train"]'),
        claimed(TRAIN, rivals={"train": frozenset({"vm1"})}),
        "2",
    ),
    named_by_an_older_one_of_a_replica_set=(
        vmi(claims='["train"]', name=""),
        claimed(TRAIN, rivals={"train": frozenset({"rs1abcd"})}),
        "ClaimInUse",
    ),
)
def test_a_claim_is_used_by_one_vm(thing: Raw, inputs: VmiInputs, want: str) -> None:
    assert verdict(thing, inputs) == want


HELD_OF_CLOSED = claimed(Claim("tenant-a", "train", "p40", 9))


@units(
    closed=(vmi(claims='["train"]'), HELD_OF_CLOSED, "9"),
    not_entitled=(
        vmi(claims='["train"]'),
        VmiInputs(hoster(namespaces={}), claims={"train": Claim("tenant-a", "train", "t4-1q")}),
        "1",
    ),
    beyond_the_maximum_of_the_class=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, count=16)),
        "16",
    ),
    with_entries_of_the_class_beside_it=(
        vmi(entries(("a100", 8)), '["train"]'),
        claimed(TRAIN),
        "10",
    ),
    class_gone=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, class_name="gone")),
        "ClassNotFound",
    ),
    in_conflict=(
        vmi(claims='["train"]'),
        VmiInputs(hoster(GpuClass("too", GA100)), claims={"train": TRAIN}),
        "ClassConflict",
    ),
    device_not_permitted_by_the_name_it_was_bound_with=(
        vmi(claims='["train"]'),
        claimed(replace(TRAIN, resource_name="nvidia.com/OLD", node_name="gpu-1")),
        "NotPermitted",
    ),
)
def test_of_a_claim_only_what_changed_since_its_order_is_judged(
    thing: Raw, inputs: VmiInputs, want: str
) -> None:
    assert verdict(thing, inputs) == want


CLOSING = entries(("p40", 1))


def of_vm(created: str, uid: str = "vm-1") -> VmiInputs:
    return VmiInputs(HOSTER, owner=Vm("tenant-a", "vm1", uid, created))


@units(
    older_than_the_closing=(
        vmi(CLOSING, vm=("vm1", "vm-1")),
        of_vm("2026-11-29T11:59:59Z"),
        "1",
    ),
    made_in_the_same_second=(
        vmi(CLOSING, vm=("vm1", "vm-1")),
        of_vm("2026-11-29T12:00:00Z"),
        "1",
    ),
    younger=(vmi(CLOSING, vm=("vm1", "vm-1")), of_vm("2026-11-29T12:00:01Z"), "ClassClosed"),
    the_same_moment_in_another_zone=(
        vmi(CLOSING, vm=("vm1", "vm-1")),
        of_vm("2026-11-29T13:59:59+02:00"),
        "1",
    ),
    closed_a_moment_ago_so_that_nobody_has_dated_it=(
        vmi(CLOSING, vm=("vm1", "vm-1")),
        VmiInputs(
            hoster(replace(CLASSES["p40"], closed_since="")),
            owner=Vm("tenant-a", "vm1", "vm-1", "2026-11-29T12:00:01Z"),
        ),
        "1",
    ),
    without_a_vm=(vmi(CLOSING), PLAIN, "ClassClosed"),
    with_a_vm_that_is_gone=(vmi(CLOSING, vm=("vm1", "vm-1")), PLAIN, "ClassClosed"),
    with_another_vm_of_the_name=(
        vmi(CLOSING, vm=("vm1", "vm-0")),
        of_vm("2026-11-29T10:00:00Z"),
        "ClassClosed",
    ),
    posing_as_an_older_vms=(
        vmi(CLOSING, name="other", vm=("vm1", "vm-1")),
        of_vm("2026-11-29T10:00:00Z"),
        "ClassClosed",
    ),
)
def test_a_closed_class_starts_the_vms_that_are_older_than_its_closing(
    thing: Raw, inputs: VmiInputs, want: str
) -> None:
    assert verdict(thing, inputs) == want


FOUR = vmi(entries(("a100", 2), ("a100", 2)))


@units(
    the_binder_checks_it_later=(FOUR, VmiInputs(HOSTER, views={"a100": view(0)}), "4"),
    unlimited=(
        FOUR,
        VmiInputs(BY_SCHEDULER, views={"a100": replace(view(0), remaining=None)}),
        "4",
    ),
    just_enough=(FOUR, VmiInputs(BY_SCHEDULER, views={"a100": view(4)}), "4"),
    one_too_few=(FOUR, VmiInputs(BY_SCHEDULER, views={"a100": view(3)}), "BudgetExceeded"),
    overdrawn=(FOUR, VmiInputs(BY_SCHEDULER, views={"a100": view(-3)}), "BudgetExceeded"),
    not_seen=(FOUR, VmiInputs(BY_SCHEDULER), "InputsUnreadable"),
    seen_too_long_ago=(
        FOUR,
        VmiInputs(BY_SCHEDULER, views={"a100": view(9, age=10.1)}),
        "InputsUnreadable",
    ),
    seen_just_in_time=(
        FOUR,
        VmiInputs(BY_SCHEDULER, views={"a100": view(9, age=10.0)}),
        "4",
    ),
    seen_in_part=(
        FOUR,
        VmiInputs(
            BY_SCHEDULER,
            views={"a100": replace(view(9), unreadable=frozenset({"resourcequotas"}))},
        ),
        "InputsUnreadable",
    ),
    seen_with_another_resource=(
        FOUR,
        VmiInputs(BY_SCHEDULER, views={"a100": replace(view(9), resource_name="n/old")}),
        "InputsUnreadable",
    ),
    claims_are_in_the_budget_already=(
        vmi(claims='["train"]'),
        VmiInputs(BY_SCHEDULER, claims={"train": TRAIN}, views={"a100": view(0)}),
        "2",
    ),
)
def test_a_budget_refuses_only_where_nobody_checks_it_later(
    thing: Raw, inputs: VmiInputs, want: str
) -> None:
    assert verdict(thing, inputs) == want


def test_a_budget_of_nothing_is_told_as_the_option_tells_it() -> None:
    got = rules.decide(request(FOUR, kind=KIND), VmiInputs(BY_SCHEDULER, views={"a100": view(-3)}))
    assert isinstance(got, Refuse)
    assert got.message == (
        f"{CLASSES_FIELD}[0]: class a100: asked 4, cannot be ordered: this tenant's budget has 0 "
        "left"
    )


def test_a_vm_is_never_refused_for_lack_of_units() -> None:
    """FR-055: a refusal at the start sends a VM into KubeVirt's growing pauses; it waits."""
    nothing_free = View(1.0, GA100)
    for placement in Placement:
        inputs = VmiInputs(hoster(placement=placement), views={"a100": nothing_free})
        assert verdict(vmi(ONE), inputs) == "1"


@pytest.mark.parametrize(
    "annotation", ["gpu.cozystack.io/attachments", "gpu.cozystack.io/launcher"]
)
def test_a_record_or_a_mark_without_class_or_claim_is_refused(annotation: str) -> None:
    got = rules.decide(request(vmi(annotations={annotation: "vmi-1"}), kind=KIND), PLAIN)
    assert isinstance(got, Refuse)
    assert (got.reason, got.code) == ("Malformed", 422)
    assert got.message == (
        f'metadata.annotations[{annotation}]: "vmi-1", expected no such annotation: admission '
        "alone writes it, and there is no class or claim"
    )


def test_with_several_reasons_the_first_by_precedence_is_told() -> None:
    thing = vmi(entries(("h100", 1025), ("p40", 1)), '["gone"]', devices={"gpus": [RAW]})
    inputs = VmiInputs(HOSTER, unread=(Unread("KubeVirt", "403"),))
    told = []
    chain = list(rules.CHAIN)
    while True:
        got = rules.decide(request(thing, kind=KIND), inputs, chain)
        if not isinstance(got, Refuse):
            break
        told.append(got.reason)
        chain = [each for each in chain if each[0] != got.reason]
    assert told == [
        "TooManyUnits",
        "MixedRequests",
        "InputsUnreadable",
        "ClaimNotFound",
        "ClassNotFound",
        "ClassClosed",
    ]


@pytest.mark.parametrize(
    ("thing", "operation"),
    [
        pytest.param(vmi(), "CREATE", id="a VMI without any of our annotations"),
        pytest.param(vmi(devices={"gpus": [RAW]}), "CREATE", id="a VMI with raw GPUs alone"),
        pytest.param({"metadata": {}}, "CREATE", id="no annotations"),
        pytest.param({"metadata": {"annotations": None}}, "CREATE", id="annotations null"),
        pytest.param(vmi("rubbish"), "UPDATE", id="an update"),
        pytest.param(None, "DELETE", id="a deletion"),
    ],
)
def test_what_is_none_of_ours_is_let_in_untouched_and_needs_no_read(
    thing: Raw | None, operation: str
) -> None:
    asked = request(thing, kind=KIND, operation=operation)
    assert rules.needs(asked) is None
    unread = VmiInputs(hoster(enabled=False), unread=(Unread("everything", "down"),))
    assert rules.decide(asked, unread) == Allow()


def test_what_is_read_for_a_decision_is_named_before() -> None:
    thing = vmi(entries(("a100", 1), ("l40s", 2)), '["b","a"]', vm=("vm1", "vm-1"))
    assert rules.needs(request(thing, kind=KIND, namespace="tenant-x")) == VmiNeeds(
        "tenant-x", ("b", "a"), frozenset({"a100", "l40s"}), "vm1"
    )


def test_nothing_depends_on_who_asks() -> None:
    for username in (TENANT, "system:admin"):
        got = rules.decide(request(vmi(CLOSING), kind=KIND, username=username), PLAIN)
        assert isinstance(got, Refuse)


def test_a_deprecated_class_comes_with_a_warning() -> None:
    got = rules.decide(request(vmi(entries(("v100", 1), ("v100", 1))), kind=KIND), PLAIN)
    assert isinstance(got, Allow)
    assert got.warnings == ("GPU class v100 is deprecated and will close",)
