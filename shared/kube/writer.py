"""Writes to the API server, each with one outcome.

A write says of which version of its object it is, so that it can be sent without asking first:
what changed in between is refused. It is sent once, except where the server says that it did not
look at it (429). Whether an unanswered one was carried out nobody knows; it bears a deadline, so
that it is known from when on it can not be carried out any more, and then a read tells.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import orjson
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from shared.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    RequestError,
    TooManyRequests,
)
from shared.fields import Json, mapping
from shared.kube.outcomes import Done, Missing, Outcome, Refused, Stale, Unknown, Withheld
from shared.kube.requests import Requests, parsed
from shared.kube.window import Window

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"

_ATTEMPTS_MAX: Final = 4
_TEST_FAILED: Final = "the server rejected our request due to an error in our request"
_WEBHOOK_FAILED: Final = "failed calling webhook"
"""What the API server says, as an InternalError, of a webhook that is away; it stores nothing."""


class _Withheld(Exception):
    """Writing is not ours any more."""


class Writer:
    """Sends writes, so many at a time.

    Args:
        connection: to the API server.
        may_write: asked right before anything is sent, also before it is sent again.
        clock: monotonic seconds.
        chance: spreads what is sent again.
        timeout: seconds for one request, here and at the API server.
        at_once: how many requests may be under way, fewer while answers are lost.
        at_least: how many also then.
    """

    def __init__(
        self,
        connection: Requests,
        *,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
        chance: random.Random,
        timeout: float = 5.0,
        at_once: int = 32,
        at_least: int = 8,
    ) -> None:
        self._connection = connection
        self._may_write = may_write
        self._clock = clock
        self._chance = chance
        self._window = Window(at_once, at_least)
        self.timeout = timeout
        self.counts: Counter[tuple[str, str]] = Counter()
        """How many writes of each verb had each outcome."""

    async def create(self, path: str, body: Json) -> Outcome:
        """Create an object in the collection of this path."""
        return await self._send("create", "POST", path, body)

    async def json_patch(self, path: str, operations: Sequence[Json]) -> Outcome:
        """Change an object, or a subresource; a `test` that fails makes it stale."""
        return await self._send("patch", "PATCH", path, list(operations), JSON_PATCH)

    async def merge_patch(self, path: str, body: Json, *, version: str = "") -> Outcome:
        """Change an object, or with the path of its `status` that.

        Args:
            path: the object's.
            body: what changes; None takes a field away, and a list is replaced whole.
            version: the object must still be of this version, which no other object ever had.
        """
        if version:
            metadata = {**mapping(body.get("metadata")), "resourceVersion": version}
            body = {**body, "metadata": metadata}
        return await self._send("patch", "PATCH", path, body, MERGE_PATCH)

    async def delete(self, path: str, *, uid: str = "", version: str = "") -> Outcome:
        """Delete an object, if it is this one and of this version."""
        known = {"uid": uid, "resourceVersion": version}
        preconditions = {key: value for key, value in known.items() if value}
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        return await self._send("delete", "DELETE", path, body)

    async def read(self, path: str) -> Json | None:
        """An object as it is now, past every cache; None where there is none.

        Raises:
            ApiError: it cannot be read.
        """
        try:
            body = await self._connection.request("GET", path, timeout_seconds=self.timeout)
        except NotFound:
            return None
        return parsed(body, path)

    async def _send(
        self, verb: str, method: str, path: str, body: object, content: str = "application/json"
    ) -> Outcome:
        async with self._window.request() as begun:
            outcome = await self._outcome(method, path, body, content)
            if isinstance(outcome, Unknown):
                self._window.lost(begun)
            elif not isinstance(outcome, Withheld):
                self._window.answered()
        self.counts[verb, type(outcome).__name__] += 1
        return outcome

    async def _outcome(self, method: str, path: str, body: object, content: str) -> Outcome:
        try:
            answer = await self._answer(method, path, body, content)
        except _Withheld:
            return Withheld()
        except (Conflict, AlreadyExists) as error:
            return Stale(error.message)
        except NotFound as error:
            return Missing(error.message)
        except ApiError as error:
            return self._failed(error, content)
        try:
            return Done(mapping(orjson.loads(answer)))
        except orjson.JSONDecodeError:
            return Unknown("the answer is not JSON", self._clock() + self.timeout)

    def _failed(self, error: ApiError, content: str) -> Outcome:
        if content == JSON_PATCH and error.message.startswith(_TEST_FAILED):
            return Stale(error.message)
        if isinstance(error, RequestError) or _WEBHOOK_FAILED in error.message:
            causes = tuple(cause.reason for cause in error.causes)
            return Refused(error.code, error.reason, error.message, causes)
        return Unknown(error.message, self._clock() + self.timeout)

    async def _answer(self, method: str, path: str, body: object, content: str) -> bytes:
        """Send until somebody looked at it.

        Raises:
            ApiError: what came of it.
            _Withheld: it was not sent.
        """
        attempts = AsyncRetrying(
            retry=retry_if_exception_type(TooManyRequests),
            stop=stop_after_attempt(_ATTEMPTS_MAX),
            wait=self._wait,
            sleep=asyncio.sleep,
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                if not self._may_write():
                    raise _Withheld
                return await self._connection.request(
                    method,
                    path,
                    # kube-apiserver gives up what it could not carry out by then.
                    params={"timeout": f"{self.timeout:g}s"},
                    body=body,
                    headers={"Content-Type": content},
                    timeout_seconds=self.timeout,
                )
        raise AssertionError("the last attempt returns or raises")

    def _wait(self, state: RetryCallState) -> float:
        """As long as the server asked for, within a request's time, and a little by chance."""
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after if isinstance(error, ApiError) else None
        return min(float(asked or 1), self.timeout) * (1 + self._chance.random() / 5)
