"""Tenants and their tree: which namespace is whose parent (rule 4.3)."""

from __future__ import annotations

from collections.abc import Container

from shared.core.index import Index
from shared.vocabulary import TENANT_PREFIX, TENANT_ROOT


def is_tenant(namespace: str) -> bool:
    """Whether a namespace is a tenant's by its name; `tenant` and `tenant-` are nobody's."""
    return len(namespace) > len(TENANT_PREFIX) and namespace.startswith(TENANT_PREFIX)


def parent(namespace: str, existing: Container[str]) -> str | None:
    """The tenant above a namespace, None at the top and for what is no tenant.

    The last segment is cut until a tenant's namespace exists; where none does, the root tenant
    is the parent. Tenant names have no dashes of their own (Cozystack), so each dash is a level.
    """
    if not is_tenant(namespace) or namespace == TENANT_ROOT:
        return None
    above = namespace.rpartition("-")[0]
    while is_tenant(above):
        if above in existing:
            return above
        above = above.rpartition("-")[0]
    return TENANT_ROOT if TENANT_ROOT in existing else None


def line(namespace: str, existing: Container[str]) -> tuple[str, ...]:
    """A namespace itself, then its ancestors, nearest first."""
    found = [namespace]
    while (above := parent(found[-1], existing)) is not None:
        found.append(above)
    return tuple(found)


def is_within(namespace: str, top: str) -> bool:
    """Whether a namespace is `top` or may lie below it, by its name alone.

    Every descendant's name begins with its ancestor's, so this misses none; it may name one
    whose line goes elsewhere.
    """
    if namespace == top:
        return True
    if top == TENANT_ROOT and is_tenant(namespace):
        return True
    return is_tenant(top) and namespace.startswith(f"{top}-")


def tops(namespace: str) -> tuple[str, ...]:
    """Every name that the namespace `is_within`, itself first."""
    if not is_tenant(namespace):
        return (namespace,)
    found = [namespace]
    above = namespace.rpartition("-")[0]
    while is_tenant(above):
        found.append(above)
        above = above.rpartition("-")[0]
    return tuple(dict.fromkeys((*found, TENANT_ROOT)))


class Tenants:
    """The namespaces that exist, and the line of ancestors of any name.

    A name that does not exist (yet) has ancestors too: objects can be seen before their
    namespace is. Lines are kept until a namespace that could lie on them comes or goes.
    """

    def __init__(self) -> None:
        self._existing: set[str] = set()
        self._lines: dict[str, tuple[str, ...]] = {}
        self._within: Index[str, str] = Index()
        """Names that have a line, by what they are within."""

    def line(self, namespace: str) -> tuple[str, ...]:
        """The namespace itself, then its ancestors, nearest first."""
        line = self._lines.get(namespace)
        if line is None:
            above = parent(namespace, self._existing)
            line = (namespace,) if above is None else (namespace, *self.line(above))
            self._lines[namespace] = line
            self._within.move(namespace, (), tops(namespace))
        return line

    def add(self, namespace: str) -> None:
        """A namespace exists now."""
        self._existing.add(namespace)
        self._forget(namespace)

    def remove(self, namespace: str) -> None:
        """A namespace is gone."""
        self._existing.discard(namespace)
        self._forget(namespace)

    def _forget(self, namespace: str) -> None:
        """Drop the lines that this namespace can lie on."""
        for name in tuple(self._within[namespace]):
            del self._lines[name]
            self._within.move(name, tops(name), ())
