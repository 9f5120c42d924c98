"""The last look at a VMI, after all webhooks have had their say (rules 6.1.3 and 6.1.4)."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from admission import final
from admission import vmi as rules
from admission.inputs import FinalInputs, VmiInputs
from admission.review import Allow, Refuse
from shared.core.cluster import ClusterState
from shared.core.model import Claim, Put, Settings
from shared.reasons import PRECEDENCE
from tests.unit.admission.building import (
    A100,
    GA100,
    HOSTER,
    L40S,
    NIC,
    PERMITTED,
    changed_by,
    entries,
    request,
    vmi,
)
from tests.unit.scripted_api import Raw

KIND = ("kubevirt.io", "VirtualMachineInstance")
KNOWN = FinalInputs(frozenset({GA100, L40S}))
RECORD = "gpu.cozystack.io/attachments"

ASKED = vmi(entries(("a100", 2)), '["train"]')
INPUTS = VmiInputs(HOSTER, claims={"train": Claim("tenant-a", "train", "l40s", 1)})
ADMITTED = changed_by(rules.decide(request(ASKED, kind=KIND), INPUTS), ASKED)

Change = Callable[[Raw], Any]
"""What somebody does to the object after us."""


def judged(change: Change, chain: Any = final.CHAIN) -> object:  # noqa: ANN401 - part of the chain
    thing = copy.deepcopy(ADMITTED)
    change(thing)
    return final.decide(request(thing, kind=KIND), KNOWN, chain)


def notes(thing: Raw) -> Raw:
    found: Raw = thing["metadata"]["annotations"]
    return found


def gpus(thing: Raw) -> list[Raw]:
    found: list[Raw] = thing["spec"]["domain"]["devices"]["gpus"]
    return found


def set_annotation(name: str, value: str) -> Change:
    return lambda thing: notes(thing).update({name: value})


def test_what_we_admitted_is_let_in() -> None:
    assert judged(lambda _: None) == Allow()


def test_what_kubevirt_adds_changes_nothing() -> None:
    def defaults(thing: Raw) -> None:
        thing["metadata"]["finalizers"] = ["foregroundDeleteVirtualMachine"]
        thing["spec"]["domain"] |= {"cpu": {"model": "host-model"}, "machine": {"type": "q35"}}
        thing["spec"]["domain"]["resources"] = {"requests": {"memory": "8Gi"}}
        thing["spec"]["domain"]["devices"]["hostDevices"] = [{"name": "n", "deviceName": NIC}]
        gpus(thing)[0]["virtualGPUOptions"] = {"display": {"enabled": True}}

    assert judged(defaults) == Allow()


OTHER = json.dumps([{"entry": 0, "className": "a100", "resourceName": GA100, "count": 3}])

# For each rule a case that it alone decides.
ALONE: dict[str, tuple[Change, str, str]] = {
    "misspelt": (
        set_annotation("gpu.cozystack.io/class", "x"),
        "Malformed",
        (
            "metadata.annotations[gpu.cozystack.io/class]: not known, expected "
            "gpu.cozystack.io/classes or gpu.cozystack.io/claims"
        ),
    ),
    "record_malformed": (
        lambda thing: notes(thing).pop(RECORD),
        "Malformed",
        (
            f"metadata.annotations[{RECORD}]: missing, expected what the mutating webhook "
            "vmis.gpu.cozystack.io writes: it is not installed, or another webhook took it out"
        ),
    ),
    "record_differs": (
        set_annotation("gpu.cozystack.io/classes", entries(("a100", 8))),
        "Malformed",
        (
            f"metadata.annotations[{RECORD}]: a record of other claims or classes, expected the "
            "record that admission wrote"
        ),
    ),
    "entries_differ": (
        lambda thing: gpus(thing).append({"name": "g", "deviceName": GA100}),
        "MixedRequests",
        (
            "spec.domain.devices.gpus: the list is not the 3 units that admission wrote, beside "
            "the class entries or claims of the VM: leave one of them out"
        ),
    ),
    "hidden_requests": (
        lambda thing: thing["spec"]["domain"].update(
            {"resources": {"requests": {GA100: "1"}, "limits": {GA100: "1"}}}
        ),
        "MixedRequests",
        (
            f'spec.domain.resources.requests[{GA100}]: this asks for the GPU "{GA100}", beside the '
            f"class entries or claims of the VM: leave one of them out; "
            f'spec.domain.resources.limits[{GA100}]: this asks for the GPU "{GA100}", beside the '
            "class entries or claims of the VM: leave one of them out"
        ),
    ),
}


def test_the_chain_stands_in_the_order_of_precedence_with_a_case_for_each_rule() -> None:
    assert [rule.__name__ for _, rule in final.CHAIN] == list(ALONE)
    ranks = [PRECEDENCE[reason] for reason, _ in final.CHAIN]
    assert ranks == sorted(ranks)


@pytest.mark.parametrize("rule", ALONE)
def test_each_rule_refuses_and_without_it_the_case_is_let_in(rule: str) -> None:
    change, reason, told = ALONE[rule]
    got = judged(change)
    assert isinstance(got, Refuse)
    assert (got.reason, got.message) == (reason, told)
    chain = tuple(each for each in final.CHAIN if each[1].__name__ != rule)
    assert judged(change, chain) == Allow()


def test_an_annotation_that_cannot_be_read_any_more_is_told_with_its_place() -> None:
    got = judged(set_annotation("gpu.cozystack.io/classes", '[{"className": "a100", "count": 0}]'))
    assert isinstance(got, Refuse)
    assert [cause.field for cause in got.causes] == [
        "metadata.annotations[gpu.cozystack.io/classes][0].count"
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(lambda thing: gpus(thing).pop(), "MixedRequests", id="an entry taken away"),
        pytest.param(lambda thing: gpus(thing).clear(), "MixedRequests", id="all taken away"),
        pytest.param(
            lambda thing: thing["spec"]["domain"].pop("devices"), "MixedRequests", id="no devices"
        ),
        pytest.param(
            lambda thing: gpus(thing)[0].update(deviceName=GA100), "MixedRequests", id="renamed"
        ),
        pytest.param(
            lambda thing: gpus(thing)[0].update(claimName="c"), "MixedRequests", id="by claim"
        ),
        pytest.param(lambda thing: gpus(thing).reverse(), "MixedRequests", id="in another order"),
        pytest.param(
            lambda thing: thing["spec"]["domain"]["devices"].update(
                hostDevices=[{"name": "x", "deviceName": L40S}]
            ),
            "MixedRequests",
            id="a GPU under hostDevices",
        ),
        pytest.param(
            lambda thing: thing["spec"].update(resourceClaims=[{"name": "c"}]),
            "MixedRequests",
            id="a device claim",
        ),
        pytest.param(set_annotation(RECORD, OTHER), "Malformed", id="another record"),
        pytest.param(set_annotation(RECORD, "[]"), "Malformed", id="an empty record"),
        pytest.param(
            set_annotation("gpu.cozystack.io/claims", '["other"]'), "Malformed", id="other claims"
        ),
        pytest.param(
            set_annotation("gpu.cozystack.io/claims", '["train"'), "Malformed", id="no JSON"
        ),
        pytest.param(
            lambda thing: notes(thing).pop("gpu.cozystack.io/claims"),
            "Malformed",
            id="claims taken away",
        ),
        pytest.param(
            lambda thing: [
                notes(thing).pop(f"gpu.cozystack.io/{name}") for name in ("claims", "classes")
            ],
            "Malformed",
            id="everything asked for taken away",
        ),
        pytest.param(
            lambda thing: thing["metadata"].update(
                annotations={"gpu.cozystack.io/launcher": "vmi-1"}
            ),
            "Malformed",
            id="a mark alone",
        ),
    ],
)
def test_what_differs_from_what_was_admitted_is_refused(change: Change, reason: str) -> None:
    got = judged(change)
    assert isinstance(got, Refuse)
    assert got.reason == reason


def test_a_resource_that_only_the_record_names_counts_as_a_gpu() -> None:
    """The class may have another resource by now, and the informer no name for the old one."""
    got = final.decide(
        request(
            changed_by(
                Allow(
                    (
                        {
                            "op": "add",
                            "path": "/spec/domain/resources",
                            "value": {"limits": {GA100: "1"}},
                        },
                    )
                ),
                ADMITTED,
            ),
            kind=KIND,
        ),
        FinalInputs(),
    )
    assert isinstance(got, Refuse)


@pytest.mark.parametrize(
    ("thing", "operation"),
    [
        pytest.param(vmi(devices={"gpus": [{"name": "x", "deviceName": GA100}]}), "CREATE"),
        pytest.param({"metadata": {}}, "CREATE", id="nothing at all"),
        pytest.param(vmi("rubbish"), "UPDATE", id="an update"),
        pytest.param(None, "DELETE", id="a deletion"),
    ],
)
def test_what_is_none_of_ours_is_let_in(thing: Raw | None, operation: str) -> None:
    assert final.decide(request(thing, kind=KIND, operation=operation), KNOWN) == Allow()


def test_the_names_are_those_of_the_state() -> None:
    state = ClusterState()
    for each in (A100, PERMITTED, Settings(resource_names=frozenset({"nvidia.com/gpu"}))):
        state.apply(Put(each))
    assert FinalInputs.of(state).gpu_names == {
        GA100,
        "nvidia.com/GRID_T4-1Q",
        "nvidia.com/GRID_T4-8Q",
        "nvidia.com/gpu",
    }
