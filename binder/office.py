"""Terms of office: the second fence, for a leader that slept between its check and its send.

Each leader raises the epoch in the GPUSystem before it books anything, and a policy refuses what
carries an older one (rule 7.1).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import structlog

from shared.errors import ApiError, NotFound
from shared.fields import NOTHING, Json, mapping, mappings, text, version_of, whole
from shared.kube.outcomes import Done, Missing, Outcome, Refused, Stale, Unknown, Withheld
from shared.kube.pace import backoff
from shared.kube.paths import collection, item
from shared.kube.requests import Requests, parsed
from shared.kube.writer import Writer
from shared.vocabulary import (
    EPOCH_MAX,
    GROUP_VERSION,
    KIND_SYSTEM,
    RESOURCE_CLAIMS,
    RESOURCE_SYSTEMS,
    SYSTEM_NAME,
)

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

SYSTEMS: Final = collection(GROUP_VERSION, RESOURCE_SYSTEMS)
SYSTEM: Final = item(GROUP_VERSION, RESOURCE_SYSTEMS, SYSTEM_NAME)
CLAIMS: Final = collection(GROUP_VERSION, RESOURCE_CLAIMS)

_PAGE: Final = "500"


def epoch_of(raw: Json) -> int | None:
    """The epoch in the status of a GPUSystem or a claim; None where it has none."""
    return whole(mapping(raw.get("status")).get("epoch"))


def next_epoch(system: Json, known: Iterable[int]) -> int:
    """An epoch above all that were used: a GPUSystem can be made anew, or be set back.

    The highest that there may be was not reached by counting: somebody wrote it, and who went on
    from there would never begin a term again. It counts for none.

    Args:
        system: the GPUSystem, empty where it was just made.
        known: epochs of claims, and others that were seen.
    """
    return max(_counted(epoch_of(system), *known)) + 1


def _counted(*epochs: int | None) -> list[int]:
    """Those that terms may have come to, and 0."""
    return [0, *(each for each in epochs if each is not None and each < EPOCH_MAX)]


async def take(
    writer: Writer,
    connection: Requests,
    reread: Callable[[], Awaitable[None]],
    followed: FollowedSystem,
    *,
    wrote: Callable[[Json], None],
    chance: random.Random,
    hindered: Callable[[str], None],
) -> int:
    """Begin a term: from now on nothing that an older leader sends is taken, and all is known.

    Reads everything afresh, raises the epoch, waits until what was sent before has been carried
    out or never will be, and reads everything again.

    Args:
        writer: of this process.
        connection: reads the claims.
        reread: reads everything afresh.
        followed: the GPUSystem as it is followed.
        wrote: told of the GPUSystem as it was written.
        chance: for pauses.
        hindered: told why the term has not begun, each time that it has to be tried again.

    Returns:
        The epoch of this term.
    """
    await reread()
    failures = 0
    while isinstance(epoch := await _raise_epoch(writer, connection, followed, wrote), str):
        hindered(epoch)
        failures += 1
        await asyncio.sleep(backoff(failures, chance.random()))
    await asyncio.sleep(writer.timeout)
    await reread()
    log.info("term begun", epoch=epoch)
    return epoch


async def _raise_epoch(
    writer: Writer,
    connection: Requests,
    followed: FollowedSystem,
    wrote: Callable[[Json], None],
) -> int | str:
    """Raise it by what is there now; words where that has to be tried again."""
    try:
        system = await writer.read(SYSTEM)
        claims = await _epochs_of_claims(connection)
    except ApiError as error:
        why = f"{type(error).__name__}: {error}"
        log.warning("epoch not read", error=why)
        return f"epoch not read: {why}"
    if system is None:
        made = await writer.create(SYSTEMS, _new_system())
        if not isinstance(made, Done):
            return _not_yet("GPUSystem not created", made)
        system = made.object
    epoch = next_epoch(system, [*claims, followed.highest])
    version = version_of(system)
    raised = await writer.merge_patch(
        f"{SYSTEM}/status", {"status": {"epoch": epoch}}, version=version
    )
    if not isinstance(raised, Done):
        return _not_yet("epoch not raised", raised)
    wrote(raised.object)
    return epoch


async def _epochs_of_claims(connection: Requests) -> list[int]:
    """The highest epoch of each page of claims that counts; none where the kind is not served."""
    found: list[int] = []
    params = {"limit": _PAGE}
    while True:
        try:
            page = parsed(await connection.request("GET", CLAIMS, params=params), CLAIMS)
        except NotFound:
            return found
        found.append(max(_counted(*map(epoch_of, mappings(page.get("items"))))))
        token = text(mapping(page.get("metadata")).get("continue"))
        if not token:
            return found
        params = {"limit": _PAGE, "continue": token}


def _new_system() -> Json:
    return {"apiVersion": GROUP_VERSION, "kind": KIND_SYSTEM, "metadata": {"name": SYSTEM_NAME}}


def _not_yet(what: str, outcome: Outcome) -> str:
    level = log.debug if isinstance(outcome, Stale | Withheld) else log.warning
    level(what, outcome=outcome)
    match outcome:
        case Refused() | Stale() | Missing() | Unknown():
            return f"{what}: {outcome.message}"
        case Done() | Withheld():
            return what


class FollowedSystem:
    """The GPUSystem as it is followed; a sink for its collection.

    Attributes:
        raw: the object, empty where there is none.
        highest: the highest epoch that it ever had here by counting. Of a term in which nothing
            was booked no claim tells once the GPUSystem is deleted.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self.raw: Json = NOTHING
        self.highest = 0

    def put(self, value: Json) -> None:
        """It was added or changed."""
        self.raw = value
        self.highest = max(self.highest, *_counted(epoch_of(value)))
        self._on_change()

    def gone(self, value: Json) -> None:
        """It was deleted."""
        del value
        self.raw = NOTHING
        self._on_change()
