"""What an admitted VMI is changed to: entries and record, again and again the same (6.1.3)."""

from __future__ import annotations

import copy
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission import final
from admission import vmi as rules
from admission.inputs import FinalInputs, VmiInputs
from admission.review import Allow, Refuse
from shared.core.model import Claim, GpuClass
from tests.unit.admission.building import (
    A100,
    CLASSES,
    GA100,
    HOSTER,
    L40S,
    NIC,
    changed_by,
    entries,
    hoster,
    request,
    vmi,
)
from tests.unit.scripted_api import Raw

KIND = ("kubevirt.io", "VirtualMachineInstance")
PLAIN = VmiInputs(HOSTER)
RECORD = "gpu.cozystack.io/attachments"


def admitted(thing: Raw, inputs: VmiInputs = PLAIN) -> Raw:
    return changed_by(rules.decide(request(thing, kind=KIND), inputs), thing)


def gpus(thing: Raw) -> list[tuple[str, str]]:
    found = thing["spec"]["domain"]["devices"]["gpus"]
    assert all(entry.keys() == {"name", "deviceName"} for entry in found)
    return [(entry["name"], entry["deviceName"]) for entry in found]


def test_each_unit_is_an_entry_and_the_record_says_whose() -> None:
    thing = vmi(
        entries(("l40s", 2), ("a100", 1)),
        '["train","big"]',
        devices={"disks": [{"name": "root", "disk": {"bus": "virtio"}}]},
    )
    inputs = VmiInputs(
        HOSTER,
        claims={
            "train": Claim("tenant-a", "train", "a100", 2),
            "big": Claim("tenant-a", "big", "l40s", 1),
        },
    )
    decision = rules.decide(request(thing, kind=KIND), inputs)
    assert decision == Allow(
        (
            {
                "op": "add",
                "path": "/spec/domain/devices/gpus",
                "value": [
                    {"name": "claim-0-0", "deviceName": L40S},
                    {"name": "claim-1-0", "deviceName": GA100},
                    {"name": "claim-1-1", "deviceName": GA100},
                    {"name": "class-0-0", "deviceName": L40S},
                    {"name": "class-0-1", "deviceName": L40S},
                    {"name": "class-1-0", "deviceName": GA100},
                ],
            },
            {
                "op": "add",
                "path": "/metadata/annotations/gpu.cozystack.io~1attachments",
                "value": '[{"claim":"big","className":"l40s","resourceName":'
                '"nvidia.com/AD102GL_L40S","count":1},{"claim":"train","className":"a100",'
                '"resourceName":"nvidia.com/GA100_A100_PCIE_40GB","count":2},{"entry":0,'
                '"className":"l40s","resourceName":"nvidia.com/AD102GL_L40S","count":2},'
                '{"entry":1,"className":"a100","resourceName":"nvidia.com/GA100_A100_PCIE_40GB",'
                '"count":1}]',
            },
        )
    )


def test_two_entries_of_a_class_and_a_network_card_share_no_name() -> None:
    """Trouble 22. The order follows the annotation."""
    thing = vmi(
        entries(("l40s", 2), ("a100", 2), ("l40s", 1)),
        devices={
            "hostDevices": [
                {"name": "class-0-0", "deviceName": NIC},
                {"name": "class-0-0x", "deviceName": NIC},
            ]
        },
    )
    assert gpus(admitted(thing)) == [
        ("class-0-0xx", L40S),
        ("class-0-1", L40S),
        ("class-1-0", GA100),
        ("class-1-1", GA100),
        ("class-2-0", L40S),
    ]


def test_names_of_entries_are_such_as_libvirt_takes_whatever_the_class_is_called() -> None:
    """Trouble 28."""
    long = GpuClass("a" * 63, "nvidia.com/LONG")
    inputs = VmiInputs(hoster(long, kubevirt=None))
    names = [name for name, _ in gpus(admitted(vmi(entries(("a" * 63, 12))), inputs))]
    assert names == [f"class-0-{unit}" for unit in range(12)]
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) for name in names)


def test_a_bound_claim_keeps_the_resource_it_was_bound_with() -> None:
    held = Claim("tenant-a", "train", "a100", 1, resource_name=NIC, node_name="gpu-1")
    inputs = VmiInputs(HOSTER, claims={"train": held})
    assert gpus(admitted(vmi(claims='["train"]'), inputs)) == [("claim-0-0", NIC)]


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param("x", id="rubbish"),
        pytest.param(
            '[{"entry":0,"className":"a100","resourceName":"nvidia.com/X","count":1024}]',
            id="more units",
        ),
        pytest.param('[{"claim":"other","className":"a100","resourceName":"n/a","count":1}]'),
    ],
)
def test_a_record_that_comes_with_the_object_is_never_believed(forged: str) -> None:
    asked = entries(("a100", 1))
    got = admitted(vmi(asked, annotations={RECORD: forged}))
    assert got == admitted(vmi(asked))


def test_a_mark_that_comes_with_the_object_changes_nothing() -> None:
    """The pod webhook writes the right one onto each launcher."""
    asked = entries(("a100", 1))
    got = admitted(vmi(asked, annotations={"gpu.cozystack.io/launcher": "vmi-9"}))
    assert got["metadata"]["annotations"].pop("gpu.cozystack.io/launcher") == "vmi-9"
    assert got == admitted(vmi(asked))


class TestAgain:
    """Trouble 18: the API server may call once more, with what we made and others changed."""

    asked = vmi(entries(("a100", 2)))
    once = admitted(asked)

    def test_its_own_result_is_let_in_unchanged(self) -> None:
        assert rules.decide(request(self.once, kind=KIND), PLAIN) == Allow()

    def test_what_others_put_beside_our_entries_stays(self) -> None:
        thing = copy.deepcopy(self.once)
        thing["spec"]["domain"]["devices"]["gpus"][0]["tag"] = "x"
        assert rules.decide(request(thing, kind=KIND), PLAIN) == Allow()

    @pytest.mark.parametrize("without_record", [True, False])
    def test_one_entry_less_is_refused(self, without_record: bool) -> None:
        thing = copy.deepcopy(self.once)
        thing["spec"]["domain"]["devices"]["gpus"].pop()
        if without_record:
            del thing["metadata"]["annotations"][RECORD]
        got = rules.decide(request(thing, kind=KIND), PLAIN)
        assert isinstance(got, Refuse)
        assert got.reason == "MixedRequests"

    def test_one_entry_more_is_refused(self) -> None:
        thing = copy.deepcopy(self.once)
        thing["spec"]["domain"]["devices"]["gpus"].append({"name": "x", "deviceName": GA100})
        got = rules.decide(request(thing, kind=KIND), PLAIN)
        assert isinstance(got, Refuse)
        assert got.reason == "MixedRequests"

    def test_an_entry_that_became_a_device_claim_is_refused(self) -> None:
        thing = copy.deepcopy(self.once)
        thing["spec"]["domain"]["devices"]["gpus"][0]["claimName"] = "c"
        got = rules.decide(request(thing, kind=KIND), PLAIN)
        assert isinstance(got, Refuse)

    def test_after_a_change_of_the_class_all_entries_have_the_new_resource(self) -> None:
        renamed = VmiInputs(hoster(replace(A100, resource_name=NIC)))
        got = admitted(self.once, renamed)
        assert gpus(got) == [("class-0-0", NIC), ("class-0-1", NIC)]
        assert got == admitted(self.asked, renamed)

    def test_after_a_change_of_the_class_a_stranger_among_them_is_refused(self) -> None:
        thing = copy.deepcopy(self.once)
        thing["spec"]["domain"]["devices"]["gpus"][0]["deviceName"] = L40S
        renamed = VmiInputs(hoster(replace(A100, resource_name=NIC)))
        got = rules.decide(request(thing, kind=KIND), renamed)
        assert isinstance(got, Refuse)
        assert got.reason == "MixedRequests"


def test_a_forged_record_with_its_own_entries_gains_nothing() -> None:
    forged = json.dumps([{"entry": 0, "className": "a100", "resourceName": L40S, "count": 2}])
    devices = {"gpus": [{"name": f"class-0-{n}", "deviceName": L40S} for n in (0, 1)]}
    asked = entries(("a100", 1))
    thing = vmi(asked, annotations={RECORD: forged}, devices=devices)
    assert admitted(thing) == admitted(vmi(asked))


def test_a_review_is_patched_in_its_own_namespace_and_without_a_name() -> None:
    """Trouble 16: from generateName; no name of an object is part of a generated name."""
    got = admitted(vmi(entries(("a100", 1)), name=""))
    assert gpus(got) == [("class-0-0", GA100)]


counts = st.integers(min_value=1, max_value=6)
asked = st.lists(st.tuples(st.sampled_from(("a100", "l40s", "v100")), counts), max_size=5)
held = st.dictionaries(
    st.sampled_from(("c1", "c2", "c3")),
    st.builds(
        Claim,
        namespace=st.just("tenant-a"),
        name=st.just(""),
        class_name=st.sampled_from(("a100", "l40s", "t4-1q")),
        count=counts,
        resource_name=st.sampled_from(("", L40S)),
    ),
)
no_gpus: list[Raw] = [{}, {"gpus": None}, {"gpus": []}]


@given(asked, held, st.sampled_from(no_gpus), st.booleans())
def test_applied_twice_is_applied_once_and_nothing_else_is_touched(
    classes: list[tuple[str, int]],
    claims: dict[str, Claim],
    empty: Raw,
    named: bool,
) -> None:
    inputs = VmiInputs(
        hoster(replace(A100, max_count=None), replace(CLASSES["t4-1q"], license_secret="")),
        claims={name: replace(claim, name=name) for name, claim in claims.items()},
    )
    devices: Raw = {"interfaces": [{"name": "default", "bridge": {}}], **empty}
    if named:
        devices["hostDevices"] = [{"name": "class-0-0", "deviceName": NIC}]
    thing = vmi(
        entries(*classes) if classes else None,
        json.dumps(list(claims)) if claims else None,
        devices=devices,
        annotations={"kubevirt.io/vm-generation": "1"},
    )
    once = admitted(thing, inputs)
    again = rules.decide(request(once, kind=KIND), inputs)
    assert isinstance(again, Allow)
    assert again.patch == ()
    if classes or claims:
        number = sum(count for _, count in classes) + sum(claim.count for claim in claims.values())
        names = [name for name, _ in gpus(once)]
        assert len(names) == len(set(names)) == number
        assert not (named and "class-0-0" in names)
        final_word = final.decide(request(once, kind=KIND), FinalInputs(frozenset({GA100, L40S})))
        assert final_word == Allow()
        del once["spec"]["domain"]["devices"]["gpus"]
        del once["metadata"]["annotations"][RECORD]
    else:
        assert once == thing
    before = copy.deepcopy(thing)
    before["spec"]["domain"]["devices"].pop("gpus", None)
    once["spec"]["domain"]["devices"].pop("gpus", None)
    assert once == before
