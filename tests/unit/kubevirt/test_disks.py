"""Claims and imports behind an instance's volumes."""

from __future__ import annotations

import datetime

import pytest

from tests.cluster.api import Object
from tests.kubevirt import imports
from tests.kubevirt.volumes import Disks, disks_of
from tests.unit.kubevirt.given import MOMENT, NOW, instance

VMI = instance(spec={"volumes": [{"name": "root", "dataVolume": {"name": "boot"}}]})
TAKES = datetime.timedelta(seconds=60)


def data_volume(phase: str = "", conditions: list[Object] | None = None) -> Object:
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"name": "boot", "namespace": "tenant-x", "uid": "uid-of-boot"},
        "spec": {
            "storage": {"storageClassName": "local", "resources": {"requests": {"storage": "5Gi"}}}
        },
        **({"status": {"phase": phase, "conditions": conditions or []}} if phase else {}),
    }


def claim(phase: str = "Pending", *, imported: bool = True) -> Object:
    owner = {"kind": "DataVolume", "name": "boot", "uid": "uid-of-boot", "controller": True}
    return {
        "metadata": {"name": "boot", **({"ownerReferences": [owner]} if imported else {})},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("phase", "ready", "waits"),
    [
        pytest.param("WaitForFirstConsumer", True, True, id="waits for a consumer (observed 38)"),
        pytest.param("ImportInProgress", False, False, id="is imported (observed 39)"),
        pytest.param("Succeeded", True, False, id="is imported by now (observed 39)"),
        pytest.param("PendingPopulation", True, False, id="is filled by its driver (observed 42)"),
        pytest.param("Pending", False, False, id="is not begun"),
    ],
)
def test_a_data_volume_lets_an_instance_start_or_not(phase: str, ready: bool, waits: bool) -> None:
    source = data_volume(phase)
    got = disks_of(VMI, {"boot": claim()}, {"boot": source})
    assert got == Disks(ready, waits, "", (source,))


def test_a_claim_of_its_own_counts_as_ready_even_unbound() -> None:
    """KubeVirt observed 42."""
    vmi = instance(
        spec={"volumes": [{"name": "root", "persistentVolumeClaim": {"claimName": "boot"}}]}
    )
    assert disks_of(vmi, {"boot": claim(imported=False)}, {}) == Disks()


def test_a_claim_that_does_not_exist_is_named() -> None:
    """KubeVirt observed 42."""
    got = disks_of(VMI, {}, {})
    assert (got.ready, got.missing) == (False, "tenant-x/boot")


def test_volumes_without_claims_never_hold_anything_up() -> None:
    vmi = instance(spec={"volumes": [{"name": "a", "containerDisk": {"image": "x"}}]})
    assert disks_of(vmi, {}, {}) == Disks()


class TestImports:
    """The importer's part."""

    def test_a_claim_is_made_with_what_the_data_volume_wants(self) -> None:
        made = imports.act(data_volume(), None, False, NOW, TAKES).create
        assert made is not None
        assert made["metadata"]["name"] == "boot"
        assert made["metadata"]["ownerReferences"][0]["uid"] == "uid-of-boot"
        assert made["spec"] == {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "5Gi"}},
        }

    @pytest.mark.parametrize(("late", "want"), [(True, "WaitForFirstConsumer"), (False, "Pending")])
    def test_while_the_claim_is_unbound_it_waits_for_whoever_binds_it(
        self, late: bool, want: str
    ) -> None:
        """KubeVirt observed 38."""
        status = imports.act(data_volume(), claim(), late, NOW, TAKES).status
        assert status is not None
        assert status["phase"] == want
        waiting = data_volume(want, status["conditions"])
        assert imports.act(waiting, claim(), late, NOW, TAKES) == imports.Act()

    def test_once_it_is_bound_the_import_takes_its_time_and_succeeds(self) -> None:
        """KubeVirt observed 39."""
        waiting = data_volume("WaitForFirstConsumer")
        status = imports.act(waiting, claim("Bound"), True, NOW, TAKES).status
        assert status is not None
        assert status["phase"] == "ImportInProgress"
        running = {**waiting, "status": status}
        assert imports.act(running, claim("Bound"), True, NOW, TAKES).wait == NOW + TAKES
        done = imports.act(running, claim("Bound"), True, NOW + TAKES, TAKES).status
        assert done is not None
        assert done["phase"] == "Succeeded"
        states = {each["type"]: each["status"] for each in done["conditions"]}
        assert states == {"Bound": "True", "Ready": "True"}
        bound = next(each for each in done["conditions"] if each["type"] == "Bound")
        assert bound["lastTransitionTime"] == MOMENT
