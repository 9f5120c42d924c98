"""What KubeVirt's webhooks let pass, and what a user's start and stop write."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object
from tests.kubevirt import power
from tests.kubevirt.virt_api import VirtApi
from tests.unit.kubevirt.given import GPU, MOMENT, domain, gpus, instance, machine

CONTROLLER = "system:serviceaccount:kubevirt:kubevirt-controller"
VIRT_API = VirtApi("kubevirt")


def request(obj: Object, old: Object | None = None, user: str = "alice") -> Object:
    return {
        "operation": "CREATE" if old is None else "UPDATE",
        "object": obj,
        "oldObject": old,
        "userInfo": {"username": user},
    }


def refusal(answer: Object) -> str:
    return "" if answer["allowed"] else str(answer["status"]["message"])


def test_a_new_instance_is_answered_with_three_wholes() -> None:
    answer = VIRT_API.mutate_instance(request(instance()))
    assert [each["path"] for each in answer["patch"]] == ["/spec", "/metadata", "/status"]
    assert answer["patch"][2]["value"] == {"phase": "Pending"}


def test_a_status_that_somebody_else_writes_is_taken_back_without_a_word() -> None:
    """KubeVirt observed 18."""
    old, new = instance(phase="Scheduling"), instance(phase="Running")
    assert VIRT_API.mutate_instance(request(new, old)) == {
        "allowed": True,
        "patch": [{"op": "add", "path": "/status", "value": {"phase": "Scheduling"}}],
    }
    assert VIRT_API.mutate_instance(request(new, old, CONTROLLER)) == {"allowed": True}
    elsewhere = CONTROLLER.replace("kubevirt:", "cozy-kubevirt:", 1)
    for other in (elsewhere, "kubevirt-controller"):
        assert "patch" in VIRT_API.mutate_instance(request(new, old, other))


def test_only_kubevirt_may_change_a_spec_or_its_own_labels() -> None:
    old = instance()
    changed = instance(spec={"domain": gpus(GPU)})
    assert refusal(VIRT_API.validate_instance(request(changed, old))) == (
        "update of VMI object is restricted"
    )
    assert not refusal(VIRT_API.validate_instance(request(changed, old, CONTROLLER)))
    labelled = instance(labels={"kubevirt.io/nodeName": "gpu-b"})
    assert "kubevirt.io/nodeName" in refusal(VIRT_API.validate_instance(request(labelled, old)))
    assert "kubevirt.io/nodeName" in refusal(VIRT_API.validate_instance(request(labelled)))
    free = instance(labels={"app": "x"}, annotations={"gpu.cozystack.io/claims": "[]"})
    assert not refusal(VIRT_API.validate_instance(request(free, old)))


@pytest.mark.parametrize(
    ("guest", "want"),
    [
        pytest.param(
            domain(devices={"gpus": [{"name": "a"}]}), "without deviceName", id="no device"
        ),
        pytest.param(
            domain(
                devices={
                    "gpus": [
                        {"name": "a", "deviceName": GPU},
                        {"name": "b", "claimName": "c", "requestName": "r"},
                    ]
                }
            ),
            "with deviceName and with claimRequest",
            id="a mixture with claims",
        ),
        pytest.param(
            domain(devices={"disks": [{"name": "a"}]}), "no matching volume", id="no volume"
        ),
        pytest.param(gpus(*([GPU] * 1025)), "", id="any number"),
        pytest.param(domain(resources={"limits": {GPU: "4"}}), "", id="resources of any name"),
    ],
)
def test_what_cannot_run_is_refused_but_counts_and_names_are_not_looked_at(
    guest: Object, want: str
) -> None:
    got = refusal(VIRT_API.validate_instance(request(instance(spec={"domain": guest}))))
    assert want in got
    assert bool(want) == bool(got)
    vm = machine()
    vm["spec"]["template"]["spec"]["domain"] = guest
    assert want in refusal(VIRT_API.validate_machine(request(vm)))


def test_host_devices_need_their_gate() -> None:
    guest = domain(devices={"hostDevices": [{"name": "a", "deviceName": GPU}]})
    asked = request(instance(spec={"domain": guest}))
    assert not refusal(VIRT_API.validate_instance(asked))
    closed = VirtApi("kubevirt", host_devices=False)
    assert "gate is not enabled" in refusal(closed.validate_instance(asked))


class TestPower:
    """Start, stop and restart."""

    def test_stop_halts_what_runs_always_and_asks_others(self) -> None:
        """KubeVirt observed 33."""
        halt = power.to_stop(machine("Always"), instance(phase="Scheduling"))
        assert (halt.subresource, halt.patch[-1]["value"]) == ("", "Halted")
        asked = power.to_stop(machine("RerunOnFailure"), instance(phase="Scheduling"))
        assert asked == power.Write(
            (
                {
                    "op": "add",
                    "path": "/status",
                    "value": {"stateChangeRequests": [{"action": "Stop", "uid": "uid-of-train"}]},
                },
            ),
            "status",
        )

    def test_start_after_that_forgets_failed_starts(self) -> None:
        """KubeVirt observed 34."""
        again = power.to_start(machine("Halted"), None)
        assert again.patch[-1]["value"] == "Always"
        vm = machine("RerunOnFailure", status={"startFailure": {"consecutiveFailCount": 1}})
        assert power.to_start(vm, None).patch == (
            {"op": "add", "path": "/status/stateChangeRequests", "value": [{"action": "Start"}]},
            {"op": "remove", "path": "/status/startFailure"},
        )

    def test_restart_asks_for_a_stop_and_a_start(self) -> None:
        """KubeVirt observed 35."""
        vm = machine(status={"created": True})
        assert power.to_restart(vm, instance(phase="Scheduling")).patch[0]["value"] == [
            {"action": "Stop", "uid": "uid-of-train"},
            {"action": "Start"},
        ]

    def test_a_machine_that_runs_once_is_halted_too_and_cannot_be_restarted(self) -> None:
        vmi = instance(phase="Running")
        assert power.to_stop(machine("Once"), vmi).patch[-1]["value"] == "Halted"
        with pytest.raises(power.Conflict, match="Once does not support manual restart"):
            power.to_restart(machine("Once"), vmi)

    def test_what_ended_is_deleted_before_a_start_but_a_rerun_starts_itself(self) -> None:
        status = {"created": True}
        ended = power.to_start(machine("Manual", status=status), instance(phase="Failed"))
        actions = [each["action"] for each in ended.patch[0]["value"]]
        assert actions == ["Stop", "Start"]
        with pytest.raises(power.Conflict, match="starting VM from failed state"):
            power.to_start(machine("RerunOnFailure"), instance(phase="Failed"))

    def test_a_stop_replaces_a_request_that_is_not_met_and_others_are_refused(self) -> None:
        vm = machine("Manual", status={"stateChangeRequests": [{"action": "Start"}]})
        stop = power.to_stop(vm, instance(phase="Running"))
        assert stop.patch[-1]["op"] == "replace"
        with pytest.raises(power.Conflict, match="already underway"):
            power.to_start(vm, None)

    def test_what_cannot_be_done_is_a_conflict(self) -> None:
        """KubeVirt observed 36: also while it stops."""
        stopping = instance(phase="Running", deletionTimestamp=MOMENT)
        with pytest.raises(power.Conflict, match="VM is already running"):
            power.to_start(machine("Halted"), stopping)
        with pytest.raises(power.Conflict, match="VM is not running"):
            power.to_stop(machine("Manual"), None)
        with pytest.raises(power.Conflict, match="Always does not support"):
            power.to_start(machine("Always"), None)
