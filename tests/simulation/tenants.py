"""Tenants and their budgets as a history has them (rules 4.3 and 4.4), read plainly."""

from __future__ import annotations

from tests.simulation.seen import Seen


def levels(seen: Seen, namespace: str) -> list[str]:
    """A namespace and those above it."""
    line = [namespace]
    while line[-1].startswith("tenant-") and line[-1] not in {"tenant-", "tenant-root"}:
        above = _above(seen, line[-1])
        if not above:
            break
        line.append(above)
    return line


def limit(seen: Seen, namespace: str, key: str) -> int | None:
    """The smallest limit of a key in a namespace; None where there is none."""
    found = [
        int(amount)
        for (home, name), quota in seen.objects["resourcequotas"].items()
        if home == namespace and name != "tenant-quota-allocated"
        for word, amount in (quota["spec"].get("hard") or {}).items()
        if word in (key, f"requests.{key}", f"limits.{key}")
    ]
    return min(found, default=None)


def _above(seen: Seen, namespace: str) -> str:
    existing = {name for _, name in seen.objects["namespaces"]}
    while "-" in namespace:
        namespace = namespace.rpartition("-")[0]
        if namespace in existing and namespace.startswith("tenant-"):
            return namespace
    return "tenant-root" if "tenant-root" in existing else ""
