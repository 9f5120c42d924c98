"""The chain of rules about a VM: each with a case that it alone decides (rule 6.1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from admission import vmi as rules
from admission.inputs import Unread, VmiInputs, VmiNeeds
from admission.review import Allow, Refuse
from shared.core.model import (
    Attachment,
    GpuClass,
    KubeVirt,
    Namespace,
)
from shared.reasons import PRECEDENCE, Reason
from tests.unit.admission.building import (
    GA100,
    HOSTER,
    L40S,
    TENANT,
    entries,
    hoster,
    request,
    vmi,
)
from tests.unit.admission.vms import (
    BY_SCHEDULER,
    CLAIMS_FIELD,
    CLASSES_FIELD,
    CLOSING,
    KIND,
    ONE,
    PLAIN,
    RAW,
    TRAIN,
    claimed,
    view,
)
from tests.unit.scripted_api import Raw


@dataclass(frozen=True)
class Refused:
    """A VMI that one rule alone refuses: with that rule taken out it is let in."""

    reason: Reason
    told: str
    vmi: Raw
    inputs: VmiInputs = field(default_factory=lambda: VmiInputs(HOSTER))


# One case for each rule of the chain, which that rule alone decides.
ALONE: dict[str, Refused] = {
    "disabled": Refused(
        Reason.DISABLED,
        "GPUs are switched off on this platform",
        vmi(ONE),
        VmiInputs(hoster(enabled=False)),
    ),
    "misspelt": Refused(
        Reason.MALFORMED,
        "metadata.annotations[gpu.cozystack.io/class]: not known, expected "
        "gpu.cozystack.io/classes or gpu.cozystack.io/claims",
        vmi(annotations={"gpu.cozystack.io/class": ONE}, claims='["train"]'),
        claimed(TRAIN),
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
        # Trouble 23: both spellings exist in the field, and KubeVirt compares letter by letter.
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


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        pytest.param("gpu.cozystack.io/class", "gpu.cozystack.io/class", id="one letter short"),
        pytest.param("gpu.cozystack.io/Classes", "gpu.cozystack.io/Classes", id="another case"),
        pytest.param("GPU.cozystack.io/classes", "GPU.cozystack.io/classes", id="in capitals"),
        pytest.param("gpu.cozystack.io/", "gpu.cozystack.io/", id="no name"),
        pytest.param("gpu.cozystack.io/a\nb\u202e", r"gpu.cozystack.io/a\nb\u202e", id="hidden"),
        # 60 characters of the key as JSON, its first quotation mark among them.
        pytest.param(f"gpu.cozystack.io/{'x' * 99}", f"gpu.cozystack.io/{'x' * 42}...", id="long"),
    ],
)
def test_a_key_of_our_prefix_that_says_nothing_is_named_and_refused(key: str, shown: str) -> None:
    asked = request(vmi(annotations={key: ONE}), kind=KIND)
    assert rules.Judged.of(asked) is not None
    got = rules.decide(asked, PLAIN)
    assert isinstance(got, Refuse)
    assert (got.reason, got.code) == ("Malformed", 422)
    assert got.message == (
        f"metadata.annotations[{shown}]: not known, expected gpu.cozystack.io/classes or "
        "gpu.cozystack.io/claims"
    )


def test_every_misspelt_key_is_told() -> None:
    keys = {"gpu.cozystack.io/claim": "x", "gpu.cozystack.io/class": "x"}
    got = rules.decide(request(vmi(ONE, annotations=keys), kind=KIND), PLAIN)
    assert isinstance(got, Refuse)
    assert [cause.field for cause in got.causes] == [
        "metadata.annotations[gpu.cozystack.io/claim]",
        "metadata.annotations[gpu.cozystack.io/class]",
    ]


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
        pytest.param(
            vmi(annotations={"gpu.cozystack.io": "x", "x.gpu.cozystack.io/classes": "x"}),
            "CREATE",
            id="a VMI with annotations of another prefix",
        ),
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
    assert rules.Judged.of(asked) is None
    unread = VmiInputs(hoster(enabled=False), unread=(Unread("everything", "down"),))
    assert rules.decide(asked, unread) == Allow()


def test_what_is_read_for_a_decision_is_named_before() -> None:
    thing = vmi(entries(("a100", 1), ("l40s", 2)), '["b","a"]', vm=("vm1", "vm-1"))
    judged = rules.Judged.of(request(thing, kind=KIND))
    assert judged is not None
    assert judged.needs() == VmiNeeds(("b", "a"), frozenset({"a100", "l40s"}), "vm1")


def test_nothing_depends_on_who_asks() -> None:
    for username in (TENANT, "system:admin"):
        got = rules.decide(request(vmi(CLOSING), kind=KIND, username=username), PLAIN)
        assert isinstance(got, Refuse)
