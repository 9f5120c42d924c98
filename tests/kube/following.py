"""An informer that a test runs, with what it has told so far."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from shared.core.model import Change, Gone, Object, Put
from shared.kube.collections import Collection
from shared.kube.connect import Connection
from shared.kube.credentials import Credentials, Source
from shared.kube.informer import Informer
from shared.kube.kubeconfig import Kubeconfig
from shared.kube.pace import Pace
from shared.kube.reflector import Report
from tests.cluster.access import ADMIN, Access, User
from tests.cluster.waiting import wait_until

PACE = Pace(watch=(3, 5), stall=2.0, overtime=3.0, absent=0.5, page=10.0)
"""A reflector in a hurry, so that a drill takes seconds."""


@dataclass(frozen=True, slots=True)
class Through:
    """A user's credentials, with the server reached at another port of this machine."""

    kubeconfig: Kubeconfig
    port: int | None = None

    async def read(self) -> Credentials:
        """As `shared.kube.credentials.Source`."""
        got = await self.kubeconfig.read()
        if self.port is None:
            return got
        return dataclasses.replace(got, server=f"https://127.0.0.1:{self.port}")


def credentials(access: Access, user: User = ADMIN, port: int | None = None) -> Source:
    """A user's, straight at the API server unless a port is given."""
    return Through(Kubeconfig(access.kubeconfig(user)), port)


Key = tuple[str, str]


def key_of(value: Object) -> Key:
    """Namespace and name."""
    return (getattr(value, "namespace", ""), getattr(value, "name", ""))


@dataclass(slots=True)
class Following:
    """A running informer and the state that its changes add up to."""

    connection: Connection
    informer: Informer
    held: dict[tuple[str, Key], Object] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)

    def take(self, change: Change) -> None:
        """Apply a change as a state would, and check that it makes sense."""
        self.changes.append(change)
        value = change.object
        at = (type(value).__name__, key_of(value))
        match change:
            case Put():
                assert self.held.get(at) != value, f"put twice: {value}"
                self.held[at] = value
            case Gone():
                assert at in self.held, f"gone, but was never there: {value}"
                del self.held[at]

    def of(self, namespace: str) -> dict[str, Object]:
        """What is held in a namespace, by name."""
        return {name: v for (_, (space, name)), v in self.held.items() if space == namespace}

    def keys(self, kinds: Iterable[type[Object]]) -> set[Key]:
        """Namespaces and names of what is held of some kinds."""
        wanted = {kind.__name__ for kind in kinds}
        return {key for kind, key in self.held if kind in wanted}

    def gone(self, namespace: str) -> list[str]:
        """Names of what went in a namespace, in order."""
        return [
            key_of(change.object)[1]
            for change in self.changes
            if isinstance(change, Gone) and key_of(change.object)[0] == namespace
        ]

    def report(self, name: str) -> Report:
        """How one collection stands."""
        return next(report for report in self.informer.reports() if report.name == name)

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait for a condition on what is held."""

        async def asked() -> Any:  # noqa: ANN401 - whatever it is, it is judged as a boolean
            return condition()

        await wait_until(asked, what)


def _nothing(informer: Informer) -> None:
    del informer


@contextlib.asynccontextmanager
async def following(
    source: Source,
    collections: Iterable[Collection[Object]] = (),
    pace: Pace = PACE,
    also: Callable[[Informer], None] = _nothing,
    credentials_clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Following]:
    """Follow for as long as the block runs; it begins at once, not when synced.

    Args:
        source: credentials.
        collections: of model values.
        pace: of all reflectors.
        also: gets the informer before it runs, to follow what else there is.
        credentials_clock: by which credentials age.
    """
    async with Connection(source, clock=credentials_clock, user_agent="test/1") as connection:
        informer = Informer(
            connection,
            collections,
            lambda change: got.take(change),
            clock=time.monotonic,
            chance=random.Random(),
            pace=pace,
        )
        got = Following(connection, informer)
        also(informer)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(informer.run())
            yield got
            running.cancel()


async def listed(
    connection: Connection, collection: Collection[Object], params: Mapping[str, str] | None = None
) -> dict[Key, Object]:
    """The collection as a fresh list of the API server has it."""
    body = orjson.loads(await connection.request("GET", collection.path, params=params))
    problems: list[str] = []
    values = [collection.decode(raw, problems.append) for raw in body["items"]]
    return {key_of(value): value for value in values}
