"""Where the actors of a simulation stand: the API server, virtual time, and who does what when.

Actors do not race within themselves: each of their steps reads and writes at one moment. They
race with the binder and with each other, since each step comes some time after what it answers.
"""

from __future__ import annotations

import asyncio
import datetime
import random
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.fake_api import FakeApi
from tests.simulation.kinds import Kind
from tests.simulation.store import Change, Key, Store

Raw = dict[str, Any]

NOON: Final = datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.UTC)
"""Second 0 of virtual time."""

Step = Callable[[], object]


@dataclass(slots=True)
class Stage:
    """What actors have in common.

    Attributes:
        api: read and written at once, as any account.
        chance: theirs alone.
        failure: the first error of a step; a simulation ends with it.
        refusing: how many more launchers a node's kubelet refuses.
    """

    api: FakeApi
    chance: random.Random
    loop: asyncio.AbstractEventLoop
    failure: BaseException | None = None
    refusing: Counter[str] = field(default_factory=Counter)
    _planned: set[Hashable] = field(default_factory=set)

    @property
    def store(self) -> Store:
        """What the API server stands on."""
        return self.api.store

    def now(self) -> datetime.datetime:
        """The time."""
        return NOON + datetime.timedelta(seconds=self.loop.time())

    def get(self, kind: Kind, namespace: str, name: str) -> Raw | None:
        """An object, or None."""
        return self.store.get(kind, (namespace, name))

    def plan(self, what: Hashable, seconds: float, step: Step) -> None:
        """Take a step later; one that is planned already is not planned again."""
        if what in self._planned:
            return
        self._planned.add(what)

        def take() -> None:
            self._planned.discard(what)
            try:
                step()
            except BaseException as error:
                self.failure = self.failure or error
                raise

        self.loop.call_later(seconds, take)

    def soon(self, what: Hashable, step: Step, least: float = 0.005, most: float = 0.06) -> None:
        """Take a step as soon as who takes it has seen that he should."""
        self.plan(what, self.chance.uniform(least, most), step)

    def on(self, kinds: tuple[Kind, ...], told: Callable[[Change], None]) -> None:
        """Be told of each change of some kinds."""

        def tell(change: Change) -> None:
            if change.kind in kinds:
                told(change)

        self.store.on_change.append(tell)


def key_of(obj: Raw) -> Key:
    """Namespace and name."""
    metadata = obj["metadata"]
    return (str(metadata.get("namespace", "")), str(metadata["name"]))
