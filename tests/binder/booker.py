"""The binder's process with a simple mind: it books every claim that has no node, or none.

Everything but the decision is the real thing: election, terms, passes, writes. Started as
`python -m tests.binder.booker books` or `… idles`, with the binder's flags after that. With
`… sleeps:a-namespace` the mind is the real one too, and the process stops between its check and its
first booking there, until somebody continues it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from datetime import datetime

from typing_extensions import override

from binder import __main__ as binder
from binder.actions import BookClaim, Plan, Ref, Work
from binder.underway import UnderWay
from shared.fields import Json, mapping, text
from shared.kube.collections import Collection
from shared.kube.connect import Connection
from shared.kube.paths import collection
from shared.vocabulary import GROUP_VERSION, RESOURCE_CLAIMS

NODE = "booked-node"
RESOURCE = "example.com/booked"
SLEEPS = "sleeps:"
"""How the mind of a sleeper begins; what follows is the namespace whose claims put it to sleep."""


class Booker(binder.Process):
    """Books, whatever there is."""

    books = True

    def __init__(
        self, settings: binder.BinderSettings, connection: binder.Api, at: binder.Surroundings
    ) -> None:
        super().__init__(settings, connection, at)
        self._raw: dict[tuple[str, str], Json] = {}
        claims = Collection(
            RESOURCE_CLAIMS, collection(GROUP_VERSION, RESOURCE_CLAIMS), lambda raw, _: raw
        )
        self._informer.follow(claims, self)

    def put(self, value: Json) -> None:
        """A claim was added or changed."""
        metadata = mapping(value.get("metadata"))
        self._raw[text(metadata.get("namespace")), text(metadata.get("name"))] = value
        self._wake()

    def gone(self, value: Json) -> None:
        """A claim was deleted."""
        metadata = mapping(value.get("metadata"))
        self._raw.pop((text(metadata.get("namespace")), text(metadata.get("name"))), None)

    @override
    def _plan(self, held: frozenset[str], under_way: UnderWay, now: datetime) -> Plan:
        """Book what is not booked."""
        del held, under_way, now
        works: list[Work] = []
        for (namespace, name), raw in sorted(self._raw.items()):
            metadata = mapping(raw.get("metadata"))
            if self.books and not mapping(raw.get("status")).get("nodeName"):
                ref = Ref(
                    namespace,
                    name,
                    text(metadata.get("uid")),
                    text(metadata.get("resourceVersion")),
                )
                booking = BookClaim(ref, NODE, RESOURCE, "2026-01-01T00:00:00Z")
                works.append(Work(f"claim/{namespace}/{name}", ((booking,),)))
        return Plan(tuple(works))


class Sleeper(Connection):
    """Stops this process when it is about to send a first booking, all checks behind it."""

    namespace = ""
    is_rested = False

    @override
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> bytes:
        """As `Connection.request`."""
        status = mapping(mapping(body).get("status"))
        is_there = f"/namespaces/{self.namespace}/" in path
        if not self.is_rested and is_there and status.get("nodeName"):
            self.is_rested = True
            os.kill(os.getpid(), signal.SIGSTOP)
        return await super().request(
            method,
            path,
            params=params,
            body=body,
            headers=headers,
            timeout_seconds=timeout_seconds,
        )


if __name__ == "__main__":
    mind = sys.argv.pop(1)
    if mind.startswith(SLEEPS):
        Sleeper.namespace = mind.removeprefix(SLEEPS)
        vars(binder)["Connection"] = Sleeper
    else:
        Booker.books = mind == "books"
        binder.Process = Booker  # type: ignore[misc]  # the one thing that is not the real one
    binder.main()
