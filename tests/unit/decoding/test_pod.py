"""Pods."""

from __future__ import annotations

import pytest

from shared.kube import decode
from tests.unit.decoding.raws import POD, changed, no_problem, owner


class TestPod:
    """Whose a pod is, and whether it holds anything."""

    @pytest.mark.parametrize(
        ("phase", "want"),
        [
            ("Pending", False),
            ("Running", False),
            ("Succeeded", True),
            ("Failed", True),
            ("", False),
        ],
    )
    def test_has_ended_in_its_final_phases(self, phase: str, want: bool) -> None:
        assert decode.pod(changed(POD, "status.phase", phase), no_problem).ended is want

    @pytest.mark.parametrize(
        ("references", "want"),
        [
            ([owner("VirtualMachineInstance", "u")], "u"),
            ([owner("VirtualMachineInstance", "u", group="kubevirt.io/v1alpha3")], "u"),
            ([owner("VirtualMachineInstance", "u", controller=False)], ""),
            ([owner("VirtualMachineInstance", "u", controller=None)], ""),
            ([owner("VirtualMachineInstance", "u", group="example.com/v1")], ""),
            ([owner("VirtualMachineInstance", "u", group="v1")], ""),
            ([owner("ReplicaSet", "u", group="apps/v1")], ""),
            (
                [
                    owner("ReplicaSet", "r", group="apps/v1", controller=False),
                    owner("VirtualMachineInstance", "u"),
                ],
                "u",
            ),
            ([], ""),
            (None, ""),
        ],
    )
    def test_its_owner_is_the_vmi_that_controls_it(self, references: object, want: str) -> None:
        raw = changed(POD, "metadata.ownerReferences", references)
        assert decode.pod(raw, no_problem).owner == want
