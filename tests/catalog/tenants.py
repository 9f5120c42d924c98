"""A tenant: a namespace, and a person who may do there what the tenant role allows."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from shared.api.conditions import ConditionType
from tests.catalog.objects import OPTION
from tests.cluster.access import User
from tests.cluster.api import Api, Object, Refused
from tests.cluster.session import Cluster, Output
from tests.cluster.waiting import NeverHappened, wait_until

ROLE: Final = "catalog-tests:tenant"
"""Put together by aggregation as Cozystack puts its tenant roles together."""

RBAC: Final = "rbac.authorization.k8s.io"

Figures = Mapping[str, object]
"""Figures of an option by name, as in the worlds; those that are absent are None."""


def figures(option: Object) -> dict[str, Any]:
    """All figures of an option."""
    status = option["status"]
    stock, budget = status["availability"], status["budget"]
    selectable = condition(option, ConditionType.SELECTABLE)
    return {
        **{
            name: stock.get(name)
            for name in ("freeUnits", "totalUnits", "unavailableUnits", "largestSet", "level")
        },
        **{
            name: budget.get(name)
            for name in ("state", "remaining", "hard", "used", "limitingLevel")
        },
        "entitlement": status["entitlement"],
        "orderableUnits": status.get("orderableUnits"),
        "limitedBy": status["limitedBy"],
        "selectable": selectable["status"],
        "reason": selectable["reason"],
        "fresh": condition(option, ConditionType.FRESH)["status"],
    }


def condition(obj: Object, kind: str) -> dict[str, Any]:
    """A condition by its type; empty where there is none."""
    return next((c for c in obj["status"]["conditions"] if c["type"] == kind), {})


def missing(want: Figures, got: Figures) -> dict[str, tuple[object, object]]:
    """The figures that are not as wanted, each with what was wanted and what is."""
    return {name: (want[name], got[name]) for name in want if want[name] != got[name]}


@dataclass(frozen=True, slots=True)
class Tenant:
    """A person of a tenant."""

    cluster: Cluster
    namespace: str
    user: User

    @property
    def api(self) -> Api:
        """The API server as this person."""
        return self.cluster.api(self.user)

    async def option(self, name: str) -> Object:
        """One option."""
        return await self.api.get(OPTION, name, self.namespace)

    async def options(self, **query: str) -> list[Object]:
        """All options."""
        return await self.api.list(OPTION, self.namespace, **query)

    def watch(self, **query: str) -> contextlib.AbstractAsyncContextManager[AsyncIterator[Object]]:
        """Watch the options."""
        return self.api.watch(OPTION, self.namespace, **query)

    async def sees(self, name: str, **want: object) -> None:
        """Wait until an option has these figures."""
        seen: dict[str, tuple[object, object]] = {}

        async def as_wanted() -> bool:
            nonlocal seen
            option = await self.api.find(OPTION, name, self.namespace)
            seen = missing(want, figures(option)) if option else {"exists": (True, False)}
            return not seen

        try:
            await wait_until(as_wanted, f"{self.namespace} sees {name}")
        except NeverHappened as never:
            raise AssertionError(f"{never}; wanted and got: {seen}") from None

    async def kubectl(self, *arguments: str, stdin: str | None = None) -> Output:
        """Run kubectl as this person, whose kubeconfig names the tenant's namespace."""
        return await self.cluster.kubectl(
            *arguments, user=self.user, namespace=self.namespace, stdin=stdin
        )


async def wait_until_served(cluster: Cluster, kind: str) -> None:
    """Wait until discovery names a kind, which is some moments after it can be reached."""

    async def found() -> bool:
        try:
            return bool(await cluster.admin.path(kind))
        except LookupError:
            return False

    await wait_until(found, f"discovery names {kind}")


async def make_role(cluster: Cluster) -> None:
    """Make the tenant role from the roles that our manifests mark for it.

    Returns once it holds something, and options are served.
    """
    label = "rbac.cozystack.io/aggregate-to-tenant"
    await cluster.admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": ROLE},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
        }
    )

    async def put_together() -> bool:
        role = await cluster.admin.get(f"{RBAC}/v1/ClusterRole", ROLE)
        return len(role.get("rules") or ()) > 0

    await wait_until(put_together, f"{ROLE} has rules")
    await wait_until_served(cluster, OPTION)


async def bind(cluster: Cluster, user: User, namespace: str) -> None:
    """Give a person the tenant role in a namespace, and wait until it holds there."""
    await cluster.admin.apply(
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "tenant", "namespace": namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": ROLE},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user.name}],
        }
    )

    async def holds() -> bool:
        try:
            await cluster.api(user).list(OPTION, namespace)
        except Refused as refused:
            if refused.code != 403:
                raise
            return False
        return True

    await wait_until(holds, f"{user.name} may read options in {namespace}")


async def make_tenant(
    cluster: Cluster, namespace: str, labels: Mapping[str, str] | None = None
) -> Tenant:
    """Make a tenant with a person of its own, who is called as it is."""
    await cluster.create_namespace(namespace, labels)
    tenant = Tenant(cluster, namespace, User(namespace))
    await bind(cluster, tenant.user, namespace)
    return tenant
