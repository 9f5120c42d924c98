"""The licence disk: there for the guest, and never in the way of its start (rule 6.1.6)."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission import vmi as rules
from admission.inputs import VmiInputs
from admission.review import Allow, Refuse
from shared.core.model import Claim, GpuClass
from tests.unit.admission.booting import boot
from tests.unit.admission.building import (
    HOSTER,
    VGPU,
    changed_by,
    entries,
    hoster,
    request,
    vmi,
)
from tests.unit.scripted_api import Raw

KIND = ("kubevirt.io", "VirtualMachineInstance")
PLAIN = VmiInputs(HOSTER)
ASKED = entries(("t4-1q", 1))

VOLUME = {
    "name": "gpu-license",
    "secret": {"secretName": "gpu-license-t4-1q", "volumeLabel": "GPULICENSE"},
}
ROOT = {"name": "root", "containerDisk": {"image": "registry.example/fedora:40"}}
DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "hotpluggable": True}}
AMD64 = {"architecture": "amd64"}


def admitted(thing: Raw, inputs: VmiInputs = PLAIN) -> Raw:
    return changed_by(rules.decide(request(thing, kind=KIND), inputs), thing)


def added(thing: Raw, inputs: VmiInputs = PLAIN) -> tuple[list[Raw], list[Raw]]:
    """The volumes and disks that admission added; what was there stands before them."""
    got, devices = admitted(thing, inputs), thing["spec"]["domain"]["devices"]
    volumes, disks = thing["spec"].get("volumes") or [], devices.get("disks") or []
    got_volumes, got_disks = got["spec"]["volumes"], got["spec"]["domain"]["devices"]["disks"]
    assert got_volumes[: len(volumes)] == volumes
    assert got_disks[: len(disks)] == disks
    return got_volumes[len(volumes) :], got_disks[len(disks) :]


def disk(target: str, bus: str, *, readonly: bool = True) -> Raw:
    how: Raw = {"bus": bus} | ({"readonly": True} if readonly else {})
    return {"name": "gpu-license", "serial": "GPULICENSE", target: how}


@pytest.mark.parametrize(
    ("devices", "spec", "want"),
    [
        pytest.param(
            {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]},
            {"volumes": [ROOT]},
            disk("disk", "virtio"),
            id="one disk without boot order",
        ),
        pytest.param(
            {
                "disks": [
                    {"name": "data", "disk": {"bus": "virtio"}},
                    {"name": "root", "disk": {"bus": "scsi"}, "bootOrder": 1},
                ]
            },
            {"volumes": [{"name": "data", "emptyDisk": {"capacity": "1Gi"}}, ROOT]},
            disk("disk", "virtio"),
            id="a boot order on the second",
        ),
        pytest.param({}, {}, disk("cdrom", "scsi"), id="no disks and volumes at all"),
        pytest.param(
            {"disks": None}, {"volumes": None}, disk("cdrom", "scsi"), id="disks and volumes null"
        ),
        pytest.param(
            {"disks": []}, {"volumes": []} | AMD64, disk("cdrom", "sata"), id="both empty"
        ),
        # KubeVirt adds a disk for this volume, after ours: ours must not be the first hard disk.
        pytest.param({}, {"volumes": [ROOT]} | AMD64, disk("cdrom", "sata"), id="a volume alone"),
        pytest.param(
            {"disks": [{"name": "root", "cdrom": {"bus": "scsi"}}]},
            {"volumes": [ROOT]} | AMD64,
            disk("cdrom", "scsi"),
            id="a CD-ROM alone, as for an installation",
        ),
        pytest.param(
            {"disks": [{"name": "root", "cdrom": {}}]},
            {"volumes": [ROOT], "architecture": "arm64"},
            disk("cdrom", "scsi"),
            id="a CD-ROM where there is no sata",
        ),
        pytest.param(
            {
                "disks": [
                    {"name": "iso", "cdrom": {"bus": "sata"}},
                    {"name": "root", "disk": {"bus": "scsi"}},
                ]
            },
            {"volumes": [{"name": "iso", "containerDisk": {"image": "x"}}, ROOT]},
            disk("disk", "scsi"),
            id="a CD-ROM before the disk",
        ),
        pytest.param(
            {"disks": [{"name": "root", "disk": {"bus": "sata"}}]},
            {"volumes": [ROOT]},
            disk("disk", "sata", readonly=False),
            id="sata, which KubeVirt does not take read-only",
        ),
        pytest.param(
            {"disks": [{"name": "root", "disk": {}}]},
            {"volumes": [ROOT]} | AMD64,
            disk("disk", "sata", readonly=False),
            id="no bus stated, on amd64",
        ),
        pytest.param(
            {"disks": [{"name": "root", "disk": {}}]},
            {"volumes": [ROOT], "architecture": "arm64"},
            disk("disk", "virtio"),
            id="no bus stated, elsewhere",
        ),
        pytest.param(
            {"disks": [{"name": "root"}]},
            {"volumes": [ROOT]},
            disk("disk", "virtio"),
            id="no target stated",
        ),
        pytest.param(
            {"disks": [{"name": "root", "lun": {"bus": "scsi"}, "disk": None}]},
            {"volumes": [ROOT]},
            disk("disk", "scsi"),
            id="a LUN",
        ),
        pytest.param(
            {"disks": [{"name": "data", "disk": {"bus": "virtio"}}]},
            {"volumes": [DATA]} | AMD64,
            disk("cdrom", "sata"),
            id="a disk that is plugged in later",
        ),
    ],
)
def test_the_disk_comes_last_without_boot_order_and_not_in_the_way(
    devices: Raw, spec: Raw, want: Raw
) -> None:
    assert added(vmi(ASKED, devices=devices, spec=spec)) == ([VOLUME], [want])


def test_a_claim_of_a_licensed_class_brings_the_disk_too() -> None:
    inputs = VmiInputs(HOSTER, claims={"c": Claim("tenant-a", "c", "t4-1q", 1)})
    volumes, _ = added(vmi(claims='["c"]'), inputs)
    assert volumes == [VOLUME]


def test_a_class_without_licence_brings_none() -> None:
    got = admitted(vmi(entries(("a100", 1))))
    assert "volumes" not in got["spec"]
    assert "disks" not in got["spec"]["domain"]["devices"]


def test_a_name_that_is_taken_is_not_taken_again() -> None:
    devices = {
        "disks": [{"name": "gpu-license", "disk": {"bus": "virtio"}}],
        "filesystems": [{"name": "gpu-license-2", "virtiofs": {}}],
    }
    volumes = [
        {"name": "gpu-license", "secret": {"secretName": "own"}},
        {"name": "gpu-license-2", "configMap": {"name": "x"}},
        {"name": "gpu-license-3", "emptyDisk": {"capacity": "1Gi"}},
    ]
    got_volumes, got_disks = added(vmi(ASKED, devices=devices, spec={"volumes": volumes}))
    assert [each["name"] for each in got_volumes] == ["gpu-license-4"]
    assert [each["name"] for each in got_disks] == ["gpu-license-4"]


def test_two_licences_are_two_disks_and_one_licence_of_two_classes_is_one() -> None:
    same = GpuClass("t4-8q", "nvidia.com/GRID_T4-8Q", license_secret="nvidia-license")
    other = GpuClass("amd", "amd.com/gpu_vf", license_secret="amd-license")
    inputs = VmiInputs(hoster(same, other, kubevirt=None))
    asked = entries(("amd", 1), ("t4-8q", 1), ("t4-1q", 1), ("t4-8q", 1))
    volumes, disks = added(vmi(asked), inputs)
    assert [(each["name"], each["secret"]["secretName"]) for each in volumes] == [
        ("gpu-license", "gpu-license-amd"),
        ("gpu-license-2", "gpu-license-t4-8q"),
    ]
    assert [each["name"] for each in disks] == ["gpu-license", "gpu-license-2"]


def test_names_fit_whatever_the_class_is_called() -> None:
    long = replace(VGPU, name="a" * 63, resource_name="n/a")
    volumes, _ = added(vmi(entries(("a" * 63, 1))), VmiInputs(hoster(long, kubevirt=None)))
    assert volumes[0]["secret"]["secretName"] == f"gpu-license-{'a' * 63}"
    assert len(volumes[0]["name"]) <= 63


@pytest.mark.parametrize(
    ("devices", "spec", "told"),
    [
        ({"disks": "all"}, {}, 'spec.domain.devices.disks: "all", expected a list'),
        ({}, {"volumes": {}}, "spec.volumes: an object, expected a list"),
    ],
)
def test_a_list_of_another_shape_is_refused_by_its_name(devices: Raw, spec: Raw, told: str) -> None:
    got = rules.decide(request(vmi(ASKED, devices=devices, spec=spec), kind=KIND), PLAIN)
    assert isinstance(got, Refuse)
    assert (got.reason, got.message) == ("Malformed", told)


BUSES = {
    "disk": (None, "virtio", "sata", "scsi", "usb"),
    "lun": (None, "virtio", "sata", "scsi"),
    "cdrom": (None, "sata", "scsi", "usb"),
}
"""Per target what KubeVirt takes; None is not stated."""


@st.composite
def layouts(draw: st.DrawFn) -> Raw:
    """VMIs with all sorts of disks: listed or not, in any order, with and without boot orders."""

    def yes() -> bool:
        return draw(st.booleans())

    architecture = draw(st.sampled_from((None, "amd64", "arm64", "s390x")))
    orders = draw(st.permutations(range(1, 9))) if yes() else []
    disks: list[Raw] = []
    volumes: list[Raw] = []
    filesystems: list[Raw] = []
    for number in range(draw(st.integers(0, 5))):
        name = f"d{number}"
        kind = draw(st.sampled_from(("disk", "disk", "cdrom", "lun", "nothing", "unlisted")))
        source: Raw = {"containerDisk": {"image": "x"}}
        if kind in {"disk", "lun"} and draw(st.integers(0, 4)) == 0:
            source = {"dataVolume": {"name": name, "hotpluggable": True}}
        volumes.append({"name": name, **source})
        if kind == "unlisted":
            if draw(st.integers(0, 4)) == 0:
                filesystems.append({"name": name, "virtiofs": {}})
            continue
        entry: Raw = {"name": name}
        if kind in BUSES:
            able = BUSES[kind]
            if architecture in {"arm64", "s390x"}:
                able = tuple(bus for bus in able if bus in {None, "virtio", "scsi"})
            bus = draw(st.sampled_from(able))
            entry[kind] = {} if bus is None else {"bus": bus}
        if orders and "hotpluggable" not in str(source) and yes():
            entry["bootOrder"] = orders[number]
        disks.append(entry)
    devices: Raw = {}
    if disks or yes():
        devices["disks"] = draw(st.permutations(disks)) or draw(st.sampled_from((None, [])))
    if filesystems:
        devices["filesystems"] = filesystems
    if yes():
        interface: Raw = {"name": "default", "bridge": {}}
        if orders and yes():
            interface["bootOrder"] = orders[7]
        devices["interfaces"] = [interface]
    spec: Raw = {}
    if volumes or yes():
        spec["volumes"] = draw(st.permutations(volumes)) or draw(st.sampled_from((None, [])))
    if architecture is not None:
        spec["architecture"] = architecture
    return vmi(entries(("t4-1q", 1), ("amd", 1)), devices=devices, spec=spec)


TWO = VmiInputs(hoster(GpuClass("amd", "amd.com/gpu_vf", license_secret="x"), kubevirt=None))


@settings(max_examples=600)
@given(layouts(), st.booleans())
def test_the_vm_boots_what_it_booted_before_whatever_its_disks(thing: Raw, by_bus: bool) -> None:
    before = copy.deepcopy(thing)
    after = admitted(thing, TWO)
    assert thing == before
    usual = {"amd64": ("sata",), None: ("sata", "virtio")}
    for bus in usual.get(thing["spec"].get("architecture"), ("virtio",)):
        want = boot(thing, usual_bus=bus, by_bus=by_bus)
        assert boot(after, usual_bus=bus, by_bus=by_bus) == want


@given(layouts())
def test_kubevirt_takes_the_disk(thing: Raw) -> None:
    volumes, disks = added(thing, TWO)
    assert [each["name"] for each in volumes] == [each["name"] for each in disks]
    names = [each["name"] for each in admitted(thing, TWO)["spec"]["volumes"]]
    assert len(names) == len(set(names))
    for each in disks:
        assert each["serial"] == "GPULICENSE"
        assert "bootOrder" not in each
        (target,) = each.keys() & {"disk", "cdrom", "lun"}
        bus, readonly = each[target]["bus"], each[target].get("readonly")
        assert (target, bus) != ("cdrom", "virtio")
        assert not (target == "disk" and bus == "sata" and readonly)
        if thing["spec"].get("architecture") in {"arm64", "s390x"}:
            assert bus in {"virtio", "scsi"}


@given(layouts())
def test_applied_twice_there_is_one_disk_a_licence(thing: Raw) -> None:
    once = admitted(thing, TWO)
    assert rules.decide(request(once, kind=KIND), TWO) == Allow()
