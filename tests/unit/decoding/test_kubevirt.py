"""KubeVirt's own objects, and the record of admission on them."""

from __future__ import annotations

import pytest

from shared.kube import decode
from tests.unit.decoding.raws import KUBEVIRT, MIGRATION, VMI, changed, no_problem


class TestKubeVirt:
    """The table of permitted devices."""

    @pytest.mark.parametrize(
        ("path", "value", "permitted"),
        [
            ("spec.configuration.permittedHostDevices", None, None),
            ("spec.configuration", None, None),
            ("spec.configuration.permittedHostDevices", {}, frozenset()),
            (
                "spec.configuration.permittedHostDevices",
                {"pciHostDevices": None, "mediatedDevices": []},
                frozenset(),
            ),
        ],
    )
    def test_no_table_is_not_an_empty_one(
        self, path: str, value: object, permitted: frozenset[str] | None
    ) -> None:
        """Rule 4.1."""
        assert decode.kubevirt(changed(KUBEVIRT, path, value), no_problem).permitted == permitted

    @pytest.mark.parametrize("entry", [{}, None, "x", {"resourceName": 7}, {"resourceName": ""}])
    def test_an_entry_without_a_name_is_left_out_and_told(self, entry: object) -> None:
        told: list[str] = []
        raw = changed(
            KUBEVIRT,
            "spec.configuration.permittedHostDevices.pciHostDevices",
            [entry, {"resourceName": "nvidia.com/GA100"}],
        )
        assert "nvidia.com/GA100" in (decode.kubevirt(raw, told.append).permitted or ())
        path = "spec.configuration.permittedHostDevices.pciHostDevices[0].resourceName"
        assert told == [f"{path}: expected the name of a resource; left out"]


@pytest.mark.parametrize(
    ("phase", "want"), [("Succeeded", True), ("Failed", True), ("Running", False)]
)
def test_a_migration_is_over_in_its_final_phases(phase: str, want: bool) -> None:
    assert decode.migration(changed(MIGRATION, "status.phase", phase), no_problem).final is want


ENTRY = '{"entry": 0, "className": "a", "resourceName": "n/a", "count": 1}'


class TestRecord:
    """The record of admission is our webhook's own, so anything unusual in it is a forgery."""

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "null",
            "{}",
            '"text"',
            "[1]",
            "[null]",
            "[{}]",
            "[",
            f"[{ENTRY}] x",
            f"[{ENTRY},]",
            ENTRY.join("[]").replace('"entry": 0, ', ""),
            ENTRY.join("[]").replace('"entry": 0', '"entry": 0, "claim": "c"'),
            ENTRY.join("[]").replace('"entry": 0', '"entry": 0, "entry": 1'),
            ENTRY.join("[]").replace('"entry": 0', '"entry": 0, "more": 1'),
            ENTRY.join("[]").replace('"entry": 0', '"entry": -1'),
            ENTRY.join("[]").replace('"entry": 0', '"entry": true'),
            ENTRY.join("[]").replace('"entry": 0', '"claim": ""'),
            ENTRY.join("[]").replace('"count": 1', '"count": 0'),
            ENTRY.join("[]").replace('"count": 1', '"count": 2.0'),
            ENTRY.join("[]").replace('"count": 1', '"count": true'),
            ENTRY.join("[]").replace('"count": 1', '"count": 1025'),
            ENTRY.join("[]").replace('"count": 1', '"count": NaN'),
            ENTRY.join("[]").replace('"count": 1', '"count": ' + "9" * 5000),
            ENTRY.join("[]").replace('"n/a"', "null"),
            ENTRY.join("[]").replace('"className": "a", ', ""),
            "[" * 100_000,
            "[" * 90_000 + "]" * 90_000,
            f"[{ENTRY}]" + " " * 300_000,
        ],
        ids=lambda text: f"{len(text)} characters {text[:80]}",
    )
    def test_a_malformed_one_reads_as_none_and_is_told(self, text: str) -> None:
        told: list[str] = []
        raw = changed(VMI, "metadata.annotations", {"gpu.cozystack.io/attachments": text})
        assert decode.vmi(raw, told.append).record == ()
        assert len(told) == 1
        assert told[0].startswith("metadata.annotations[gpu.cozystack.io/attachments]")
        assert len(told[0]) < 500

    def test_a_vmi_without_one_has_none(self) -> None:
        assert decode.vmi(changed(VMI, "metadata.annotations", None), no_problem).record == ()
