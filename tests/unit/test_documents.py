"""The documents hold together: links lead somewhere, cited rules exist, commands exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from admission.routes import ASIDE_FROM_BYTES, DEADLINE_SECONDS, LIMITS
from apiserver.__main__ import ApiServerSettings
from apiserver.flow import WATCHES_PER_USER_MAX
from apiserver.listener import (
    CONNECTIONS_EVER_MAX,
    CONNECTIONS_MAX,
    DRAIN_SECONDS,
    WRITE_SECONDS,
)
from apiserver.options import END_SECONDS
from shared.kube.collections import CLUSTER
from shared.kube.pace import BRISK

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")])
PACKAGES = ("admission", "apiserver", "binder", "shared", "tests", "manifests")

_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CITED = re.compile(r"\brules? (\d+(?:\.\d+)?(?:(?:, | and | to )\d+(?:\.\d+)?)*)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_RULE = re.compile(r"^(?:#+ |- \*\*)(\d+(?:\.\d+)?)[. *]", re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """Anchors of a document's headings, as code hosts make them."""
    kept = (
        re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(path.read_text())
    )
    return {f"#{heading.strip().replace(' ', '-')}" for heading in kept}


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        for suffix in ("*.py", "*.yaml"):
            yield from (REPOSITORY / package).rglob(suffix)


@pytest.mark.parametrize(
    "document", [pytest.param(path, id=str(path.relative_to(REPOSITORY))) for path in DOCUMENTS]
)
def test_every_link_leads_somewhere(document: Path) -> None:
    for target, anchor in _LINK.findall(document.read_text()):
        if "://" in target:
            continue
        path = (document.parent / target).resolve() if target else document
        assert path.exists(), f"{document.name} links to {target}"
        if anchor:
            assert anchor in anchors(path), f"{document.name} links to {target}{anchor}"


def test_every_rule_that_code_cites_is_in_the_design() -> None:
    written = set(_RULE.findall((REPOSITORY / "docs" / "design.md").read_text()))
    cited = {
        (number, str(path.relative_to(REPOSITORY)))
        for path in sources()
        for numbers in _CITED.findall(path.read_text())
        for number in _NUMBER.findall(numbers)
    }
    assert cited
    assert {each for each in cited if each[0] not in written} == set()


DESIGN = (REPOSITORY / "docs/design.md").read_text()


def test_every_test_that_the_design_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DESIGN)
    assert len(named) > 30
    assert [
        f"{path}::{name}"
        for path, name in named
        if not re.search(
            rf"^ *(async )?def {name}\(", (REPOSITORY / path).read_text(), re.MULTILINE
        )
    ] == []


def test_every_trouble_that_a_test_cites_is_told_of() -> None:
    told = re.findall(r"^\| (\d+) \|", DESIGN.partition("## 12. ")[2], re.MULTILINE)
    assert told == [str(number) for number in range(1, len(told) + 1)]
    cited = [
        (number, path.name)
        for path in (REPOSITORY / "tests").rglob("*.py")
        for numbers in re.findall(r"\bTroubles? (\d+(?:(?:, | and | to )\d+)*)", path.read_text())
        for number in re.findall(r"\d+", numbers)
    ]
    assert cited
    assert [each for each in cited if each[0] not in told] == []


def test_every_make_target_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = {
        (target, document.name)
        for document in DOCUMENTS
        for target in re.findall(r"(?:`|^)make ([a-z]+)", document.read_text(), re.MULTILINE)
    }
    assert named
    assert {each for each in named if each[0] not in targets} == set()


def test_the_end_that_operators_read_of_is_that_of_the_code() -> None:
    text = (REPOSITORY / "docs/operating.md").read_text()
    delay = int(ApiServerSettings.model_fields["shutdown_delay"].default)
    drain = int(DRAIN_SECONDS)
    assert f"| {delay} (`--shutdown-delay`) |" in text
    assert f"does not read that within {END_SECONDS:.0f} seconds is cut off" in text
    assert f"| {delay + drain} | requests that were still in flight" in text
    assert f"| {delay + 2 * drain} | what did not let itself be cancelled" in text
    assert f"does not read is cut off after {WRITE_SECONDS:.0f} seconds" in text
    deployment = (REPOSITORY / "manifests/base/deployment.yaml").read_text()
    (grace,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", deployment)
    assert f"`terminationGracePeriodSeconds` ({grace})" in text


def test_how_long_a_server_that_hangs_is_asked_is_what_the_manifests_say() -> None:
    text = (REPOSITORY / "docs/operating.md").read_text()
    documents = (REPOSITORY / "manifests/base/deployment.yaml").read_bytes()
    deployment, *_ = yaml.load_all(documents, Loader=yaml.CSafeLoader)
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    # The first probe that fails begins within a period; the last ends at its timeout.
    least, most = ended_after(container["readinessProbe"])
    assert f"After {least} to {most} seconds the readiness probe" in text
    least, most = ended_after(container["livenessProbe"])
    assert least < 60 < most
    assert "After about a minute the liveness probe ends it" in text
    grace = pod["terminationGracePeriodSeconds"]
    assert f"is killed {grace} seconds later (`terminationGracePeriodSeconds`)" in text
    for kind in ("mutating", "validating"):
        path = REPOSITORY / f"manifests/webhooks/{kind}.yaml"
        webhooks = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)["webhooks"]
        assert {each["timeoutSeconds"] for each in webhooks} == {15}
    assert "for up to 15 seconds" in text


def ended_after(probe: dict[str, int]) -> tuple[int, int]:
    """When a probe has failed for good, in seconds from the moment when nobody answers any more."""
    least = (probe["failureThreshold"] - 1) * probe["periodSeconds"] + probe["timeoutSeconds"]
    return least, least + probe["periodSeconds"]


def test_the_limits_and_the_load_that_operators_read_of_are_those_of_the_code() -> None:
    text = (REPOSITORY / "docs/operating.md").read_text()
    deployment = (REPOSITORY / "manifests/base/deployment.yaml").read_text()
    assert f"{WATCHES_PER_USER_MAX} watches of one user" in text
    assert f"{CONNECTIONS_MAX} connections of one replica" in text
    assert f"from {CONNECTIONS_EVER_MAX} on it is closed unanswered" in text
    assert f"{WRITE_SECONDS:.0f} seconds without reading" in text
    assert f"{LIMITS.at_once} reviews of webhooks at once" in text
    assert f"{LIMITS.large_at_once} of those larger than {ASIDE_FROM_BYTES // 1024} KiB" in text
    assert f"{DEADLINE_SECONDS:.0f} seconds at most, then the call fails" in text
    assert f"{LIMITS.body_seconds:.0f} seconds to arrive" in text
    (memory,) = re.findall(r"memory: (\d+Mi) #", deployment)
    assert f"{memory} of memory" in text
    followed = len(CLUSTER) + 2  # and the ConfigMaps of the settings and of the authorities
    shortest, longest = BRISK.watch
    assert f"follows {followed} collections" in text
    assert f"ends after {shortest} to {longest} seconds" in text
    per_minute = round(followed * 60 / ((shortest + longest) / 2))
    assert f"about {per_minute} watches" in text
