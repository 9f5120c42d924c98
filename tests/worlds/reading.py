"""The worlds as values: objects as the API server sends them, and the figures that must come out.

A figure is compared exactly, lists in order; `null` means absent, `{"oneOf": […]}` any of these,
`{"noneOf": […]}` none of these. A figure that a world does not give is not compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shared.core.cluster import ClusterState
from shared.core.model import Disclosure, Object, Settings
from shared.core.options import Option
from shared.kube import decode
from shared.settings import GpuSettings, parse

Json = Mapping[str, object]

FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True)
class World:
    """One state of a cluster and what must be computed from it."""

    name: str
    objects: list[Json]
    classes: dict[str, Json | None]
    options: dict[str, Json]
    no_options: list[str]


def world(path: Path) -> World:
    """Read one world's file."""
    raw = json.loads(path.read_text())
    want = raw["want"]
    return World(
        raw["name"],
        raw["objects"],
        want["classes"],
        want["options"],
        want.get("noOptions", []),
    )


WORLDS = [world(path) for path in sorted(FOLDER.glob("*.json"))]


def _note(problem: str) -> None:
    raise AssertionError(problem)


def _settings(raw: Json, _: decode.Note) -> Settings:
    data = raw["data"]
    assert isinstance(data, dict)
    parsed, problems = parse(data, GpuSettings())
    assert not problems
    return parsed.reading


_DECODERS: dict[str, Callable[[Json, decode.Note], Object]] = {
    "Node": decode.node,
    "Pod": decode.pod,
    "GPUClaim": decode.claim,
    "GPUClass": decode.gpu_class,
    "ResourceQuota": decode.quota,
    "Namespace": decode.namespace,
    "VirtualMachineInstance": decode.vmi,
    "KubeVirt": decode.kubevirt,
    "ConfigMap": _settings,
}


def value(raw: Json) -> Object | None:
    """The value of one object; None for kinds that no rule reads."""
    decoder = _DECODERS.get(str(raw["kind"]))
    return None if decoder is None else decoder(raw, _note)


def capacity_of(state: ClusterState, name: str) -> dict[str, int] | None:
    """A class's capacity under the names of its status; None where it is not disclosed."""
    if state.classes[name].disclosure is not Disclosure.EXACT:
        return None
    found = state.capacity(name)
    return {
        "total": found.total,
        "bound": found.bound,
        "outside": found.outside,
        "unavailable": found.unavailable,
        "free": found.free,
        "overbooked": found.overbooked,
        "largestSet": found.largest_set,
    }


def figures_of(option: Option) -> dict[str, object]:
    """An option's figures under the names of the worlds."""
    return {
        "freeUnits": option.availability.free,
        "totalUnits": option.availability.total,
        "unavailableUnits": option.availability.unavailable,
        "largestSet": option.availability.largest_set,
        "remaining": option.budget.remaining,
        "limitingLevel": option.budget.limiting_level,
        "entitlement": option.entitlement,
        "orderableUnits": option.orderable,
        "selectable": option.selectable,
        "reason": option.reason,
        "limitedBy": list(option.limited_by),
    }


def differs(want: object, got: object) -> bool:
    """Whether a figure is not what a world asks for."""
    if isinstance(want, dict):
        if "oneOf" in want:
            return got not in want["oneOf"]
        unwanted = want["noneOf"]
        if isinstance(got, list):
            return any(item in unwanted for item in got)
        return got in unwanted
    return want != got
