"""Where pods may go, in Kubernetes' own terms, as frozen values.

Nothing is resolved here: a value says what an object says. What is defaulted by Kubernetes' API
server has its default here too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint: `effect` is NoSchedule, NoExecute or PreferNoSchedule.

    `since` is when a NoExecute taint was added, RFC 3339 as written; others mostly do not say.
    """

    key: str
    effect: str
    value: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class Toleration:
    """As Kubernetes has it: an empty key with Exists tolerates all, an empty effect any.

    `seconds` is how long a NoExecute taint is tolerated, None for ever.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement: `operator` is In, NotIn, Exists, DoesNotExist, and for nodes Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One of the alternatives of a node affinity: all that it requires.

    `expressions` are about labels, `fields` about `metadata.name`. A term that requires nothing
    matches no node.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Selector:
    """A selector of labels: all requirements hold; without any it selects everything.

    Where Kubernetes has none at all (None here), nothing is selected.
    """

    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTerm:
    """One required term of a pod affinity or anti-affinity.

    It is about pods that `selector` selects, in `namespaces` and in those that
    `namespace_selector` selects; where both say nothing (no names, None), in the namespace of
    the pod whose term it is. matchLabelKeys are part of the selector: the API server puts them
    there.
    """

    topology_key: str
    selector: Selector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint that forbids (DoNotSchedule), over the pod's own namespace.

    `label_keys` are labels whose value in the pod itself is required as well (matchLabelKeys;
    an API server of 1.34 or newer also puts them into the selector).
    """

    max_skew: int
    topology_key: str
    selector: Selector | None = None
    min_domains: int = 1
    honors_affinity: bool = True
    """Whether only nodes count that the pod's node selector and affinity accept."""
    honors_taints: bool = False
    """Whether only nodes count whose taints the pod tolerates."""
    label_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of its node that a pod takes; on all of its addresses where `address` is empty."""

    port: int
    protocol: str = "TCP"
    address: str = ""
