"""A tenant who looks at one option all the time: by get, and by a watch that began before."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from tests.catalog.objects import CLASS
from tests.catalog.tenants import Tenant, figures, missing
from tests.cluster.api import Object
from tests.cluster.waiting import DEADLINE_SECONDS

Note = Callable[[str, float], None]
"""Takes what was changed, and the seconds from before the write until a get showed it."""


@dataclass(slots=True)
class Onlooker:
    """Sees the option of one class change, and that it changes once for each change."""

    tenant: Tenant
    name: str
    events: AsyncIterator[Object]
    note: Note
    _marks: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def event(self) -> tuple[str, Object]:
        """The next event."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            event = await anext(self.events)
        return event["type"], event["object"]

    async def sees(self, what: str, change: Awaitable[object], **want: object) -> None:
        """Make a change; a get shows it soon, and the watch tells of it in exactly one event.

        Args:
            what: a name of the change, for the summary of the run.
            change: the write, not yet begun.
            want: figures that must come out.
        """
        start = time.monotonic()
        await change
        await self.tenant.sees(self.name, **want)
        self.note(what, time.monotonic() - start)
        kind, option = await self.event()
        assert (kind, missing(want, figures(option))) == ("MODIFIED", {}), what
        await self.nothing_more(what)

    async def nothing_more(self, what: str) -> None:
        """No other event comes: the next one is that of a label put on the class now.

        For this whatever could make one must have been taken in before; time proves nothing.
        """
        mark = str(next(self._marks))
        await self.tenant.cluster.admin.patch(
            CLASS, self.name, {"metadata": {"labels": {"mark": mark}}}
        )
        kind, option = await self.event()
        assert kind == "MODIFIED", what
        assert option["metadata"]["labels"]["mark"] == mark, f"{what} made more than one event"


Look = Callable[..., contextlib.AbstractAsyncContextManager[Onlooker]]
"""Begins to look at the test's GPUs as the test's tenant, once they have the figures given."""


@contextlib.asynccontextmanager
async def onlooker(
    tenant: Tenant, name: str, note: Note, **first: object
) -> AsyncIterator[Onlooker]:
    """Begin to look once the option has these figures."""
    await tenant.sees(name, **first)
    async with tenant.watch(fieldSelector=f"metadata.name={name}") as events:
        looking = Onlooker(tenant, name, events, note)
        kind, option = await looking.event()
        assert (kind, missing(first, figures(option))) == ("ADDED", {})
        yield looking
