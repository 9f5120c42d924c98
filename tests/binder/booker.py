"""The binder's process with a simple mind: it books every claim that has no node, or none.

Everything but the decision is the real thing: election, terms, passes, writes. Started as
`python -m tests.binder.booker books` or `… idles`, with the binder's flags after that.
"""

from __future__ import annotations

import sys
from datetime import datetime

from typing_extensions import override

from binder import __main__ as binder
from binder.actions import BookClaim, Plan, Ref, Work
from shared.fields import Json, mapping, text
from shared.kube.collections import Collection
from shared.kube.paths import collection
from shared.vocabulary import GROUP_VERSION, RESOURCE_CLAIMS

NODE = "booked-node"
RESOURCE = "example.com/booked"


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
    def _plan(self, held: frozenset[str], now: datetime) -> Plan:
        """Book what is not booked."""
        del held, now
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


if __name__ == "__main__":
    Booker.books = sys.argv.pop(1) == "books"
    binder.Process = Booker  # type: ignore[misc]  # the one thing that is not the real one
    binder.main()
