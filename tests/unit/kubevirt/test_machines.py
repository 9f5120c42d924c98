"""When a machine starts, stops and starts again."""

from __future__ import annotations

import dataclasses
import datetime
import random

import pytest

from tests.cluster.api import Object
from tests.kubevirt import machines
from tests.kubevirt.instances import Failure
from tests.kubevirt.machines import Act, Sight
from tests.unit.kubevirt.given import GPU, MOMENT, NOW, conditions, gpus, instance, machine

FAILURE = {
    "consecutiveFailCount": 1,
    "lastFailedVMIUID": "uid-of-train",
    "retryAfterTimestamp": "2026-03-01T12:00:10Z",
}
RAN = {"phaseTransitionTimestamps": [{"phase": "Running", "phaseTransitionTimestamp": MOMENT}]}
STRATEGIES = ("Always", "RerunOnFailure", "Manual", "Once", "Halted")


def act(vm: Object, vmi: Object | None = None, now: datetime.datetime = NOW) -> Act:
    return machines.act(Sight(vm, vmi), now)


def told(
    vm: Object,
    vmi: Object | None = None,
    *,
    failure: Failure | None = None,
    started: bool = False,
    started_as: Object | None = None,
) -> Object:
    sight = Sight(vm, vmi, started_as=started_as)
    status = machines.told(sight, started, failure, NOW, random.Random(1))
    return {**vm, "status": status}


@pytest.mark.parametrize(
    ("strategy", "starts"),
    [
        ("Always", True),
        ("RerunOnFailure", True),
        ("Once", True),
        ("Manual", False),
        ("Halted", False),
    ],
)
def test_a_new_machine_starts_by_its_strategy(strategy: str, starts: bool) -> None:
    assert (act(machine(strategy)).start is not None) == starts


@pytest.mark.parametrize(("running", "want"), [(True, "Always"), (False, "Halted")])
def test_the_older_field_running_is_a_strategy_too(running: bool, want: str) -> None:
    assert machines.strategy_of({"spec": {"running": running}}) == want


def test_the_instance_has_the_machines_name_and_the_templates_metadata_only() -> None:
    vm = machine(labels={"vm": "label"}, annotations={"vm": "annotation"}, generation=3)
    vm["spec"]["template"]["metadata"] = {
        "labels": {"app": "train"},
        "annotations": {"gpu.cozystack.io/claims": '["a"]'},
    }
    assert act(vm).start == {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {
            "name": "train",
            "namespace": "tenant-x",
            "labels": {"app": "train"},
            "annotations": {
                "gpu.cozystack.io/claims": '["a"]',
                "kubevirt.io/vm-generation": "3",
            },
            "finalizers": ["kubevirt.io/virtualMachineControllerFinalize"],
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachine",
                    "name": "train",
                    "uid": "uid-of-machine",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"domain": gpus(GPU)},
        "status": {"virtualMachineRevisionName": "revision-start-vm-uid-of-machine-3"},
    }


def test_a_machine_seen_for_the_first_time_gets_its_finalizer_first() -> None:
    assert act(machine(finalizers=[])) == Act(
        finalizers=("kubevirt.io/virtualMachineControllerFinalize",)
    )


def test_a_machine_that_is_deleted_takes_its_instance_along_and_goes_after_it() -> None:
    vm = machine(deletionTimestamp=MOMENT)
    assert act(vm, instance(phase="Running")) == Act(stop=True)
    assert act(vm, instance(phase="Running", deletionTimestamp=MOMENT)) == Act()
    assert act(vm) == Act(finalizers=())


class TestFailedStarts:
    """An instance that ended without ever having run."""

    @pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure"])
    def test_its_instance_is_deleted_and_the_failure_counted_once(self, strategy: str) -> None:
        """KubeVirt observed 25 and 27."""
        vm = machine(strategy, status={"runStrategy": strategy})
        failed = instance(phase="Failed")
        assert act(vm, failed).stop
        counted = told(vm, failed)
        failure = counted["status"]["startFailure"]
        assert failure["consecutiveFailCount"] == 1
        assert failure["lastFailedVMIUID"] == "uid-of-train"
        assert "2026-03-01T12:00:10Z" <= failure["retryAfterTimestamp"] <= "2026-03-01T12:00:15Z"
        assert counted["status"]["printableStatus"] == "CrashLoopBackOff"
        assert told(counted, failed)["status"]["startFailure"] == failure

    @pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure"])
    def test_the_next_one_comes_when_the_pause_is_over_and_not_before(self, strategy: str) -> None:
        """KubeVirt observed 28 and 32."""
        status: Object = {"startFailure": FAILURE, "runStrategy": strategy}
        if strategy == "RerunOnFailure":
            status["stateChangeRequests"] = [{"action": "Start"}]
        vm = machine(strategy, status=status)
        due = NOW + datetime.timedelta(seconds=10)
        assert act(vm) == Act(wait=due)
        assert act(vm, now=due).start is not None

    def test_each_one_in_a_row_is_counted(self) -> None:
        """KubeVirt observed 28."""
        vm = told(machine(status={"startFailure": FAILURE}), instance("other", phase="Failed"))
        assert vm["status"]["startFailure"]["consecutiveFailCount"] == 2

    def test_rerun_on_failure_asks_itself_for_the_next_start(self) -> None:
        """KubeVirt observed 27."""
        vm = machine("RerunOnFailure", status={"runStrategy": "RerunOnFailure"})
        assert act(vm, instance(phase="Failed")).start_again
        assert not act(vm, instance(phase="Succeeded")).start_again

    def test_without_an_instance_the_machine_still_says_that_it_is_gated(self) -> None:
        """KubeVirt observed 27."""
        gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        vmi = instance(phase="Failed", status={"conditions": [gated]})
        vm = told(told(machine(), vmi), None)
        assert conditions(vm)["PodScheduled"] == ("False", "SchedulingGated", "")
        assert conditions(vm)["Ready"] == ("False", "VMINotExists", "VMI does not exist")

    def test_one_that_had_run_is_no_failed_start_and_there_is_no_pause(self) -> None:
        """KubeVirt observed 29."""
        vm = told(machine(status={"startFailure": FAILURE}), instance(phase="Failed", status=RAN))
        assert "startFailure" not in vm["status"]
        assert act(vm).start is not None

    def test_a_running_guest_clears_the_count(self) -> None:
        """KubeVirt observed 24."""
        running = instance(phase="Running", status=RAN)
        assert (
            "startFailure" not in told(machine(status={"startFailure": FAILURE}), running)["status"]
        )

    def test_a_sped_up_pause_is_exact(self) -> None:
        sight = Sight(machine(), instance(phase="Failed"))
        status = machines.told(sight, False, None, NOW, random.Random(1), speed=100)
        retry = status["startFailure"]["retryAfterTimestamp"]
        assert "2026-03-01T12:00:00.100Z" <= retry <= "2026-03-01T12:00:00.150Z"


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [
        pytest.param("Manual", "Stopped", id="Manual"),
        pytest.param("Once", "CrashLoopBackOff", id="Once"),
    ],
)
def test_some_strategies_leave_a_failed_instance_as_it_is(strategy: str, shown: str) -> None:
    """KubeVirt observed 26."""
    vm = machine(strategy, status={"runStrategy": strategy})
    failed = instance(phase="Failed")
    assert act(vm, failed) == Act()
    assert told(vm, failed)["status"]["printableStatus"] == shown


@pytest.mark.parametrize(("strategy", "comes_back"), [("Always", True), ("RerunOnFailure", False)])
def test_an_instance_that_somebody_else_deletes_at_the_gate_counts_as_a_failed_start(
    strategy: str, comes_back: bool
) -> None:
    """KubeVirt observed 31."""
    vm = machine(strategy, status={"runStrategy": strategy})
    going = instance(phase="Failed", deletionTimestamp=MOMENT)
    assert act(vm, going) == Act()
    counted = told(vm, going)
    assert counted["status"]["startFailure"]["consecutiveFailCount"] == 1
    assert counted["status"]["printableStatus"] == "CrashLoopBackOff"
    later = NOW + datetime.timedelta(minutes=10)
    assert (act(counted, now=later).start is not None) == comes_back


class TestRequests:
    """Users' requests to stop and to start, as they stand in the status."""

    STOP = ({"action": "Stop", "uid": "uid-of-train"},)
    RESTART = (*STOP, {"action": "Start"})

    @pytest.mark.parametrize("strategy", ["Always", "RerunOnFailure", "Manual"])
    def test_a_stop_request_ends_the_instance_that_it_names(self, strategy: str) -> None:
        status = {"stateChangeRequests": list(self.STOP), "runStrategy": strategy}
        vm = machine(strategy, status=status)
        assert act(vm, instance(phase="Scheduling")).stop
        other = instance("other", phase="Scheduling")
        assert not act(vm, other).stop

    def test_a_machine_that_runs_once_heeds_no_request(self) -> None:
        vm = machine("Once", status={"stateChangeRequests": list(self.STOP)})
        assert act(vm, instance(phase="Scheduling")) == Act()

    def test_halted_ends_whatever_runs(self) -> None:
        """KubeVirt observed 33: no failed start is counted."""
        vm = machine("Halted", status={"runStrategy": "Always"})
        assert act(vm, instance(phase="Scheduling")).stop
        going = instance(phase="Failed", deletionTimestamp=MOMENT)
        stopped = told(vm, going)
        assert "startFailure" not in stopped["status"]
        assert told(stopped)["status"]["printableStatus"] == "Stopped"

    def test_a_stopped_rerun_stays_stopped_yet_shows_a_failed_start(self) -> None:
        """KubeVirt observed 33."""
        status = {"stateChangeRequests": list(self.STOP), "runStrategy": "RerunOnFailure"}
        vm = machine("RerunOnFailure", status=status)
        assert not act(vm, instance(phase="Scheduling")).start_again
        going = instance(phase="Failed", deletionTimestamp=MOMENT)
        stopped = told(told(vm, going))
        assert "stateChangeRequests" not in stopped["status"]
        assert stopped["status"]["startFailure"]["consecutiveFailCount"] == 1
        assert stopped["status"]["printableStatus"] == "CrashLoopBackOff"
        assert act(stopped) == Act()

    def test_a_restart_at_the_gate_is_a_failed_start_with_its_pause(self) -> None:
        """KubeVirt observed 35."""
        vm = machine(status={"stateChangeRequests": list(self.RESTART), "runStrategy": "Always"})
        assert act(vm, instance(phase="Scheduling")).stop
        going = instance(phase="Failed", deletionTimestamp=MOMENT)
        stopped = told(told(vm, going))
        assert stopped["status"]["stateChangeRequests"] == [{"action": "Start"}]
        assert act(stopped).wait is not None

    def test_a_start_request_starts_what_would_not_start_by_itself_and_is_then_met(self) -> None:
        """KubeVirt observed 34."""
        for strategy in ("Manual", "RerunOnFailure"):
            status = {"stateChangeRequests": [{"action": "Start"}], "runStrategy": strategy}
            vm = machine(strategy, status=status)
            assert act(vm).start is not None
            assert "stateChangeRequests" not in told(vm, instance(phase="Pending"))["status"]

    def test_a_start_request_is_not_met_by_an_instance_that_ended(self) -> None:
        """KubeVirt observed 27: RerunOnFailure asks while the failed one is still there."""
        status = {"stateChangeRequests": [{"action": "Start"}], "runStrategy": "RerunOnFailure"}
        vm = machine("RerunOnFailure", status=status)
        for ended in (
            instance(phase="Failed"),
            instance(phase="Scheduling", deletionTimestamp=MOMENT),
        ):
            assert told(vm, ended)["status"]["stateChangeRequests"] == [{"action": "Start"}]

    def test_a_start_request_of_a_halted_machine_makes_it_run_always(self) -> None:
        vm = machine("Halted", status={"stateChangeRequests": [{"action": "Start"}]})
        assert act(vm) == Act(strategy="Always")


@pytest.mark.parametrize(
    ("vmi", "want"),
    [
        pytest.param(instance(phase="Pending"), "Starting", id="pending"),
        pytest.param(instance(phase="Scheduling"), "Starting", id="at the gate (observed 11)"),
        pytest.param(instance(phase="Running"), "Running", id="running"),
        pytest.param(
            instance(phase="Running", deletionTimestamp=MOMENT), "Stopping", id="stopping"
        ),
        pytest.param(
            instance(phase="Running", status={"migrationState": {"migrationUid": "m"}}),
            "Migrating",
            id="migrating",
        ),
        pytest.param(
            instance(
                phase="Scheduling",
                status={
                    "conditions": [
                        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                    ]
                },
            ),
            "ErrorUnschedulable",
            id="never gated and nowhere to go (observed 23)",
        ),
        pytest.param(
            instance(
                phase="Pending",
                status={
                    "conditions": [
                        {"type": "Synchronized", "status": "False", "reason": "FailedPvcNotFound"}
                    ]
                },
            ),
            "ErrorPvcNotFound",
            id="no claim (observed 42)",
        ),
        pytest.param(
            instance(
                phase="Pending",
                status={"conditions": [{"type": "DataVolumesReady", "status": "Unknown"}]},
            ),
            "WaitingForVolumeBinding",
            id="an import (observed 41)",
        ),
    ],
)
def test_a_machine_shows_one_word(vmi: Object, want: str) -> None:
    assert told(machine(), vmi)["status"]["printableStatus"] == want


def test_conditions_of_the_instance_are_copied_and_those_that_it_lost_go() -> None:
    """KubeVirt observed 11."""
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    ready = {"type": "Ready", "status": "False", "reason": "GuestNotRunning"}
    at_gate = told(machine(), instance(phase="Scheduling", status={"conditions": [gated, ready]}))
    assert at_gate["status"]["created"] is True
    assert set(conditions(at_gate)) == {"PodScheduled", "Ready"}
    running = told(at_gate, instance(phase="Running", status={"conditions": [ready]}))
    assert set(conditions(running)) == {"Ready"}


def test_a_refused_instance_is_told_with_the_first_message_and_is_no_failed_start() -> None:
    first = Failure("FailedCreate", "Failure while starting VMI: no")
    refused = told(machine(), failure=first)
    assert conditions(refused)["Failure"] == (
        "True",
        "FailedCreate",
        "Failure while starting VMI: no",
    )
    assert "startFailure" not in refused["status"]
    again = told(refused, failure=Failure("FailedCreate", "Failure while starting VMI: still"))
    assert conditions(again)["Failure"][2] == "Failure while starting VMI: no"
    assert "Failure" not in conditions(told(again, instance(phase="Pending")))


class TestLiveUpdate:
    """A template that changes while an instance runs."""

    def both(self, **template: object) -> tuple[Object, Object, Object]:
        """The machine as it was started, as it is now, and its instance."""
        then = machine()
        now = machine(generation=2)
        now["spec"]["template"]["spec"] |= template
        vmi = instance(
            phase="Scheduling",
            spec=then["spec"]["template"]["spec"],
            annotations={"kubevirt.io/vm-generation": "1", "gpu.cozystack.io/claims": "[]"},
        )
        return then, now, vmi

    def test_node_selector_and_tolerations_go_into_the_instance_at_once(self) -> None:
        """KubeVirt observed 16."""
        toleration = {"key": "a", "operator": "Exists"}
        then, now, vmi = self.both(nodeSelector={"zone": "b"}, tolerations=[toleration])
        got = machines.act(Sight(now, vmi, then["spec"]), NOW)
        assert got.patch == (
            {"op": "add", "path": "/spec/nodeSelector", "value": {"zone": "b"}},
            {"op": "add", "path": "/spec/tolerations", "value": [toleration]},
        )

    def test_what_a_webhook_put_into_the_instance_there_is_taken_out(self) -> None:
        """KubeVirt observed 16."""
        then, now, vmi = self.both()
        vmi["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
        vmi["metadata"]["annotations"]["kubevirt.io/vm-generation"] = "2"
        got = machines.act(Sight(now, vmi, then["spec"]), NOW)
        assert got.patch == (
            {
                "op": "test",
                "path": "/spec/tolerations",
                "value": [{"key": "gpu", "operator": "Exists"}],
            },
            {"op": "remove", "path": "/spec/tolerations"},
        )

    def test_a_gpu_that_is_added_waits_for_a_restart(self) -> None:
        """KubeVirt observed 16."""
        then, now, vmi = self.both(domain=gpus(GPU, GPU), nodeSelector={"zone": "b"})
        assert machines.act(Sight(now, vmi, then["spec"]), NOW).patch == ()
        status = told(now, vmi, started_as=then["spec"])
        assert conditions(status)["RestartRequired"][0] == "True"

    def test_a_change_of_the_strategy_alone_moves_the_generation_on(self) -> None:
        then, now, vmi = self.both()
        old = {"kubevirt.io/vm-generation": "1", "gpu.cozystack.io/claims": "[]"}
        assert machines.act(Sight(now, vmi, then["spec"]), NOW).patch == (
            {"op": "test", "path": "/metadata/annotations", "value": old},
            {
                "op": "replace",
                "path": "/metadata/annotations",
                "value": old | {"kubevirt.io/vm-generation": "2"},
            },
        )

    def test_without_live_update_nothing_is_copied(self) -> None:
        then, now, vmi = self.both(nodeSelector={"zone": "b"})
        sight = dataclasses.replace(Sight(now, vmi, then["spec"]), live_update=False)
        assert machines.act(sight, NOW).patch == ()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_strategy_is_told_once_there_was_an_instance(strategy: str) -> None:
    assert "runStrategy" not in told(machine(strategy))["status"]
    assert told(machine(strategy), instance(phase="Pending"))["status"]["runStrategy"] == strategy
