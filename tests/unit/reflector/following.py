"""Follow a script for some virtual time, and what comes of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import looptime

from shared.core.model import Claim, Pod
from shared.kube import decode
from shared.kube.collections import Collection
from shared.kube.pace import Pace
from shared.kube.reflector import Reflector
from tests.unit.scripted_api import (
    Answer,
    Raw,
    ScriptedApi,
)

PODS = Collection("pods", "/api/v1/pods", decode.pod)
PACE = Pace(watch=(300, 300))
HOUR = 3600.0


def pod(name: str, version: int, *, node: str = "", uid: str = "", phase: str = "Running") -> Raw:
    return {
        "metadata": {
            "namespace": "tenant-a",
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase},
    }


@dataclass
class Seen:
    """A sink that remembers; what it holds is what a state would hold."""

    steps: list[tuple[str, Any]] = field(default_factory=list)
    held: dict[str, Any] = field(default_factory=dict)

    def put(self, value: Pod | Claim) -> None:
        assert self.held.get(value.name) != value, "put twice without a change"
        self.steps.append(("put", value))
        self.held[value.name] = value

    def gone(self, value: Pod | Claim) -> None:
        assert value.name in self.held, "gone, but was never there"
        self.steps.append(("gone", value))
        del self.held[value.name]

    @property
    def story(self) -> list[str]:
        return [f"{what} {value.name}" for what, value in self.steps]


@dataclass
class Followed:
    """What came of following a script for some virtual time."""

    api: ScriptedApi
    seen: Seen
    reflector: Reflector[Any]
    now: float

    @property
    def age(self) -> float:
        return self.reflector.age(self.now)


def follow(
    script: Sequence[Answer],
    *,
    seconds: float = 200.0,
    collection: Collection[Any] = PODS,
    pace: Pace = PACE,
    each_step: Callable[[Reflector[Any], float], None] | None = None,
) -> Followed:
    """Run a reflector against a script for `seconds` of virtual time."""
    api, seen = ScriptedApi(list(script)), Seen()

    async def main() -> Followed:
        clock = asyncio.get_running_loop().time
        reflector = Reflector(
            collection,
            api,
            seen,
            clock=clock,
            chance=random.Random(7),
            pace=pace,
            on_standing=lambda: each_step and each_step(reflector, clock()),
        )
        try:
            async with asyncio.timeout(seconds):
                await reflector.run()
        except TimeoutError:
            pass
        return Followed(api, seen, reflector, clock())

    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        return runner.run(main())


CLAIMS = Collection("gpuclaims", "/apis/gpu.cozystack.io/v1alpha1/gpuclaims", decode.claim)


def claim(name: str, version: int, count: object = 1, uid: str = "u") -> Raw:
    return {
        "metadata": {
            "namespace": "tenant-a",
            "name": name,
            "uid": uid,
            "resourceVersion": str(version),
        },
        "spec": {"className": "a100", "count": count},
    }
