"""What becomes of an instance, from one look at it to the next."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object
from tests.kubevirt import instances
from tests.kubevirt.instances import Act, Failure, Sight
from tests.kubevirt.volumes import Disks
from tests.unit.kubevirt.given import GPU, MOMENT, NOW, conditions, gpus, instance, launcher

TEMPORARY = {"kubevirt.io/ephemeral-provisioning": "true"}
NOT_SCHEDULED = ("False", "PodNotExists", "virt-launcher pod has not yet been scheduled")
TERMINATING = ("False", "PodTerminating", "virt-launcher pod is terminating")
NOT_RUNNING = ("False", "GuestNotRunning", "Guest VM is not reported as running")
GATED = (
    "False",
    "SchedulingGated",
    "Scheduling is blocked due to non-empty scheduling gates",
)


def seen(
    vmi: Object,
    *pods: Object,
    attachments: tuple[Object, ...] = (),
    disks: Disks | None = None,
    permitted: frozenset[str] | None = None,
    has_machine: bool = True,
) -> Sight:
    """A sight in which all pods are listed already."""
    listed = frozenset(pod["metadata"]["uid"] for pod in pods)
    return Sight(vmi, pods, listed, attachments, disks or Disks(), permitted, has_machine)


def told(sight: Sight, failure: Failure | None = None) -> Object:
    return instances.told(sight, sight.pod, failure, NOW)


def outcome(sight: Sight, failure: Failure | None = None) -> str:
    return str(told(sight, failure)["status"]["phase"])


def test_a_new_instance_gets_its_pod() -> None:
    act = instances.act(seen(instance(phase="Pending", spec={"domain": gpus(GPU)})))
    assert act.create is not None
    assert act.create["metadata"]["generateName"] == "virt-launcher-train-"
    assert act.failure is None


def test_the_pass_that_makes_the_pod_says_scheduling_and_lists_no_pod_yet() -> None:
    """KubeVirt observed 13."""
    sight = seen(instance(phase="Pending"))
    got = instances.told(sight, launcher(gate=True), None, NOW)
    assert got["status"]["phase"] == "Scheduling"
    assert "activePods" not in got["status"]
    assert got["status"]["phaseTransitionTimestamps"] == [
        {"phase": "Scheduling", "phaseTransitionTimestamp": MOMENT}
    ]


def test_at_the_gate_it_is_scheduling_and_listed_without_a_node() -> None:
    """KubeVirt observed 11."""
    got = told(seen(instance(phase="Scheduling"), launcher(gate=True)))
    assert got["status"]["phase"] == "Scheduling"
    assert got["status"]["activePods"] == {"uid-of-virt-launcher-train-abcde": ""}
    assert "nodeName" not in got["status"]
    assert conditions(got) == {"Ready": NOT_RUNNING, "PodScheduled": GATED}
    assert instances.act(seen(got, launcher(gate=True))) == Act()


def test_a_pod_that_may_not_be_listed_yet_is_not() -> None:
    """KubeVirt observed 13."""
    sight = Sight(instance(phase="Scheduling"), (launcher(gate=True),))
    assert "activePods" not in told(sight)["status"]


def test_a_second_look_at_a_gated_pod_changes_nothing() -> None:
    """KubeVirt observed 12: no writes while it waits."""
    pod = launcher(gate=True, status={"conditions": [*launcher(gate=True)["status"]["conditions"]]})
    pod["status"]["conditions"].append(
        {"type": "kubevirt.io/virtual-machine-unpaused", "status": "True"}
    )
    vmi = told(seen(instance(phase="Scheduling"), pod))
    assert told(seen(vmi, pod)) == vmi
    assert instances.pod_patches(vmi, pod, NOW) == ()


def test_on_its_node_the_pod_is_listed_with_it_and_the_gate_is_forgotten() -> None:
    """KubeVirt observed 19: the phase stays until the containers run."""
    waiting = told(seen(instance(phase="Scheduling"), launcher(gate=True)))
    got = told(seen(waiting, launcher(node="gpu-a")))
    assert got["status"]["phase"] == "Scheduling"
    assert got["status"]["activePods"] == {"uid-of-virt-launcher-train-abcde": "gpu-a"}
    assert conditions(got) == {"Ready": NOT_RUNNING}


def test_pinned_to_a_node_that_does_not_take_it_it_still_says_gated() -> None:
    """KubeVirt observed 23."""
    waiting = told(seen(instance(phase="Scheduling"), launcher(gate=True)))
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available",
    }
    pod = launcher(status={"conditions": [unschedulable]})
    assert conditions(told(seen(waiting, pod)))["PodScheduled"] == GATED
    never_gated = told(seen(instance(phase="Scheduling"), pod))
    assert conditions(never_gated)["PodScheduled"] == (
        "False",
        "Unschedulable",
        "0/2 nodes are available",
    )


def test_once_its_containers_run_it_is_scheduled_on_that_node() -> None:
    """KubeVirt observed 24."""
    got = told(seen(instance(phase="Scheduling"), launcher(phase="Running", node="gpu-a")))
    assert got["status"]["phase"] == "Scheduled"
    assert got["status"]["nodeName"] == "gpu-a"
    assert got["metadata"]["labels"] == {"kubevirt.io/nodeName": "gpu-a"}


def test_a_running_guest_is_as_ready_as_its_pod() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": MOMENT}
    pod = launcher(phase="Running", node="gpu-a")
    pod["status"]["conditions"] = [ready]
    got = told(seen(instance(phase="Running", status={"nodeName": "gpu-a"}), pod))
    assert conditions(got) == {"Ready": ("True", "", "")}


REFUSED = {"reason": "OutOfnvidia.com/GPU", "message": "Pod was rejected"}


@pytest.mark.parametrize(
    ("phase", "pods", "want", "ready"),
    [
        pytest.param(
            "Scheduling",
            [launcher(phase="Failed", node="gpu-a", status=REFUSED)],
            "Failed",
            TERMINATING,
            id="refused by its node (KubeVirt observed 25)",
        ),
        pytest.param(
            "Scheduling",
            [launcher(gate=True, deletionTimestamp=MOMENT)],
            "Failed",
            TERMINATING,
            id="deleted at the gate (KubeVirt observed 27)",
        ),
        pytest.param(
            "Scheduling", [], "Failed", NOT_SCHEDULED, id="gone while scheduling (27 and 48)"
        ),
        pytest.param("Scheduled", [], "Failed", NOT_SCHEDULED, id="gone before the guest ran (27)"),
        pytest.param("Running", [], "Failed", NOT_SCHEDULED, id="gone while it ran (29)"),
        pytest.param(
            "Running",
            [launcher(phase="Failed", node="gpu-a")],
            "Running",
            TERMINATING,
            id="failed while it ran: virt-handler's to say (KubeVirt observed 30)",
        ),
        pytest.param(
            "Running",
            [launcher(phase="Running", node="gpu-a", deletionTimestamp=MOMENT)],
            "Running",
            TERMINATING,
            id="being deleted while it runs (KubeVirt observed 36)",
        ),
        pytest.param("Pending", [], "Pending", NOT_SCHEDULED, id="not made yet"),
    ],
)
def test_without_its_pod_an_instance_fails_whatever_took_it(
    phase: str, pods: list[Object], want: str, ready: tuple[str, str, str]
) -> None:
    sight = seen(instance(phase=phase), *pods)
    got = told(sight)
    assert got["status"]["phase"] == want
    assert conditions(got)["Ready"] == ready
    assert (instances.act(sight).create is not None) == (phase == "Pending")


def test_an_instance_that_failed_keeps_its_pod_in_the_list_and_gets_no_other() -> None:
    """KubeVirt observed 26: a standalone instance."""
    pod = launcher(phase="Failed", node="gpu-a", status=REFUSED)
    sight = seen(instance(phase="Failed"), pod, has_machine=False)
    assert instances.act(sight) == Act()
    got = told(sight)
    assert got["status"]["activePods"] == {"uid-of-virt-launcher-train-abcde": "gpu-a"}
    assert got["metadata"]["finalizers"] == ["kubevirt.io/foregroundDeleteVirtualMachine"]


def test_an_instance_that_is_deleted_deletes_its_pods_and_goes_after_them() -> None:
    going = instance(
        phase="Scheduling",
        deletionTimestamp=MOMENT,
        finalizers=[
            "kubevirt.io/virtualMachineControllerFinalize",
            "kubevirt.io/foregroundDeleteVirtualMachine",
        ],
    )
    pod = launcher(gate=True)
    assert instances.act(seen(going, pod)) == Act(delete=(pod,))
    gone = told(seen(going))
    assert gone["status"]["phase"] == "Failed"
    final = told(seen(gone))
    assert final["metadata"]["finalizers"] == ["kubevirt.io/virtualMachineControllerFinalize"]
    orphan = told(seen(gone, has_machine=False))
    assert "finalizers" not in orphan["metadata"]


def test_a_refused_pod_leaves_it_pending_with_the_refusal_and_is_tried_again() -> None:
    """KubeVirt observed 15: no failed start, the first message of a reason stays."""
    first = Failure("FailedCreate", "failed to create virtual machine pod: no")
    vmi = instance(phase="Pending")
    got = instances.told(seen(vmi), None, first, NOW)
    assert got["status"]["phase"] == "Pending"
    assert conditions(got) == {
        "Ready": NOT_SCHEDULED,
        "Synchronized": ("False", "FailedCreate", "failed to create virtual machine pod: no"),
    }
    again = Failure("FailedCreate", "failed to create virtual machine pod: still no")
    assert instances.told(seen(got), None, again, NOW) == got
    assert instances.act(seen(got)).create is not None
    made = instances.told(seen(got), launcher(gate=True), None, NOW)
    assert "Synchronized" not in conditions(made)


def test_a_device_that_is_not_permitted_leaves_it_pending_without_a_pod() -> None:
    """KubeVirt observed 9."""
    vmi = instance(phase="Pending", spec={"domain": gpus("nvidia.com/OTHER")})
    sight = seen(vmi, permitted=frozenset({"nvidia.com/A"}))
    act = instances.act(sight)
    assert act.create is None
    assert act.failure == Failure(
        "FailedCreate",
        "failed to render launch manifest: GPU nvidia.com/OTHER is not permitted in"
        " permittedHostDevices configuration",
    )
    assert outcome(sight, act.failure) == "Pending"


def test_a_stranger_that_poses_as_its_launcher_becomes_its_pod_and_is_listed() -> None:
    """KubeVirt observed 17."""
    own = launcher(gate=True, created="2026-03-01T11:59:00Z")
    stranger = launcher("stranger", node="gpu-b", created=MOMENT)
    waiting = told(seen(instance(phase="Scheduling"), own))
    sight = seen(waiting, own, stranger)
    got = told(sight)
    assert got["status"]["activePods"] == {
        "uid-of-virt-launcher-train-abcde": "",
        "uid-of-stranger": "gpu-b",
    }
    assert "PodScheduled" not in conditions(got), "the stranger counts, and it has a node"
    (unpaused,) = instances.pod_patches(got, sight.pod, NOW)
    assert unpaused.subresource == "status"
    assert conditions(told(seen(got, own)))["PodScheduled"] == GATED, "all is as before after it"


def test_while_it_moves_its_pod_is_the_one_on_its_node_though_the_other_is_newer() -> None:
    """KubeVirt observed 43 and 44."""
    source = launcher(phase="Running", node="gpu-a", created="2026-03-01T11:00:00Z")
    target = launcher("target", phase="Failed", node="gpu-b")
    sight = seen(instance(phase="Running", status={"nodeName": "gpu-a"}), source, target)
    assert sight.pod == source
    got = told(sight)
    assert got["status"]["phase"] == "Running"
    assert set(got["status"]["activePods"]) == {
        "uid-of-virt-launcher-train-abcde",
        "uid-of-target",
    }


class TestWritesToPods:
    """All that a pod sees of virt-controller between its creation and its deletion."""

    def test_soon_after_its_creation_a_pod_is_told_not_to_be_paused_even_at_the_gate(self) -> None:
        """KubeVirt observed 12."""
        (patch,) = instances.pod_patches(instance(phase="Pending"), launcher(gate=True), NOW)
        assert patch.subresource == "status"
        assert patch.content_type == "application/strategic-merge-patch+json"
        assert patch.patch == {
            "status": {
                "conditions": [
                    {
                        "type": "kubevirt.io/virtual-machine-unpaused",
                        "status": "True",
                        "reason": "NotPaused",
                        "message": "the virtual machine is not paused",
                        "lastProbeTime": MOMENT,
                        "lastTransitionTime": MOMENT,
                    }
                ]
            }
        }

    def test_once_it_runs_all_its_labels_are_replaced_by_those_with_the_node(self) -> None:
        """KubeVirt observed 12."""
        unpaused = {"type": "kubevirt.io/virtual-machine-unpaused", "status": "True"}
        pod = launcher(phase="Running", node="gpu-a", status={"conditions": [unpaused]})
        vmi = instance(phase="Scheduled", labels={"kubevirt.io/nodeName": "gpu-a"})
        (patch,) = instances.pod_patches(vmi, pod, NOW)
        old = {"kubevirt.io": "virt-launcher"}
        new = {"kubevirt.io": "virt-launcher", "kubevirt.io/nodeName": "gpu-a"}
        assert (patch.subresource, patch.content_type) == ("", "application/json-patch+json")
        assert patch.patch == [
            {"op": "test", "path": "/metadata/labels", "value": old},
            {"op": "replace", "path": "/metadata/labels", "value": new},
        ]

    def test_a_temporary_pod_is_left_alone(self) -> None:
        """KubeVirt observed 12 and 38."""
        pod = launcher(gate=True, annotations=TEMPORARY)
        assert instances.pod_patches(instance(phase="Pending"), pod, NOW) == ()


class TestLateBindingVolumes:
    """A data volume that waits for its first consumer."""

    WAITS = Disks(
        wait_for_consumer=True,
        data_volumes=({"metadata": {"name": "boot"}, "status": {"phase": "WaitForFirstConsumer"}},),
    )
    IMPORTS = Disks(
        ready=False,
        data_volumes=({"metadata": {"name": "boot"}, "status": {"phase": "ImportInProgress"}},),
    )
    READY = Disks(
        data_volumes=(
            {
                "metadata": {"name": "boot"},
                "status": {
                    "phase": "Succeeded",
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
        )
    )

    def test_it_asks_for_a_temporary_pod(self) -> None:
        """KubeVirt observed 38."""
        act = instances.act(seen(instance(phase="Pending"), disks=self.WAITS))
        assert act.create is not None
        annotations = act.create["metadata"]["annotations"]
        assert annotations["kubevirt.io/ephemeral-provisioning"] == "true"

    def test_with_one_the_instance_is_pending_provisioning_and_lists_it(self) -> None:
        """KubeVirt observed 38."""
        pod = launcher(gate=True, annotations=TEMPORARY)
        got = told(seen(instance(phase="Pending"), pod, disks=self.WAITS))
        assert got["status"]["phase"] == "Pending"
        assert got["status"]["activePods"] == {"uid-of-virt-launcher-train-abcde": ""}
        assert conditions(got) == {
            "Ready": NOT_SCHEDULED,
            "DataVolumesReady": (
                "Unknown",
                "NotAllDVsReady",
                "Not all of the VMI's DVs are ready",
            ),
            "Provisioning": ("True", "", ""),
            "PodScheduled": GATED,
        }

    @pytest.mark.parametrize("phase", ["Running", "Succeeded"])
    def test_it_stays_while_the_volume_still_waits(self, phase: str) -> None:
        """KubeVirt observed 39."""
        pod = launcher(phase=phase, node="gpu-a", annotations=TEMPORARY)
        assert instances.act(seen(instance(phase="Pending"), pod, disks=self.WAITS)) == Act()

    @pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
    def test_it_is_deleted_at_once_when_the_import_begins(self, phase: str) -> None:
        """KubeVirt observed 39."""
        pod = launcher(phase=phase, node="gpu-a", annotations=TEMPORARY)
        act = instances.act(seen(instance(phase="Pending"), pod, disks=self.IMPORTS))
        assert act == Act(delete=(pod,), at_once=True)

    def test_for_the_whole_import_there_is_no_pod_and_none_is_listed(self) -> None:
        """KubeVirt observed 39."""
        before = told(
            seen(
                instance(phase="Pending"),
                launcher(gate=True, annotations=TEMPORARY),
                disks=self.WAITS,
            )
        )
        sight = seen(before, disks=self.IMPORTS)
        assert instances.act(sight) == Act()
        got = told(sight)
        assert got["status"]["phase"] == "Pending"
        assert "activePods" not in got["status"]

    def test_after_the_import_a_launcher_comes(self) -> None:
        """KubeVirt observed 39."""
        sight = seen(instance(phase="Pending"), disks=self.READY)
        act = instances.act(sight)
        assert act.create is not None
        assert "kubevirt.io/ephemeral-provisioning" not in act.create["metadata"]["annotations"]
        got = instances.told(sight, launcher(gate=True), None, NOW)
        assert conditions(got)["DataVolumesReady"] == (
            "True",
            "AllDVsReady",
            "All of the VMI's DVs are bound and ready",
        )

    def test_one_that_still_waits_at_the_gate_is_waited_for_though_the_volume_is_ready(
        self,
    ) -> None:
        """KubeVirt observed 40."""
        pod = launcher(gate=True, annotations=TEMPORARY)
        assert instances.act(seen(instance(phase="Pending"), pod, disks=self.READY)) == Act()

    def test_one_that_is_deleted_while_the_volume_waits_fails_the_instance(self) -> None:
        """KubeVirt observed 41."""
        pod = launcher(gate=True, annotations=TEMPORARY, deletionTimestamp=MOMENT)
        assert outcome(seen(instance(phase="Pending"), pod, disks=self.WAITS)) == "Failed"

    def test_a_claim_that_is_missing_is_waited_for_and_its_text_stays(self) -> None:
        """KubeVirt observed 42."""
        vmi = instance(phase="Pending")
        sight = seen(vmi, disks=Disks(ready=False, missing="tenant-x/boot"))
        act = instances.act(sight)
        text = "PVC tenant-x/boot does not exist, waiting for it to appear"
        assert act == Act(failure=Failure("FailedPvcNotFound", text, informal=True))
        got = told(sight, act.failure)
        assert conditions(got)["Synchronized"] == ("False", "FailedPvcNotFound", text)
        assert conditions(got)["PodScheduled"] == ("False", "Unschedulable", text)
        later = told(
            seen({**got, "status": {**got["status"], "phase": "Scheduling"}}, launcher(gate=True))
        )
        assert conditions(later)["PodScheduled"] == ("False", "Unschedulable", text)


PLUGGED = {
    "volumes": [
        {"name": "root", "persistentVolumeClaim": {"claimName": "boot"}},
        {"name": "extra", "persistentVolumeClaim": {"claimName": "hot", "hotpluggable": True}},
    ]
}


class TestPluggedVolumes:
    """Hotplug: one pod carries what comes later."""

    def test_once_the_launcher_runs_an_attachment_follows_to_its_node(self) -> None:
        """KubeVirt observed 46."""
        vmi = instance(phase="Running", spec=PLUGGED, status={"nodeName": "gpu-a"})
        assert instances.act(seen(vmi, launcher(node="gpu-a"))) == Act(), "not before"
        running = launcher(phase="Running", node="gpu-a")
        act = instances.act(seen(vmi, running))
        assert act.create is not None
        assert act.create["metadata"]["generateName"] == "hp-volume-"
        there = act.create | {"metadata": {**act.create["metadata"], "uid": "uid-of-hp"}}
        assert instances.act(seen(vmi, running, attachments=(there,))) == Act()

    def test_an_attachment_whose_volume_is_unplugged_goes(self) -> None:
        vmi = instance(phase="Running", status={"nodeName": "gpu-a"})
        hp = launcher("hp-volume-x", phase="Running", node="gpu-a")
        running = launcher(phase="Running", node="gpu-a")
        assert instances.act(seen(vmi, running, attachments=(hp,))) == Act(delete=(hp,))


def test_an_instance_that_runs_is_patched_part_by_part_since_virt_handler_writes_it_too() -> None:
    old = instance(phase="Running", status={"activePods": {"a": "gpu-a"}}, labels={"app": "x"})
    new = instance(phase="Failed", labels={"app": "x"})
    assert instances.patch_of(old, new) == [
        {"op": "test", "path": "/status/activePods", "value": {"a": "gpu-a"}},
        {"op": "remove", "path": "/status/activePods"},
        {"op": "test", "path": "/status/phase", "value": "Running"},
        {"op": "replace", "path": "/status/phase", "value": "Failed"},
    ]


def test_while_a_migration_is_under_way_no_first_pod_is_made() -> None:
    act = instances.act(Sight(instance(phase="Pending"), is_migrating=True))
    assert act == Act(failure=Failure("FailedCreate", "active migration exists"))
