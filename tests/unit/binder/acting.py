"""An API server that answers each write as told, and a writer on it, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

import looptime
import orjson

from shared.errors import ApiError, NotFound
from shared.kube.writer import Writer

T = TypeVar("T")
Answer = ApiError | bytes | dict[str, Any]


@dataclass
class Server:
    """Answers by method and end of the path; what is not told is answered with a new version."""

    answers: dict[tuple[str, str], list[Answer]] = field(default_factory=dict)
    asked: list[tuple[float, str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    seconds: float = 0.01
    version: int = 100

    def answer(self, method: str, end: str, *answers: Answer) -> None:
        """These come in order for that; the last one again and again where it is the only one."""
        self.answers[method, end] = list(answers)

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
        del params, headers, timeout_seconds
        self.asked.append((asyncio.get_running_loop().time(), method, path))
        self.bodies.append(body)
        await asyncio.sleep(self.seconds)
        found = self._told(method, path)
        if isinstance(found, ApiError):
            raise found
        return found if isinstance(found, bytes) else orjson.dumps(found)

    def _told(self, method: str, path: str) -> Answer:
        for (told, end), answers in self.answers.items():
            if told == method and path.endswith(end) and answers:
                return answers.pop(0) if len(answers) > 1 else answers[0]
        if method == "GET":
            return NotFound("none")
        self.version += 1
        return {"metadata": {"name": path.rpartition("/")[2], "resourceVersion": str(self.version)}}

    @property
    def story(self) -> list[str]:
        """Method and last part of each path, in order."""
        return [f"{method} {'/'.join(path.split('/')[-2:])}" for _, method, path in self.asked]


def play(
    scene: Callable[[Writer], Awaitable[T]],
    server: Server,
    may_write: Callable[[], bool] = lambda: True,
) -> T:
    """Play a scene in virtual time."""

    async def main() -> T:
        clock = asyncio.get_running_loop().time
        return await scene(
            Writer(server, may_write=may_write, clock=clock, chance=Random(1), timeout=5.0)
        )

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(main())
