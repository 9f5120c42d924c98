"""Whether labels, nodes and pods are what a selector asks for, as kube-scheduler decides it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from shared.core.scheduling import NodeTerm, PodTerm, Requirement, Selector

Labels = Mapping[str, str]

_NODE_NAME: Final = "metadata.name"
_TOO_LARGE: Final = 2**63


def meets(requirement: Requirement, labels: Labels) -> bool:
    """Whether labels meet one requirement; one that cannot be understood is met by none."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(requirement.values) == 1:
            have, bound = _whole(value), _whole(requirement.values[0])
            if have is None or bound is None:
                return False
            return have > bound if requirement.operator == "Gt" else have < bound
    return False


def selects(selector: Selector | None, labels: Labels) -> bool:
    """Whether a selector selects what has these labels; none at all selects nothing."""
    return selector is not None and all(meets(each, labels) for each in selector.requirements)


def accepts(terms: Iterable[NodeTerm], name: str, labels: Labels) -> bool:
    """Whether one of the alternatives accepts a node; a term that requires nothing accepts none."""
    return any(_accepts(term, name, labels) for term in terms)


def concerns(term: PodTerm, owner: str, namespace: str, namespace_labels: Labels) -> bool:
    """Whether a term of a pod in the namespace `owner` is about pods of another namespace."""
    if not term.namespaces and term.namespace_selector is None:
        return namespace == owner
    return namespace in term.namespaces or selects(term.namespace_selector, namespace_labels)


def is_domestic(term: PodTerm) -> bool:
    """Whether a term is about pods of its own pod's namespace alone."""
    return not term.namespaces and term.namespace_selector is None


def _accepts(term: NodeTerm, name: str, labels: Labels) -> bool:
    if not term.expressions and not term.fields:
        return False
    return all(meets(each, labels) for each in term.expressions) and all(
        each.key == _NODE_NAME and meets(each, {_NODE_NAME: name}) for each in term.fields
    )


def _whole(text: str) -> int | None:
    """A label's value as a whole number of 64 bits; a sign cannot begin one."""
    whole = int(text) if text.isascii() and text.isdigit() else _TOO_LARGE
    return whole if whole < _TOO_LARGE else None
