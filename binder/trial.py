"""A state in which a pass tries out what it decides, and leaves as it found it.

Each placement is laid into the state before the next is decided, so that every reading of it
(stock, budgets, room on nodes) is the one that all others use.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from shared.core.cluster import ClusterState
from shared.core.model import Claim, Gone, Key, Pod, Put


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
        for key, claim in self._claims.items():
            if claim is not None:
                self.state.apply(Put(claim))
            elif key in holders.claims:
                self.state.apply(Gone(holders.claims[key]))
        for pod in self._pods.values():
            if pod is not None:
                self.state.apply(Put(pod))

    def put(self, value: Claim | Pod) -> None:
        """From here on a claim or pod is this."""
        self._remember(value)
        self.state.apply(Put(value))

    def take(self, value: Claim | Pod) -> None:
        """From here on there is no such claim or pod."""
        self._remember(value)
        self.state.apply(Gone(value))

    def _remember(self, value: Claim | Pod) -> None:
        holders = self.state.holders
        if isinstance(value, Claim):
            self._claims.setdefault(value.key, holders.claims.get(value.key))
        else:
            self._pods.setdefault(value.key, holders.pods.get(value.key))
