"""What is generated from the models is committed, complete, and says what the contract says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared import vocabulary
from shared.reasons import Reason
from tests.generate import crds, files

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "manifests" / "crds"
STORED = {"gpuclasses": "GPUClass", "gpuclaims": "GPUClaim", "gpusystems": "GPUSystem"}

Schema = dict[str, Any]


def committed(plural: str) -> Schema:
    crd: Schema = yaml.load((CRDS / f"{plural}.yaml").read_text(), yaml.CSafeLoader)
    return crd


def version(plural: str) -> Schema:
    (only,) = committed(plural)["spec"]["versions"]
    found: Schema = only
    return found


def schema(plural: str) -> Schema:
    root: Schema = version(plural)["schema"]["openAPIV3Schema"]
    return root


def nodes(root: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every schema below, with its path; the items of a list as `[]`."""
    for name, value in root.get("properties", {}).items():
        yield f"{path}.{name}", value
        yield from nodes(value, f"{path}.{name}")
    if "items" in root:
        yield f"{path}[]", root["items"]
        yield from nodes(root["items"], f"{path}[]")


@pytest.mark.parametrize("path", sorted(files()))
def test_a_generated_file_is_committed_as_it_is_generated(path: str) -> None:
    assert (ROOT / path).read_text() == files()[path], "run `python -m tests.generate`"


def test_no_other_crd_lies_beside_the_generated_ones() -> None:
    want = {f"{plural}.yaml" for plural in STORED} | {"kustomization.yaml"}
    assert {file.name for file in CRDS.iterdir()} == want


@pytest.mark.parametrize(
    ("plural", "kind", "short", "scope"),
    [
        pytest.param("gpuclasses", "GPUClass", "gpucls", "Cluster", id="classes"),
        pytest.param("gpuclaims", "GPUClaim", "gpuclm", "Namespaced", id="claims"),
        pytest.param("gpusystems", "GPUSystem", "gpusys", "Cluster", id="systems"),
    ],
)
def test_names_are_those_of_the_contract(plural: str, kind: str, short: str, scope: str) -> None:
    crd = committed(plural)

    assert crd["apiVersion"] == "apiextensions.k8s.io/v1"
    assert crd["metadata"]["name"] == f"{plural}.gpu.cozystack.io"
    assert crd["spec"]["group"] == "gpu.cozystack.io"
    assert crd["spec"]["scope"] == scope
    assert crd["spec"]["names"] == {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": [short],
        "categories": ["cozygpu"],
    }
    assert version(plural)["name"] == "v1alpha1"
    assert version(plural)["subresources"] == {"status": {}}


@pytest.mark.parametrize(
    ("plural", "shown", "wide"),
    [
        pytest.param(
            "gpuclasses",
            "MODE VENDOR MEMORY TOTAL FREE READY AGE",
            "RESOURCE MAX LIFECYCLE UNAVAILABLE LARGEST",
            id="classes",
        ),
        pytest.param(
            "gpuclaims", "CLASS COUNT BOUND REASON ATTACHED-TO AGE", "NODE SINCE", id="claims"
        ),
    ],
)
def test_columns_are_those_of_the_contract(plural: str, shown: str, wide: str) -> None:
    columns = version(plural)["additionalPrinterColumns"]

    def names(priority: int) -> str:
        return " ".join(c["name"].upper() for c in columns if c.get("priority", 0) == priority)

    assert names(0) == shown
    assert names(1) == wide


@pytest.mark.parametrize("plural", STORED)
def test_every_field_is_described(plural: str) -> None:
    fields = [(p, s) for p, s in nodes(schema(plural)) if not p.endswith("[]") and p != ".metadata"]

    assert [path for path, found in fields if not found.get("description")] == []


def test_descriptions_use_the_words_of_the_vocabulary() -> None:
    """A docstring cannot be made from a constant, so a rename must find it here."""
    text = (ROOT / "docs" / "api.md").read_text()
    named = set(re.findall(r"(?:catalog\.)?gpu\.cozystack\.io/[\w-]+", text))

    assert named == {
        vocabulary.GROUP_VERSION,
        vocabulary.CATALOG_GROUP_VERSION,
        vocabulary.LABEL_ENTITLEMENT,
        vocabulary.ANNOTATION_CLAIMS,
    }
    assert f"says {vocabulary.ENTITLED} (Required)" in text
    assert f"a Secret in the namespace {vocabulary.NAMESPACE}." in text
    assert (
        f"the ConfigMap {vocabulary.SETTINGS_NAME},"
        in (dict(nodes(schema("gpusystems")))[".status.effectiveSettings"]["description"])
    )
    assert f"with the name {vocabulary.SYSTEM_NAME}." in text


@pytest.mark.parametrize("plural", STORED)
def test_schemas_are_structural(plural: str) -> None:
    """What a structural schema may not have, and what pydantic adds for itself."""
    foreign = {"$ref", "$defs", "anyOf", "allOf", "oneOf", "title", "const", "nullable"}
    everything = [("", schema(plural)), *nodes(schema(plural))]

    assert [path for path, found in everything if foreign & found.keys()] == []
    assert [path for path, found in everything if "type" not in found] == []


@pytest.mark.parametrize("plural", STORED)
def test_every_string_and_list_has_a_bound(plural: str) -> None:
    """Without bounds the API server takes no CEL rule, and a hoster can store anything."""
    unbounded = [
        path
        for path, found in nodes(schema(plural))
        if path not in {".apiVersion", ".kind"}
        and (
            (found["type"] == "string" and not {"maxLength", "enum"} & found.keys())
            or (found["type"] == "array" and "maxItems" not in found)
        )
    ]
    assert unbounded == []


@pytest.mark.parametrize("plural", STORED)
def test_the_api_conventions_are_kept(plural: str) -> None:
    """No phase, no booleans, counts are int32, conditions are keyed by type (rule 3)."""
    found = dict(nodes(schema(plural)))

    assert [path for path in found if path.endswith(".phase")] == []
    assert [path for path, s in found.items() if s["type"] in {"boolean", "number"}] == []
    integers = {path: s.get("format") for path, s in found.items() if s["type"] == "integer"}
    wide = {".status.epoch", "observedGeneration", "tolerationSeconds"}
    for path, width in integers.items():
        assert width == ("int64" if any(path.endswith(w) for w in wide) else "int32"), path
    conditions = found[".status.conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


@pytest.mark.parametrize(
    ("plural", "immutable"),
    [
        pytest.param("gpuclasses", {".spec.vendor", ".spec.mode"}, id="classes"),
        pytest.param("gpuclaims", {".spec.className", ".spec.count"}, id="claims"),
    ],
)
def test_what_is_immutable_cannot_be_taken_away(plural: str, immutable: set[str]) -> None:
    """Else it is removed and added again (rule 3): required, or back with its default at once."""
    root = schema(plural)
    found = dict(nodes(root))
    held = {
        path
        for path, s in found.items()
        if any("oldSelf" in r["rule"] for r in s.get("x-kubernetes-validations", ()))
    }

    assert held == immutable
    assert "spec" in root["required"]
    for path in immutable:
        name = path.removeprefix(".spec.")
        assert name in found[".spec"]["required"] or "default" in found[path], path


def test_no_field_of_an_order_can_be_changed() -> None:
    (fields,) = [s["properties"] for p, s in nodes(schema("gpuclaims")) if p == ".spec"]

    for name, found in fields.items():
        rules = [r["rule"] for r in found["x-kubernetes-validations"]]
        assert "self == oldSelf" in rules, name


def test_a_waiting_claim_gives_one_of_the_reasons() -> None:
    waiting = dict(nodes(schema("gpuclaims")))[".status.waiting.reason"]

    assert waiting["enum"] == [reason.value for reason in Reason]


def test_the_system_shows_every_setting_under_its_name() -> None:
    """Rule 9, in its order."""
    settings = dict(nodes(schema("gpusystems")))[".status.effectiveSettings"]

    assert " ".join(settings["properties"]) == (
        "enabled placement resourceNames forbidRawNames kubevirtNamespace kubevirtUsernames"
        " binderUsername trustedGroups nodeLossGrace refusalSkip pinTimeout starvationBound"
    )


def test_the_reference_names_every_kind_and_every_field() -> None:
    text = (ROOT / "docs" / "api.md").read_text()

    for plural, kind in STORED.items():
        section = text.partition(f"\n## {kind}\n")[2].partition("\n## ")[0]
        for path, _ in nodes(schema(plural)):
            if ".conditions[]" not in path and not path.endswith("[]"):
                assert f"| `{path[1:]}` |" in section, f"{kind}{path}"
    assert "\n## GPUClassOption\n" in text
    assert "| `status.budget.remaining` |" in text


def test_each_reason_is_explained_once_and_in_order() -> None:
    """Rule 3.4: the order is the precedence."""
    text = (ROOT / "docs" / "reasons.md").read_text()

    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == [reason.value for reason in Reason]


def test_every_explanation_says_what_it_means_and_what_to_do() -> None:
    text = (ROOT / "docs" / "reasons.md").read_text()
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]

    assert rows
    for row in rows:
        assert len(row) == 3, row
        assert all(len(cell.strip(" |")) > 5 for cell in row), row


def test_the_crds_are_made_for_the_kinds_that_are_stored() -> None:
    assert [kind.kind for kind in crds.STORED] == ["GPUClass", "GPUClaim", "GPUSystem"]
