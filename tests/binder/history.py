"""Every state that claims, pods and instances were in, in the order of their versions.

A watch shows each state, whoever wrote it and whatever was answered; the audit log tells who wrote
it. But what came of a write that was answered with 504 the audit log alone does not tell.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import orjson

from shared import vocabulary as v
from tests.catalog.objects import CLAIM
from tests.cluster.api import Api, Object
from tests.cluster.plane import ControlPlane
from tests.cluster.waiting import wait_until
from tests.kubevirt import words as w
from tests.kubevirt.objects import uid_of

KINDS: Final = {v.KIND_CLAIM: CLAIM, "Pod": w.POD, v.KIND_VMI: w.VMI}
READS: Final = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class State:
    """One object from one moment on.

    Attributes:
        version: of the whole store: what has a higher one came later.
        at: when it was seen, in seconds of a monotonic clock.
        is_gone: whether it was deleted then; the object is how it was last.
    """

    version: int
    object: Object
    at: float = 0.0
    is_gone: bool = False


@dataclass(slots=True)
class Recorder:
    """Writes down what watches show, a file in this folder for each kind."""

    api: Api
    folder: Path
    _there: dict[str, dict[str, str]] = field(default_factory=dict)
    """By kind: the versions of all objects by uid."""

    async def states(self) -> Iterator[State]:
        """All states up to now, in order."""
        await wait_until(self._is_up_to_date, "the watches showed everything")
        return heapq.merge(*map(self._read, KINDS), key=lambda each: each.version)

    async def list(self, kind: str) -> str:
        """Write down all objects of a kind; returns the version that they are of together."""
        self._there[kind] = {}
        found = await self.api.call("GET", await self.api.path(KINDS[kind]))
        api_version, _, name = KINDS[kind].rpartition("/")
        for each in sorted(found["items"], key=_version):
            self._write(kind, each | {"apiVersion": api_version, "kind": name}, is_gone=False)
        return str(found["metadata"]["resourceVersion"])

    async def follow(self, kind: str, version: str) -> None:
        """Write down each state of a kind after this version, until it is cancelled."""
        while True:
            async with self.api.watch(KINDS[kind], resourceVersion=version) as events:
                async for event in events:
                    assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
                    self._write(kind, event["object"], is_gone=event["type"] == "DELETED")
                    version = event["object"]["metadata"]["resourceVersion"]

    def _write(self, kind: str, seen: Object, *, is_gone: bool) -> None:
        seen["metadata"].pop("managedFields", None)
        line = {"at": time.monotonic(), "gone": is_gone, "object": seen}
        with self._file(kind).open("ab") as lines:
            lines.write(orjson.dumps(line) + b"\n")
        if is_gone:
            self._there[kind].pop(uid_of(seen), None)
        else:
            self._there[kind][uid_of(seen)] = seen["metadata"]["resourceVersion"]

    async def _is_up_to_date(self) -> bool:
        for kind, served in KINDS.items():
            listed = await self.api.list(served)
            now = {uid_of(each): each["metadata"]["resourceVersion"] for each in listed}
            if self._there[kind] != now:
                return False
        return True

    def _file(self, kind: str) -> Path:
        return self.folder / f"history-{kind}.log"

    def _read(self, kind: str) -> Iterator[State]:
        with self._file(kind).open("rb") as lines:
            for line in lines:
                told = orjson.loads(line)
                yield State(_version(told["object"]), told["object"], told["at"], told["gone"])


@contextlib.asynccontextmanager
async def recording(plane: ControlPlane) -> AsyncIterator[Recorder]:
    """Record what there is, and what becomes of it for as long as the block runs."""
    recorder = Recorder(plane.cluster.admin, plane.at.logs)
    async with asyncio.TaskGroup() as tasks:
        following = []
        for kind in KINDS:
            version = await recorder.list(kind)
            following.append(tasks.create_task(recorder.follow(kind, version)))
        yield recorder
        for each in following:
            each.cancel()


def writers(events: Iterable[Object]) -> dict[int, str]:
    """Who wrote which version of such objects, by the audit log, of what was answered well."""
    found = {}
    for event in events:
        written = event.get("responseObject") or {}
        if (
            event["verb"] not in READS
            and event["stage"] == "ResponseComplete"
            and event["responseStatus"]["code"] < 300
            and written.get("kind") in KINDS
            and (version := written["metadata"].get("resourceVersion"))
            and not event["requestURI"].endswith("dryRun=All")
        ):
            found[int(version)] = f"{event['auditID']} {event['verb']} {event['requestURI']}"
    return found


def _version(obj: Object) -> int:
    return int(obj["metadata"]["resourceVersion"])
