"""Where a pod, or a volume, may go: Kubernetes' terms as objects have them, into values.

What is malformed is left out: the API server checks all of this, so it stands for a newer version.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address
from typing import Final

from shared.core.scheduling import (
    HostPort,
    NodeTerm,
    PodTerm,
    Requirement,
    Selector,
    Spread,
    Toleration,
)
from shared.fields import Json, elements, mapping, mappings, name, whole

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ZONE_LABELS: Final = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_ZONE_SEPARATOR: Final = "__"
_ANY_ADDRESS: Final = str(IPv4Address(0))


def required_node_terms(spec: Json) -> tuple[NodeTerm, ...] | None:
    """The required node-affinity terms of a pod's spec, by index; None where none are."""
    affinity = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    return node_terms(affinity.get(_REQUIRED))


def node_terms(selector: object) -> tuple[NodeTerm, ...] | None:
    """The terms of a NodeSelector; None where there is no selector."""
    if not isinstance(selector, dict):
        return None
    # By index, so that one that is no object keeps its place; it matches nothing.
    return tuple(
        NodeTerm(
            _requirements(mapping(term).get("matchExpressions")),
            _requirements(mapping(term).get("matchFields")),
        )
        for term in elements(selector.get("nodeSelectorTerms"))
    )


def required_pod_terms(spec: Json, kind: str) -> tuple[PodTerm, ...]:
    """The required terms of a pod's `podAffinity` or `podAntiAffinity`."""
    affinity = mapping(mapping(spec.get("affinity")).get(kind))
    return tuple(
        PodTerm(
            topology_key=name(term.get("topologyKey")),
            selector=label_selector(term.get("labelSelector")),
            namespaces=names(term.get("namespaces")),
            namespace_selector=label_selector(term.get("namespaceSelector")),
        )
        for term in mappings(affinity.get(_REQUIRED))
    )


def label_selector(value: object) -> Selector | None:
    """A LabelSelector; None where there is none."""
    if not isinstance(value, dict):
        return None
    exact = (
        Requirement(name(key), "In", (name(wanted),))
        for key, wanted in sorted(mapping(value.get("matchLabels")).items())
    )
    return Selector((*exact, *_requirements(value.get("matchExpressions"))))


def spread(spec: Json) -> tuple[Spread, ...]:
    """The topology spread constraints of a pod's spec that forbid."""
    return tuple(
        Spread(
            max_skew=whole(constraint.get("maxSkew")) or 1,
            topology_key=name(constraint.get("topologyKey")),
            selector=label_selector(constraint.get("labelSelector")),
            min_domains=whole(constraint.get("minDomains")) or 1,
            honors_affinity=constraint.get("nodeAffinityPolicy") != "Ignore",
            honors_taints=constraint.get("nodeTaintsPolicy") == "Honor",
            label_keys=names(constraint.get("matchLabelKeys")),
        )
        for constraint in mappings(spec.get("topologySpreadConstraints"))
        if constraint.get("whenUnsatisfiable") == "DoNotSchedule"
    )


def tolerations(value: object) -> tuple[Toleration, ...]:
    """Tolerations, of a pod or of a class."""
    return tuple(
        Toleration(
            name(toleration.get("key")),
            name(toleration.get("operator")) or "Equal",
            name(toleration.get("value")),
            name(toleration.get("effect")),
            whole(toleration.get("tolerationSeconds")),
        )
        for toleration in mappings(value)
    )


def host_ports(spec: Json) -> tuple[HostPort, ...]:
    """The ports of its node that a pod takes, as kube-scheduler counts them.

    On the host's network each port of a container is one; the API server fills `hostPort` in.
    """
    return tuple(
        HostPort(port, name(each.get("protocol")) or "TCP", _address(each.get("hostIP")))
        for container in _lasting_containers(spec)
        for each in mappings(container.get("ports"))
        if (port := whole(each.get("hostPort")))
    )


def zones(labels: Json) -> dict[str, frozenset[str]]:
    """The zones and regions that a volume's labels name; several are joined by `__`."""
    return {
        label: frozenset(map(name, str(labels[label]).split(_ZONE_SEPARATOR)))
        for label in _ZONE_LABELS
        if label in labels
    }


def names(value: object) -> tuple[str, ...]:
    """An array of names."""
    return tuple(name(element) for element in elements(value) if isinstance(element, str))


def _address(value: object) -> str:
    address = name(value)
    return "" if address == _ANY_ADDRESS else address


def _lasting_containers(spec: Json) -> Iterable[Json]:
    """Containers, and init containers that stay beside them."""
    yield from mappings(spec.get("containers"))
    for container in mappings(spec.get("initContainers")):
        if container.get("restartPolicy") == "Always":
            yield container


def _requirements(value: object) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(name(each.get("key")), name(each.get("operator")), names(each.get("values")))
        for each in mappings(value)
    )
