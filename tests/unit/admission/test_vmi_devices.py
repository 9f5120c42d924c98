"""Devices that a VM asks for beside its classes and claims (rule 6.1)."""

from __future__ import annotations

from dataclasses import replace

from admission.inputs import VmiInputs
from tests.unit.admission.building import (
    GA100,
    NIC,
    hoster,
    vmi,
)
from tests.unit.admission.vms import ONE, PLAIN, RAW, TRAIN, claimed, units, verdict
from tests.unit.scripted_api import Raw


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
    # Troubles 24 and 25: what stands in the table, or has the vendor's prefix, is no GPU for it.
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
