"""What a set asks of the one node that is to take it (rule 7.5), as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.core.model import Pod, Volume
from shared.core.scheduling import Toleration


@dataclass(frozen=True, slots=True)
class Part:
    """Units of one class in a set; several parts may be of one class or one resource.

    `is_disclosed` is whether the class shows the figures of its stock.
    """

    class_name: str
    resource: str
    units: int
    tolerations: tuple[Toleration, ...] = ()
    is_disclosed: bool = True


@dataclass(frozen=True, slots=True)
class Demand:
    """One whole set that looks for a node.

    Attributes:
        parts: what it consists of, at least one.
        pod: the pod that waits to start, read with its `placing`; None for an idle set.
        volumes: the PersistentVolumes that the VM's claims are bound to.
        selected_nodes: nodes for which volumes of unbound claims are being made.
        stays_on: where orders of the set are booked, empty where none are. Their units count as
            free here: whoever asks takes the set out of the state before.
        skipped: nodes that refused the set, or that are not to be tried for another reason.
        reserved: nodes that are kept for older sets (rule 7.14).
    """

    parts: tuple[Part, ...]
    pod: Pod | None = None
    volumes: tuple[Volume, ...] = ()
    selected_nodes: frozenset[str] = frozenset()
    stays_on: str = ""
    skipped: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()
    units: Mapping[str, int] = field(init=False, repr=False, compare=False)
    """Units by resource, over all parts."""

    def __post_init__(self) -> None:
        units: dict[str, int] = {}
        for part in self.parts:
            units[part.resource] = units.get(part.resource, 0) + part.units
        object.__setattr__(self, "units", units)
