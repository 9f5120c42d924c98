"""A state in which a pass tries out what it decides, and leaves as it found it.

Each placement is laid into the state before the next is decided, so that every reading of it
(stock, budgets, room on nodes) is the one that all others use.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from shared.core.cluster import ClusterState
from shared.core.model import Change, Claim, Gone, Key, Pod, Put


class Trial:
    """Lays claims and pods into a state, until the `with` block ends."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self._claims: dict[Key, Claim | None] = {}
        self._pods: dict[Key, Pod | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        holders = self.state.holders
        back: list[Change] = [
            Put(claim) if claim is not None else Gone(holders.claims[key])
            for key, claim in self._claims.items()
        ]
        back += [Put(pod) for pod in self._pods.values() if pod is not None]
        self.state.apply_all(back)

    def put(self, *values: Claim | Pod) -> None:
        """From here on these claims and pods are so."""
        if values:
            self._remember(values)
            self.state.apply_all(map(Put, values))

    def take(self, *values: Claim | Pod) -> None:
        """From here on there are no such claims and pods."""
        if values:
            self._remember(values)
            self.state.apply_all(map(Gone, values))

    def _remember(self, values: Iterable[Claim | Pod]) -> None:
        holders = self.state.holders
        for value in values:
            if isinstance(value, Claim):
                self._claims.setdefault(value.key, holders.claims.get(value.key))
            else:
                self._pods.setdefault(value.key, holders.pods.get(value.key))
