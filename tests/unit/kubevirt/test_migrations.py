"""A migration from the wish to the instance's new node, and how it fails."""

from __future__ import annotations

import datetime

import pytest

from tests.cluster.api import Object
from tests.kubevirt import guests, migrations
from tests.kubevirt.migrations import Act, Sight
from tests.unit.kubevirt.given import MOMENT, NOW, instance, launcher

JOB = {"kubevirt.io": "virt-launcher", "kubevirt.io/migrationJobUID": "uid-of-move"}
SOURCE = launcher(phase="Running", node="gpu-a")
RUNNING = instance(
    phase="Running",
    status={"nodeName": "gpu-a"},
    labels={"kubevirt.io/nodeName": "gpu-a"},
)
TOLD = {
    "migrationUid": "uid-of-move",
    "sourceNode": "gpu-a",
    "sourcePod": "virt-launcher-train-abcde",
    "targetNode": "gpu-b",
    "targetPod": "target",
}


def migration(phase: str = "", **metadata: object) -> Object:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceMigration",
        "metadata": {
            "name": "move",
            "namespace": "tenant-x",
            "uid": "uid-of-move",
            "finalizers": ["kubevirt.io/migrationJobFinalize"],
            **metadata,
        },
        "spec": {"vmiName": "train"},
        **({"status": {"phase": phase}} if phase else {}),
    }


def target(
    phase: str = "Pending",
    *,
    gate: bool = False,
    status: Object | None = None,
    going: bool = False,
) -> Object:
    node = "gpu-b" if phase == "Running" else ""
    pod = launcher("target", phase=phase, node=node, gate=gate, status=status, labels=JOB)
    if going:
        pod["metadata"]["deletionTimestamp"] = MOMENT
    return pod


def migrating(state: Object) -> Object:
    return instance(
        phase="Running",
        status={"nodeName": "gpu-a", "migrationState": state},
        labels={"kubevirt.io/nodeName": "gpu-a"},
    )


def phase(sight: Sight, now: datetime.datetime = NOW) -> str:
    return str(migrations.told(sight, now)["status"]["phase"])


def test_it_first_gets_its_finalizer_and_the_label_of_its_instance() -> None:
    got = migrations.told(Sight(migration(finalizers=[]), RUNNING, SOURCE), NOW)
    assert got["metadata"]["finalizers"] == ["kubevirt.io/migrationJobFinalize"]
    assert got["metadata"]["labels"] == {"kubevirt.io/vmi-name": "train"}


def test_of_a_running_instance_it_makes_the_targets_pod() -> None:
    """KubeVirt observed 43."""
    act = migrations.act(Sight(migration("Pending"), RUNNING, SOURCE), NOW)
    assert act.create is not None
    assert act.create["metadata"]["labels"]["kubevirt.io/migrationJobUID"] == "uid-of-move"


@pytest.mark.parametrize(
    "sight",
    [
        pytest.param(
            Sight(migration("Pending"), instance(phase="Scheduling")), id="it does not run yet"
        ),
        pytest.param(Sight(migration("Pending"), RUNNING, SOURCE, others=True), id="another moves"),
        pytest.param(
            Sight(migration("Pending"), RUNNING, SOURCE, target=target()), id="one is there"
        ),
        pytest.param(Sight(migration("Pending")), id="there is no instance"),
    ],
)
def test_otherwise_it_makes_none(sight: Sight) -> None:
    assert migrations.act(sight, NOW).create is None


def test_from_its_pod_on_it_goes_through_its_phases() -> None:
    """KubeVirt observed 43, and what both nodes' virt-handlers tell of it."""
    ready = target("Running")
    state: Object = {}
    seen = ["Pending"]
    for pod, more in (
        (target(), {}),
        (ready, {}),
        (ready, TOLD),
        (ready, {"targetNodeAddress": "127.0.0.1"}),
        (ready, {"startTimestamp": MOMENT}),
        (ready, {"endTimestamp": MOMENT, "completed": True}),
    ):
        state |= more
        seen.append(phase(Sight(migration(seen[-1]), migrating(dict(state)), SOURCE, None, pod)))
    assert seen == [
        "Pending",
        "Scheduling",
        "Scheduled",
        "PreparingTarget",
        "TargetReady",
        "Running",
        "Succeeded",
    ]


def test_what_the_instance_says_of_an_earlier_migration_is_not_about_this_one() -> None:
    earlier = migrating(TOLD | {"migrationUid": "uid-of-earlier", "completed": True})
    sight = Sight(migration("Scheduled"), earlier, SOURCE, None, target("Running"))
    assert phase(sight) == "Scheduled"
    assert migrations.act(sight, NOW).patch[-1]["op"] == "replace"


def test_once_the_target_runs_the_instance_is_told_where_it_goes() -> None:
    sight = Sight(migration("Scheduled"), RUNNING, SOURCE, None, target("Running"))
    assert migrations.act(sight, NOW).patch == (
        {"op": "add", "path": "/status/migrationState", "value": TOLD},
        {"op": "test", "path": "/metadata/labels", "value": {"kubevirt.io/nodeName": "gpu-a"}},
        {
            "op": "replace",
            "path": "/metadata/labels",
            "value": {
                "kubevirt.io/nodeName": "gpu-a",
                "kubevirt.io/migrationTargetNodeName": "gpu-b",
            },
        },
    )


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(target("Failed"), id="refused by its node"),
        pytest.param(target(going=True), id="being deleted"),
        pytest.param(None, id="gone"),
    ],
)
def test_a_target_that_is_lost_fails_it_and_nothing_is_deleted(pod: Object | None) -> None:
    """KubeVirt observed 44: the failed pod stays."""
    sight = Sight(migration("Scheduling"), RUNNING, SOURCE, None, pod)
    assert migrations.act(sight, NOW) == Act(
        event="Migration failed because target pod shutdown during migration"
    )
    assert phase(sight) == "Failed"


@pytest.mark.parametrize(
    ("pod", "annotations", "seconds"),
    [
        pytest.param(target(gate=True), {}, 900, id="at a gate"),
        pytest.param(
            target(
                status={
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                    ]
                }
            ),
            {},
            300,
            id="nowhere to go",
        ),
        pytest.param(
            target(gate=True),
            {"kubevirt.io/migrationPendingPodTimeoutSeconds": "20"},
            20,
            id="as an annotation says",
        ),
    ],
)
def test_a_target_that_is_pending_for_too_long_is_deleted_and_fails_it(
    pod: Object, annotations: dict[str, str], seconds: int
) -> None:
    """KubeVirt observed 45."""
    sight = Sight(migration("Scheduling", annotations=annotations), RUNNING, SOURCE, None, pod)
    due = NOW + datetime.timedelta(seconds=seconds)
    early = due - datetime.timedelta(seconds=1)
    assert migrations.act(sight, early) == Act(wait=due)
    assert phase(sight, early) == "Scheduling"
    assert migrations.act(sight, due) == Act(
        delete=pod, event="pending pod tenant-x/target timeout period exceeded"
    )
    assert phase(sight, due) == "Failed"


def test_a_timeout_can_be_sped_up() -> None:
    sight = Sight(migration("Scheduling"), RUNNING, SOURCE, None, target(gate=True))
    assert migrations.act(sight, NOW, speed=100).wait == NOW + datetime.timedelta(seconds=9)


def test_it_fails_when_its_instance_ended_and_lets_go_once_it_is_final() -> None:
    ended = Sight(migration("Running"), instance(phase="Failed"), None, None, target("Running"))
    assert phase(ended) == "Failed"
    final = migrations.told(Sight(migration("Failed"), RUNNING, SOURCE), NOW)
    assert "finalizers" not in final["metadata"]


class TestOnTheNodes:
    """Virt-handler's part, and the kubelet's at the end."""

    TAKES = datetime.timedelta(seconds=20)

    def patch(self, vmi: Object, now: datetime.datetime = NOW) -> guests.Act:
        return guests.act(vmi, (SOURCE, target("Running")), now, self.TAKES)

    def test_the_target_gets_ready_then_the_source_begins(self) -> None:
        first = self.patch(migrating(TOLD)).patch
        assert first[-1]["value"] == TOLD | {"targetNodeAddress": "127.0.0.1"}
        ready = TOLD | {"targetNodeAddress": "127.0.0.1"}
        assert self.patch(migrating(ready)).patch[-1]["value"] == ready | {"startTimestamp": MOMENT}

    def test_after_its_time_the_instance_is_on_the_targets_node(self) -> None:
        state = TOLD | {"targetNodeAddress": "127.0.0.1", "startTimestamp": MOMENT}
        assert self.patch(migrating(state)) == guests.Act(wait=NOW + self.TAKES)
        done = self.patch(migrating(state), NOW + self.TAKES).patch
        values = {each["path"]: each["value"] for each in done if each["op"] == "replace"}
        assert values["/status/nodeName"] == "gpu-b"
        assert values["/metadata/labels"] == {"kubevirt.io/nodeName": "gpu-b"}
        assert values["/status/migrationState"]["completed"] is True

    def test_the_sources_pod_then_succeeds(self) -> None:
        vmi = migrating(TOLD | {"completed": True})
        vmi["status"]["nodeName"] = "gpu-b"
        assert self.patch(vmi) == guests.Act(ended=SOURCE)

    def test_a_guest_runs_as_soon_as_its_pod_does(self) -> None:
        """KubeVirt observed 24."""
        vmi = instance(phase="Scheduled", status={"nodeName": "gpu-a"})
        got = guests.act(vmi, (SOURCE,), NOW, self.TAKES).patch
        assert {"op": "replace", "path": "/status/phase", "value": "Running"} in got
        stamps = [each["value"] for each in got if each["path"].endswith("Timestamps")]
        assert stamps == [[{"phase": "Running", "phaseTransitionTimestamp": MOMENT}]]

    @pytest.mark.parametrize(("ended", "want"), [("Failed", "Failed"), ("Succeeded", "Succeeded")])
    def test_an_instance_ends_as_its_pod_did(self, ended: str, want: str) -> None:
        """KubeVirt observed 30: it is virt-handler who says so."""
        vmi = instance(phase="Running", status={"nodeName": "gpu-a"})
        pod = launcher(phase=ended, node="gpu-a")
        got = guests.act(vmi, (pod,), NOW, self.TAKES).patch
        assert {"op": "replace", "path": "/status/phase", "value": want} in got
