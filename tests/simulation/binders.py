"""The binders that can be simulated, by the names that the command line takes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from binder import __main__ as process
from tests.simulation.judge import INVARIANTS, Invariant, a_node_that_refused_is_skipped
from tests.simulation.naive import Naive
from tests.simulation.naive_hands import Fault
from tests.simulation.simulation import Binder, Surroundings

DEFAULT: Final = "gpu-binder"
"""Who is simulated unless somebody else is named."""

NOT_YET: Final[tuple[Invariant, ...]] = (a_node_that_refused_is_skipped,)
"""What our own binder is not judged by: it remembers no refusals (rule 7.10 is not built)."""


@dataclass(frozen=True, slots=True)
class GpuBinder:
    """Our own process as it is composed for production, on the network and the clocks given."""

    name: str = DEFAULT

    async def __call__(self, surroundings: Surroundings) -> None:
        """One process; it ends by itself where it cannot keep its Lease."""
        at = process.Surroundings(
            surroundings.name,
            surroundings.clock,
            lambda: surroundings.wall().timestamp(),
            surroundings.chance,
        )
        made = process.Process(process.BinderSettings(), surroundings.connection, at)
        async with asyncio.TaskGroup() as tasks:
            for name, job in made.jobs().items():
                tasks.create_task(job, name=name)


def invariants_of(binder: Binder) -> Sequence[Invariant]:
    """By what a binder is judged: by all, but for what our own cannot do yet."""
    if not isinstance(binder, GpuBinder):
        return INVARIANTS
    return [each for each in INVARIANTS if each not in NOT_YET]


def binder_named(name: str) -> Binder:
    """A binder: our own, or `naive`, which may have faults: `naive:OLD_VIEW:ONE_TERM`.

    Raises:
        LookupError: there is none of that name; the message says which there are.
    """
    first, *faults = name.split(":")
    if name == DEFAULT:
        return GpuBinder()
    if first != "naive":
        raise LookupError(f"--binder {name}: there is no such binder, only {DEFAULT} and naive")
    unknown = [each for each in faults if each not in Fault.__members__]
    if unknown:
        known = ", ".join(Fault.__members__)
        raise LookupError(f"--binder {name}: {unknown[0]} is no fault of naive, those are {known}")
    return Naive(frozenset(Fault[each] for each in faults))
