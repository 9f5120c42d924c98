"""The binder's process with a simple mind: it books every claim that has no node, or none.

Everything but the decision is the real thing: election, terms, passes, writes. Started as
`python -m tests.binder.booker books` or `… idles`, with the binder's flags after that. With
`… sleeps:a-namespace` the mind is the real one too, and the process stops between its check and its
first booking there, until somebody continues it; with `… sleeps-before-starts:a-namespace` between
its check and its first start of a pod there.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio import Future
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
SLEEPS_BEFORE_STARTS = "sleeps-before-starts:"
"""How the mind of a sleeper begins; what follows is the namespace whose claims, or pods, put it to
sleep."""


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


def is_booking(path: str, body: object) -> bool:
    """Whether a request books a claim."""
    del path
    return bool(mapping(mapping(body).get("status")).get("nodeName"))


def is_start(path: str, body: object) -> bool:
    """Whether a request starts a pod: no other JSON Patch of ours is of one."""
    return "/pods/" in path and isinstance(body, list)


class Sleeper(Connection):
    """Stops this process when it is about to send a first such request, all checks behind it.

    Once it is continued it sends that in full: that it leads no longer would take it back, soon
    enough or too late, as chance would have it.
    """

    namespace = ""
    is_due = staticmethod(is_booking)
    late: Future[tuple[bytes | BaseException]] | None = None

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
        send = super().request(
            method,
            path,
            params=params,
            body=body,
            headers=headers,
            timeout_seconds=timeout_seconds,
        )
        is_there = f"/namespaces/{self.namespace}/" in path
        if self.late is not None or not is_there or not self.is_due(path, body):
            return await send
        os.kill(os.getpid(), signal.SIGSTOP)
        self.late = late = asyncio.gather(send, return_exceptions=True)
        (answer,) = await asyncio.shield(late)
        if isinstance(answer, BaseException):
            raise answer
        return answer


if __name__ == "__main__":
    mind = sys.argv.pop(1)
    if mind.startswith((SLEEPS, SLEEPS_BEFORE_STARTS)):
        Sleeper.namespace = mind.partition(":")[2]
        if mind.startswith(SLEEPS_BEFORE_STARTS):
            Sleeper.is_due = staticmethod(is_start)
        vars(binder)["Connection"] = Sleeper
    else:
        Booker.books = mind == "books"
        binder.Process = Booker  # type: ignore[misc]  # the one thing that is not the real one
    binder.main()
