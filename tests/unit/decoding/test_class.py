"""Classes."""

from __future__ import annotations

import pytest

from shared.core.model import Entitlement, GpuClass, Lifecycle
from shared.kube import decode
from shared.kube.decode import Undecodable
from tests.unit.decoding.raws import CLASS, changed, no_problem


class TestClass:
    """A class, with what it leaves out."""

    @pytest.mark.parametrize(
        ("mode", "want"),
        [("Passthrough", Entitlement.OPEN), ("VirtualGPU", Entitlement.REQUIRED)],
    )
    def test_who_may_order_follows_from_the_mode_unless_it_is_said(
        self, mode: str, want: Entitlement
    ) -> None:
        raw = changed(changed(CLASS, "spec.entitlement", None), "spec.mode", mode)
        assert decode.gpu_class(raw, no_problem).entitlement is want

    def test_what_it_leaves_out_is_as_the_schema_has_it(self) -> None:
        raw = {
            "metadata": {"name": "a100"},
            "spec": {"mode": "Passthrough", "resourceName": "nvidia.com/GA100"},
        }
        assert decode.gpu_class(raw, no_problem) == GpuClass("a100", "nvidia.com/GA100")

    @pytest.mark.parametrize(
        "path", ["spec.mode", "spec.entitlement", "spec.lifecycle", "spec.disclosure"]
    )
    def test_a_word_that_we_do_not_know_is_not_guessed_at(self, path: str) -> None:
        with pytest.raises(Undecodable, match=f"{path}: 'Later', expected .* or "):
            decode.gpu_class(changed(CLASS, path, "Later"), no_problem)

    @pytest.mark.parametrize("memory", ["40Gi", "42949672960", 85899345920])
    def test_memory_is_kept_as_written(self, memory: object) -> None:
        got = decode.gpu_class(changed(CLASS, "spec.memory", memory), no_problem)
        assert got.memory == str(memory)

    def test_one_that_is_open_was_closed_at_no_time(self) -> None:
        opened = {"type": "Open", "status": "True", "lastTransitionTime": "2026-11-29T14:00:00Z"}
        raw = changed(CLASS, "status.conditions", [opened])
        assert decode.gpu_class(raw, no_problem).closed_since == ""

    def test_one_that_is_being_deleted_takes_nothing_new_whatever_it_says(self) -> None:
        raw = changed(CLASS, "spec.lifecycle", "Active")
        raw = changed(raw, "metadata.deletionTimestamp", "2026-11-29T15:00:00Z")
        raw = changed(raw, "status.conditions", [])
        got = decode.gpu_class(raw, no_problem)
        assert (got.lifecycle, got.closed_since) == (Lifecycle.CLOSED, "2026-11-29T15:00:00Z")

    def test_one_that_was_closed_and_is_being_deleted_was_closed_when_it_was(self) -> None:
        closed = {"type": "Open", "status": "False", "lastTransitionTime": "2026-11-29T14:00:00Z"}
        raw = changed(CLASS, "status.conditions", [closed])
        raw = changed(raw, "metadata.deletionTimestamp", "2026-11-29T15:00:00Z")
        assert decode.gpu_class(raw, no_problem).closed_since == "2026-11-29T14:00:00Z"
