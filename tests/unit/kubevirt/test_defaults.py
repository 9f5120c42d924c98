"""What KubeVirt's mutating webhook fills in."""

from __future__ import annotations

import copy

import pytest

from tests.cluster.api import Object
from tests.kubevirt.defaults import with_defaults
from tests.unit.kubevirt.given import domain


def bare(**spec: object) -> Object:
    return {
        "metadata": {"name": "train", "namespace": "tenant-x"},
        "spec": {"domain": domain(), **spec},
    }


def test_a_new_instance_is_pending_and_cannot_go_before_its_pod() -> None:
    got = with_defaults(bare())
    assert got["status"] == {"phase": "Pending"}
    assert got["metadata"]["finalizers"] == ["kubevirt.io/foregroundDeleteVirtualMachine"]


def test_what_decides_about_nodes_is_filled_in() -> None:
    spec = with_defaults(bare())["spec"]
    assert spec["architecture"] == "amd64"
    assert spec["domain"]["machine"] == {"type": "q35"}
    assert spec["domain"]["cpu"] == {"cores": 2, "model": "host-model"}
    assert spec["domain"]["memory"] == {"guest": "2Gi", "maxGuest": "8Gi"}
    assert spec["evictionStrategy"] == "LiveMigrateIfPossible"


@pytest.mark.parametrize(
    ("disks", "volumes", "want"),
    [
        pytest.param(None, None, None, id="no volumes, no disks"),
        pytest.param(
            None,
            ["root"],
            [{"name": "root", "disk": {"bus": "sata"}}],
            id="a volume without a disk gets one of its name",
        ),
        pytest.param(
            [{"name": "root", "disk": {"bus": "virtio"}}],
            ["root", "licence"],
            [
                {"name": "root", "disk": {"bus": "virtio"}},
                {"name": "licence", "disk": {"bus": "sata"}},
            ],
            id="at the end",
        ),
        pytest.param(
            [{"name": "root"}],
            ["root"],
            [{"name": "root", "disk": {"bus": "sata"}}],
            id="a disk without a target becomes a SATA disk",
        ),
        pytest.param(
            [{"name": "root", "disk": {}, "bootOrder": 1}, {"name": "cd", "cdrom": {}}],
            ["root", "cd"],
            [
                {"name": "root", "disk": {"bus": "sata"}, "bootOrder": 1},
                {"name": "cd", "cdrom": {"bus": "sata"}},
            ],
            id="one without a bus too",
        ),
    ],
)
def test_each_volume_has_a_disk_and_each_disk_a_target(
    disks: list[Object] | None, volumes: list[str] | None, want: list[Object] | None
) -> None:
    vmi = bare()
    if disks is not None:
        vmi["spec"]["domain"]["devices"]["disks"] = disks
    if volumes is not None:
        vmi["spec"]["volumes"] = [{"name": name, "emptyDisk": {}} for name in volumes]
    assert with_defaults(vmi)["spec"]["domain"]["devices"].get("disks") == want


def test_what_was_said_stays_and_a_second_time_changes_nothing() -> None:
    vmi = bare(architecture="arm64", evictionStrategy="None")
    given = copy.deepcopy(vmi)
    got = with_defaults(vmi)
    assert vmi == given
    assert (got["spec"]["architecture"], got["spec"]["evictionStrategy"]) == ("arm64", "None")
    assert with_defaults(got) == got
