"""Entitlement: whether a tenant may have a class (rule 4.7)."""

from __future__ import annotations

from collections.abc import Mapping

from shared.core.model import Entitlement, GpuClass, Namespace
from shared.core.terms import Grant
from shared.vocabulary import ENTITLED


def granted(line: tuple[str, ...], namespaces: Mapping[str, Namespace]) -> bool:
    """Whether the nearest labelled namespace of a line (itself first) grants.

    Only `entitled` grants; any other value ends the search without.
    """
    for name in line:
        namespace = namespaces.get(name)
        if namespace is not None and namespace.entitlement is not None:
            return namespace.entitlement == ENTITLED
    return False


def grant(gpu_class: GpuClass, line: tuple[str, ...], namespaces: Mapping[str, Namespace]) -> Grant:
    """The entitlement of the namespace at the start of the line to a class."""
    if gpu_class.entitlement is Entitlement.OPEN:
        return Grant.NOT_REQUIRED
    return Grant.GRANTED if granted(line, namespaces) else Grant.MISSING
