"""Which of the nodes that a set fits takes it (rule 7.6).

The fullest: the one with the fewest units left of the set's devices, so that whole nodes stay
free for large sets. Among equals the one that offers the least of what is scarce to others: of each
other device that is free there, the share that it is of all that is free of it, added up; then the
one with the least CPU left, which all need. Then by name. So the answer follows from the state
alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby

from shared.core.capacity import tolerates_all
from shared.core.demand import Demand, Part
from shared.core.eligibility import CHAIN, Case, Chain, Hindrance, Misfit, fits, hindrance
from shared.core.sites import CPU, Kind, Sites
from shared.reasons import Figures, Reason, Words

_WHOLE = 1_000_000
"""Shares are counted in millionths: whole numbers add up to the same in any order."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The node that takes the whole set."""

    node: str


def place(demand: Demand, sites: Sites, chain: Chain = CHAIN) -> Placed | Misfit:
    """The node for a set, or the reason why there is none.

    Where orders of the set are booked it stays, if that node takes the whole set (rule 7.5). The
    next decision sees this one when it has been applied to the state that `sites` follow.
    """
    if demand.stays_on and fits(demand, demand.stays_on, sites, chain):
        return Placed(demand.stays_on)
    case = Case(demand, sites)
    furthest: Hindrance | None = None
    for name in _candidates(demand, sites):
        found = hindrance(case, sites.by_name[name], chain)
        if found is None:
            return Placed(name)
        if furthest is None or found.rank > furthest.rank:
            furthest = found
    misfit = _misfit(demand, sites, furthest)
    return replace(misfit, is_shut_out=bool(demand.stays_on) and _is_shut(case, chain))


def _is_shut(case: Case, chain: Chain) -> bool:
    """Whether no VM can start where the set's orders are booked, whatever is free there."""
    home = case.sites.by_name.get(case.demand.stays_on)
    found = None if home is None else hindrance(case, home, chain)
    return home is None or (found is not None and found.reason is Reason.NO_CAPACITY)


def _candidates(demand: Demand, sites: Sites) -> Iterator[str]:
    """The nodes that have room for the whole set, the best first.

    In the end come those with less CPU than its pod asks for: they can only say why not.
    """
    scored: list[tuple[int, int, Kind]] = []
    for kind in _roomy(demand, sites):
        left = sum(kind.free[resource] for resource in demand.units)
        scored.append((left, _offer(kind, demand, sites), kind))
    scored.sort(key=lambda each: each[:2])
    asked = demand.pod.requests.get(CPU, 0) if demand.pod is not None else 0
    short: list[tuple[int, str]] = []
    for _, equals in groupby(scored, key=lambda each: each[:2]):
        parts = []
        for *_, kind in equals:
            enough = bisect_left(kind.nodes, (asked, "")) if asked else 0
            short += kind.nodes[:enough]
            parts.append(kind.nodes[enough:])
        for _, name in merge(*parts):
            yield name
    for _, name in short:
        yield name


def _roomy(demand: Demand, sites: Sites) -> Iterator[Kind]:
    """The kinds of nodes with room for all devices of a set at once, tolerated by its classes."""
    (first, least), *others = demand.units.items()
    for free, kinds in sites.kinds(first).items():
        if free >= least:
            for kind in kinds:
                if all(kind.free.get(each, 0) >= units for each, units in others) and _tolerated(
                    demand.parts, kind
                ):
                    yield kind


def _offer(kind: Kind, demand: Demand, sites: Sites) -> int:
    """How much of what is scarce to others a node offers."""
    return sum(
        units * _WHOLE // sites.free(resource)
        for resource, units in kind.free.items()
        if resource not in demand.units
    )


def _tolerated(parts: Iterable[Part], kind: Kind) -> bool:
    return not kind.taints or all(tolerates_all(each.tolerations, kind.taints) for each in parts)


def _misfit(demand: Demand, sites: Sites, furthest: Hindrance | None) -> Misfit:
    """The most telling reason why a set fits nowhere (rule 3.4).

    One class that is in the way by itself is told of alone, the first in the order of the set.
    """
    stock = {each: _stock(demand, each, sites) for each in demand.units}
    told = {each: _told(demand, each, *stock[each]) for each in demand.units}
    for resource, units in demand.units.items():
        if stock[resource][0] < units:
            return Misfit(Reason.NO_CAPACITY, (told[resource],))
    if furthest is not None:
        return Misfit(furthest.reason, tuple(told.values()), Words(why=furthest.why))
    for resource, units in demand.units.items():
        if stock[resource][1] < units:
            return Misfit(Reason.SET_DOES_NOT_FIT_ONE_NODE, (told[resource],))
    what = Words(what="both" if len(told) == 2 else "all")
    return Misfit(Reason.SET_DOES_NOT_FIT_ONE_NODE, tuple(told.values()), what)


def _stock(demand: Demand, resource: str, sites: Sites) -> tuple[int, int]:
    """Units of a device that are free, and the most that are free on one node.

    Only nodes count of which the classes of the set that name the device tolerate the taints.
    """
    parts = [part for part in demand.parts if part.resource == resource]
    free = [
        (free, len(kind.nodes))
        for free, kinds in sites.kinds(resource).items()
        for kind in kinds
        if _tolerated(parts, kind)
    ]
    return sum(units * nodes for units, nodes in free), max((units for units, _ in free), default=0)


def _told(demand: Demand, resource: str, free: int, largest: int) -> tuple[str, Figures]:
    """The class of a device with what its tenants may know, as a Misfit has it."""
    parts = [part for part in demand.parts if part.resource == resource]
    name = parts[0].class_name if len(demand.units) > 1 else ""
    figures = Figures(asked=demand.units[resource])
    if all(part.is_disclosed for part in parts):
        figures = replace(figures, free=free, largest=largest)
    return name, figures
