"""The table of observations and the code that cites it hold together, and so do the kinds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.cluster.api import Object

REPOSITORY = Path(__file__).parents[3]
FOLDERS = ("tests/kubevirt", "tests/unit/kubevirt", "tests/kubevirt_live")
KINDS = REPOSITORY / "tests" / "kubevirt_crds"

KUBERNETES_OWN = {20, 21, 22}
"""Played by nobody: the real API server and scheduler do that."""

_CITED = re.compile(r"KubeVirt\s+observed\s+(\d+(?:(?:,\s|\sand,?\s|\sto\s)\d+)*)")
_ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)


def cited(text: str) -> set[int]:
    numbers: set[int] = set()
    for group in _CITED.findall(text):
        for part in re.split(r",\s|\sand,?\s", group):
            first, _, last = re.sub(r"\s+", " ", part).partition(" to ")
            numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def test_every_observation_that_is_cited_is_in_the_table_and_the_other_way_round() -> None:
    table = {int(n) for n in _ROW.findall((REPOSITORY / "docs" / "kubevirt.md").read_text())}
    code = {
        number
        for folder in FOLDERS
        for path in (REPOSITORY / folder).rglob("*.py")
        for number in cited(path.read_text())
    }
    assert code == table - KUBERNETES_OWN


def spec_of(file: str, *path: str) -> Object:
    definition = yaml.safe_load((KINDS / file).read_text())
    schema: Object = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for field in ("spec", *path):
        schema = schema["properties"][field]
    return schema


@pytest.mark.parametrize("file", ["virtualmachines.yaml", "virtualmachineinstancereplicasets.yaml"])
def test_a_template_is_checked_like_an_instance(file: str) -> None:
    want = spec_of("virtualmachineinstances.yaml")
    assert spec_of(file, "template", "spec") == want


def test_an_instance_has_no_status_subresource_and_all_others_have() -> None:
    for path in KINDS.glob("*.yaml"):
        definition = yaml.safe_load(path.read_text())
        for version in definition["spec"]["versions"]:
            has = "status" in version.get("subresources", {})
            assert has == (definition["spec"]["names"]["kind"] != "VirtualMachineInstance")


def test_kinds_of_kubevirt_are_served_in_both_its_versions() -> None:
    for path in KINDS.glob("*.yaml"):
        spec = yaml.safe_load(path.read_text())["spec"]
        if spec["group"] == "kubevirt.io":
            assert [version["name"] for version in spec["versions"]] == ["v1", "v1alpha3"]
            assert spec["versions"][0]["schema"] == spec["versions"][1]["schema"]
