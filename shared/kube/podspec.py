"""What a pod asks for, and where it is pinned: Kubernetes' own readings of a pod's spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final

from shared.fields import Json, mapping, mappings, name, text
from shared.quantity import QuantityError, counted_parts, parse, whole_units
from shared.vocabulary import GATE

_FIELD_NAME: Final = "metadata.name"
_PATH: Final = "resources.requests"


def requests(spec: Json, status: Json, note: Callable[[str], None]) -> Mapping[str, int]:
    """Sum what a pod requests, per resource, rounded up after adding (`counted_parts`).

    As kube-scheduler does (k8s.io/component-helpers, PodRequests; KEP-753 for sidecars, KEP-2837
    for pods' own requests, KEP-1287 for resizes): containers and sidecars added; an init
    container with the sidecars before it where that is more; a pod's own request instead, for
    CPU, memory and huge pages; the overhead on top. While a resize goes on, the most of what is
    specified, allocated and in force counts; where the node can never do it, the most of the
    latter two.

    A quantity that cannot be read counts as nothing and is noted.
    """
    in_force = _in_force(status)
    is_infeasible = bool(in_force) and _is_infeasible(status)

    def asked_by(container: Json) -> dict[str, int]:
        reported = in_force.get(text(container.get("name")))
        specified = mapping(mapping(container.get("resources")).get("requests"))
        return _effective(specified, reported, note, is_infeasible=is_infeasible)

    total: dict[str, int] = {}
    for container in mappings(spec.get("containers")):
        _add(total, asked_by(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in mappings(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            asked = asked_by(container)
            _add(total, asked)
            _add(sidecars, asked)
            continue
        asked = _quantities(mapping(container.get("resources")).get("requests"), _PATH, note)
        _add(asked, sidecars)
        _raise(peak, asked)
    _raise(total, peak)
    if "resources" in spec:
        specified = mapping(mapping(spec.get("resources")).get("requests"))
        own = _effective(specified, status, note, is_infeasible=_is_infeasible(status))
        total.update({key: own.get(key, 0) for key in specified if _is_for_whole_pods(key)})
    if "overhead" in spec:
        _add(total, _quantities(spec.get("overhead"), "spec.overhead", note))
    return _shared(
        tuple(sorted((key, whole_units(nano, counted_parts(key))) for key, nano in total.items()))
    )


def pinned_to(spec: Json) -> str:
    """The one node that a pod's required node affinity leaves, by name; empty where it is open.

    Terms are alternatives, so each non-empty one must name the node (rule 7.8); an empty term
    matches nothing. Labels do not count: they can be on several nodes. A pod at our gate is not
    pinned yet, whatever its tenant had written into its VM.
    """
    if any(gate.get("name") == GATE for gate in mappings(spec.get("schedulingGates"))):
        return ""
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


def _in_force(status: Json) -> dict[str, Json]:
    """What the node says of the resources of containers, by their name, where it says so."""
    return {
        text(container.get("name")): container
        for kind in ("containerStatuses", "initContainerStatuses")
        for container in mappings(status.get(kind))
        if isinstance(container.get("resources"), dict)
    }


def _effective(
    specified: Json, reported: Json | None, note: Callable[[str], None], *, is_infeasible: bool
) -> dict[str, int]:
    """What counts of a container, or of a pod as a whole, of which its node reported something."""
    amounts = _quantities(specified, _PATH, note)
    if reported is None or not isinstance(reported.get("resources"), dict):
        return amounts
    actual = mapping(mapping(reported.get("resources")).get("requests"))
    allocated = mapping(reported.get("allocatedResources"))
    if actual == specified and (allocated == specified or not allocated):
        return amounts  # as nearly always
    if is_infeasible:
        amounts = {}
    _raise(amounts, _quantities(actual, "status.resources.requests", note))
    _raise(amounts, _quantities(allocated, "status.allocatedResources", note))
    return amounts


def _is_infeasible(status: Json) -> bool:
    for condition in mappings(status.get("conditions")):
        if condition.get("type") == "PodResizePending":
            return condition.get("reason") == "Infeasible"
    return False


def _quantities(value: object, path: str, note: Callable[[str], None]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for resource, amount in mapping(value).items():
        try:
            amounts[name(resource)] = max(parse(amount), 0)
        except QuantityError as error:
            note(f"{path}[{resource}]: {error}")
    return amounts


def _raise(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        total[resource] = max(total.get(resource, 0), amount)


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount
