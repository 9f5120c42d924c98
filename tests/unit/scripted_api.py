"""An API server of one collection that answers as a script says.

For what the real one cannot be made to do, or only after minutes. A script is the list of answers
in the order in which they are asked for. Asking for a list while the script has a watch next, or
the other way round, fails the test: it is the order that matters. After the last answer the
server is silent for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import orjson

from shared.errors import ApiError

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """A list, or a page of one where `more` is a continue token; it takes some `seconds`."""

    version: str
    items: tuple[Raw, ...] = ()
    more: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A watch: its events, then how it ends.

    `end` is an error, "agreed" (when `timeoutSeconds` is over), "early" (at once), or "never".
    """

    events: tuple[Raw | bytes, ...] = ()
    end: ApiError | str = "never"


Answer = Listed | Watched | ApiError | bytes
"""What a request gets; bytes are the body of a list."""


@dataclass(slots=True)
class ScriptedApi:
    """Serves the script and remembers what was asked: (time, what, query)."""

    script: list[Answer]
    asked: list[tuple[float, str, Mapping[str, str]]] = field(default_factory=list)

    @property
    def order(self) -> list[str]:
        """What was asked for, in order."""
        return [what for _, what, _ in self.asked]

    def query(self, index: int) -> Mapping[str, str]:
        """The query of one request."""
        return self.asked[index][2]

    def pauses(self) -> list[float]:
        """Seconds between the requests."""
        times = [at for at, _, _ in self.asked]
        return [later - earlier for earlier, later in pairwise(times)]

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> bytes:
        """A list."""
        del path, headers, timeout_seconds
        assert method == "GET"
        answer = await self._next("list", params or {})
        if isinstance(answer, bytes):
            return answer
        assert isinstance(answer, Listed), f"asked for a list, the script has {answer!r}"
        await asyncio.sleep(answer.seconds)
        metadata = {"resourceVersion": answer.version, "continue": answer.more}
        return orjson.dumps({"metadata": metadata, "items": answer.items})

    async def stream(
        self,
        path: str,
        params: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        idle_seconds: float,
    ) -> AsyncGenerator[bytes, None]:
        """A watch."""
        del path, headers, idle_seconds
        answer = await self._next("watch", params)
        assert isinstance(answer, Watched), f"asked for a watch, the script has {answer!r}"
        for event in answer.events:
            yield event if isinstance(event, bytes) else orjson.dumps(event)
        match answer.end:
            case ApiError() as error:
                raise error
            case "agreed":
                await asyncio.sleep(int(params["timeoutSeconds"]))
            case "early":
                return
            case _:
                await asyncio.Event().wait()

    async def _next(self, what: str, params: Mapping[str, str]) -> Answer:
        self.asked.append((asyncio.get_running_loop().time(), what, dict(params)))
        if not self.script:
            await asyncio.Event().wait()
        answer = self.script.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer


def event(kind: str, raw: Raw) -> Raw:
    """An event of a watch."""
    return {"type": kind, "object": raw}


def bookmark(version: str) -> Raw:
    """A bookmark."""
    return event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": version}})


def error(code: int, reason: str, message: str = "") -> Raw:
    """An ERROR event, as the API server sends it."""
    status = {"kind": "Status", "status": "Failure", "message": message or reason}
    return event("ERROR", {**status, "reason": reason, "code": code})
