"""How many reviews our server was asked for, by its own figures."""

from __future__ import annotations

import re
import ssl
import time
from dataclasses import dataclass
from typing import Final

import aiohttp

from tests.catalog.tenants import RBAC
from tests.cluster.api import Api
from tests.cluster.components import HOST
from tests.cluster.install import Catalog
from tests.cluster.waiting import wait_until

SCRAPER: Final = "admission-tests-scraper"

_REVIEWS: Final = re.compile(r"^gpu_apiserver_admission_reviews_total\{.*\} (\S+)$", re.MULTILINE)

_AGES: Final = re.compile(r"^gpu_apiserver_collection_age_seconds\{.*\} (\S+)$", re.MULTILINE)


async def token_of(admin: Api, name: str, namespace: str) -> str:
    """A token of an account, which is made."""
    account = {"name": name, "namespace": namespace}
    await admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await admin.call("POST", path, asked)
    return str(made["status"]["token"])


@dataclass(frozen=True, slots=True)
class Reviews:
    """Reads the figures as somebody who may, past kube-apiserver."""

    url: str
    tls: ssl.SSLContext
    token: str

    @classmethod
    async def of(cls, catalog: Catalog) -> Reviews:
        """Make an account that may read the figures, and wait until it may."""
        admin = catalog.plane.cluster.admin
        account = {"name": SCRAPER, "namespace": "default"}
        token = await token_of(admin, **account)
        role = {"name": SCRAPER}
        rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        kind = f"{RBAC}/v1"
        await admin.apply(
            {"apiVersion": kind, "kind": "ClusterRole", "metadata": role, "rules": rules}
        )
        await admin.apply(
            {
                "apiVersion": kind,
                "kind": "ClusterRoleBinding",
                "metadata": role,
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": SCRAPER},
                "subjects": [{"kind": "ServiceAccount", **account}],
            }
        )
        reviews = cls(
            f"https://{HOST}:{catalog.component.port}",
            ssl.create_default_context(cafile=catalog.authority),
            token,
        )

        async def may() -> bool:
            return (await reviews.figures())[0] == 200

        await wait_until(may, "the figures can be read")
        return reviews

    async def figures(self) -> tuple[int, str]:
        """Status and text of /metrics."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/metrics", ssl=self.tls, headers=headers) as answer,
        ):
            return answer.status, await answer.text()

    async def oldest(self) -> float:
        """How old is what our server knows of the cluster, in seconds."""
        status, text = await self.figures()
        assert status == 200, text
        return max(map(float, _AGES.findall(text)))

    async def until_seen_anew(self) -> None:
        """Wait until our server knows of each collection how it is after this call began.

        Something hung before: what is known is then not too old yet, and may get so.
        """
        began = time.monotonic()

        async def is_newer() -> bool:
            oldest = await self.oldest()
            return oldest < time.monotonic() - began

        await wait_until(is_newer, "all of the cluster has been looked at since")

    async def counted(self) -> int:
        """All reviews so far."""
        status, text = await self.figures()
        assert status == 200, text
        return int(sum(float(each) for each in _REVIEWS.findall(text)))
