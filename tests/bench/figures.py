"""What a state answers, as values that can be compared, and views that are kept up to date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from shared.core.capacity import Capacity
from shared.core.cluster import ClusterState, Touched
from shared.core.options import Option
from shared.core.tenants import is_within

Options = dict[tuple[str, str], Option | None]


def figures(state: ClusterState) -> tuple[dict[str, Capacity], Options]:
    """Every capacity and every option."""
    names = sorted(state.classes)
    return (
        {name: state.capacity(name) for name in names},
        {(each, name): state.option(each, name) for each in state.namespaces for name in names},
    )


def touched_options(
    touched: Touched, namespaces: Sequence[str], classes: Iterable[str]
) -> set[tuple[str, str]]:
    """Those options of some namespaces that a change may have changed."""
    if touched.everything:
        return {(each, name) for each in namespaces for name in classes}
    found = {(each, name) for each in namespaces for name in touched.classes}
    for each in namespaces:
        if any(is_within(each, top) for top in touched.namespaces):
            found |= {(each, name) for name in classes}
        found |= {(each, name) for name, top in touched.budgets if is_within(each, top)}
    return found


@dataclass(slots=True)
class Views:
    """The options of the namespaces that somebody looks at."""

    names: Sequence[str]
    options: Options = field(default_factory=dict)

    @classmethod
    def of(cls, state: ClusterState, names: Sequence[str]) -> Self:
        """Read all options of some namespaces."""
        made = cls(names)
        made.refresh(state, [Touched(everything=True)])
        return made

    def refresh(self, state: ClusterState, touched: Iterable[Touched]) -> int:
        """Read again what changes touched; returns how many options that were."""
        found: set[tuple[str, str]] = set()
        for each in touched:
            found |= touched_options(each, self.names, state.classes)
        for namespace, name in found:
            self.options[namespace, name] = state.option(namespace, name)
        return len(found)
