"""What a pod asks for, and where it is pinned: Kubernetes' own readings of a pod's spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from shared.fields import Json, mapping, mappings, name, text
from shared.quantity import QuantityError, parse, whole_units

_FIELD_NAME: Final = "metadata.name"


def requests(spec: Json, note: Callable[[str], None]) -> Mapping[str, int]:
    """Sum what a pod requests, per resource, in whole units rounded up after adding.

    As kube-scheduler does (k8s.io/component-helpers, PodRequests; KEP-753 for sidecars, KEP-2837
    for pods' own requests), for the pod as specified: containers and sidecars added; an init
    container with the sidecars before it where that is more; a pod's own request instead, for
    CPU, memory and huge pages; the overhead on top. A resize that is still going on counts as
    specified.

    A quantity that cannot be read counts as nothing and is noted.
    """
    total = _sum(mappings(spec.get("containers")), note)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in mappings(spec.get("initContainers")):
        asked = _amounts(container, note)
        if container.get("restartPolicy") == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            continue
        _add(asked, sidecars)
        for resource, amount in asked.items():
            peak[resource] = max(peak.get(resource, 0), amount)
    for resource, amount in peak.items():
        total[resource] = max(total.get(resource, 0), amount)
    if "resources" in spec:
        own = _amounts(spec, note)
        total.update({key: own[key] for key in own if _is_for_whole_pods(key)})
    if "overhead" in spec:
        _add(total, _quantities(spec.get("overhead"), "spec.overhead", note))
    return _shared(tuple(sorted((key, whole_units(nano)) for key, nano in total.items())))


def pinned_to(spec: Json) -> str:
    """The one node that a pod's required node affinity leaves, by name; empty where it is open.

    Terms are alternatives, so each non-empty one must name the node (rule 7.8); an empty term
    matches nothing. Labels do not count: they can be on several nodes.
    """
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"))
    pinned: set[str] = set()
    for term in mappings(required.get("nodeSelectorTerms")):
        if not term.get("matchFields") and not term.get("matchExpressions"):
            continue
        named = set(_named(mappings(term.get("matchFields"))))
        if not named:
            return ""
        pinned |= named
    return pinned.pop() if len(pinned) == 1 else ""


@lru_cache(maxsize=8192)
def _shared(items: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """One mapping for equal contents: pods of one template ask for the same. Never change it."""
    return dict(items)


def _named(fields: Iterable[Json]) -> Iterable[str]:
    for field in fields:
        if field.get("key") == _FIELD_NAME and field.get("operator") == "In":
            values = field.get("values")
            if isinstance(values, list) and len(values) == 1 and text(values[0]):
                yield name(values[0])


def _is_for_whole_pods(resource: str) -> bool:
    return resource in {"cpu", "memory"} or resource.startswith("hugepages-")


def _sum(containers: Iterable[Json], note: Callable[[str], None]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        _add(total, _amounts(container, note))
    return total


def _amounts(container: Json, note: Callable[[str], None]) -> dict[str, int]:
    resources = mapping(container.get("resources"))
    return _quantities(resources.get("requests"), "resources.requests", note)


def _quantities(value: object, path: str, note: Callable[[str], None]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for resource, amount in mapping(value).items():
        try:
            amounts[name(resource)] = max(parse(amount), 0)
        except QuantityError as error:
            note(f"{path}[{resource}]: {error}")
    return amounts


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount
