"""Whether texts of claims that wait are written at a pace (rule 7.9)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from shared import vocabulary as v
from tests.binder.history import State
from tests.binder.truth import Key, claim_names
from tests.cluster.api import Object
from tests.kubevirt.objects import name_of, namespace_of, status_of

SECONDS_MIN: Final = 25.0
"""A text stands for 30 seconds; watches may show one a little late and the next one at once."""


@dataclass(slots=True)
class Paces:
    """Follows the states of claims, and looks at each that says the same in other words.

    The claims of a VM are written together, and what else is new on one of them brings the words
    of the others with it; so only claims that a VM has alone, or that none has, are looked at.

    Attributes:
        reworded: how often one said the same in other words.
        wrong: those that stood for too short a time.
    """

    reworded: int = 0
    wrong: list[str] = field(default_factory=list)
    _shared: set[Key] = field(default_factory=set)
    """Claims that are one of several of a VM, or were."""
    _since: dict[Key, tuple[Object, float]] = field(default_factory=dict)
    """The status of each claim, and since when it is so."""

    def follow(self, states: Iterable[State]) -> None:
        """Take in what was so, in order."""
        for state in states:
            if state.object["kind"] == v.KIND_CLAIM:
                self._claim(state)
            elif state.object["kind"] == v.KIND_VMI:
                names = claim_names(state.object)
                if len(names) > 1:
                    self._shared.update((namespace_of(state.object), name) for name in names)

    def _claim(self, state: State) -> None:
        key = namespace_of(state.object), name_of(state.object)
        before, since = self._since.pop(key, ({}, state.at))
        if state.is_gone:
            return
        now = status_of(state.object)
        self._since[key] = (now, since if now == before else state.at)
        if key in self._shared or now == before or not now.get("waiting"):
            return
        if _without_words(now) == _without_words(before):
            self.reworded += 1
            stood = state.at - since
            if stood < SECONDS_MIN:
                told = now["waiting"].get("message")
                self.wrong.append(
                    f"{'/'.join(key)} was told {told!r} {stood:.1f} s after other words for the"
                    f" same: version {state.version}"
                )


def _without_words(status: Object) -> Object:
    conditions = [{**each, "message": ""} for each in status.get("conditions") or ()]
    waiting = {**(status.get("waiting") or {}), "message": ""}
    return {**status, "conditions": conditions, "waiting": waiting}
