"""Carries out what was decided: each action one write, each write one outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from binder.actions import (
    Action,
    AddFinalizer,
    BookClaim,
    DeleteClaim,
    DeletePod,
    FencePod,
    Kind,
    ReleaseClaim,
    RemoveFinalizer,
    ReportClaim,
    Result,
    StartPod,
    Tell,
    Work,
)
from binder.rendering import Create, Delete, Merge, Patch, path_of, render, target
from shared.errors import ApiError
from shared.fields import Json, mapping, text, version_of
from shared.kube.outcomes import Done, Missing, Outcome, Refused, Stale, Unknown, Withheld
from shared.kube.pace import backoff
from shared.kube.writer import Writer

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_GONE_IS_DONE: Final = (DeleteClaim, DeletePod, FencePod, RemoveFinalizer)


class Hand:
    """Carries out works in one term of office.

    Args:
        writer: of this process.
        epoch: of this term.
        wrote: told of each object that was written, or read after an answer was lost, with the
            name of its collection; of events it is not.
        told: told of each event that is there, or was given up.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        writer: Writer,
        epoch: int,
        *,
        wrote: Callable[[str, Json], None],
        told: Callable[[Tell], None],
        clock: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._epoch = epoch
        self._wrote = wrote
        self._told = told
        self._clock = clock

    async def perform(self, work: Work) -> Result:
        """Carry out a work.

        Returns once nothing of it is under way any more, nor unknown: until then a further
        decision about the same could give away what a write that was not answered may still take.
        """
        written: dict[tuple[Kind, str, str], Json] = {}
        for step in work.steps:
            outcomes = await self._step(tuple(_current(action, written) for action in step))
            for action, outcome in zip(step, outcomes, strict=True):
                if not _is_done(action, outcome):
                    return Result(work.key, action, outcome)
                if isinstance(outcome, Done):
                    written[_name(action)] = outcome.object
        return Result(work.key)

    async def _step(self, step: tuple[Action, ...]) -> list[Outcome]:
        if len(step) == 1:
            return [await self._act(step[0])]
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._act(action)) for action in step]
        return [task.result() for task in running]

    async def _act(self, action: Action) -> Outcome:
        kind, ref = target(action)
        log.debug("write", action=type(action).__name__, namespace=ref.namespace, name=ref.name)
        outcome = await self._send(action)
        if isinstance(action, Tell) and not isinstance(outcome, Withheld):
            self._told(action)
        match outcome:
            case Done() if isinstance(action, Tell):
                pass
            case Done(found):
                self._learn(kind, found)
            case Unknown(message, settled_at) if not isinstance(action, Tell):
                path = path_of(kind, ref)
                log.warning("answer lost", path=path, error=message)
                await asyncio.sleep(max(0.0, settled_at - self._clock()))
                await self._find_out(kind, path)
            case Stale() if not isinstance(action, Tell):
                # Perhaps by our own write: one that a proxy sends again is carried out, and its
                # second answer is a conflict.
                log.debug("write found something else", path=path_of(kind, ref), outcome=outcome)
                await self._find_out(kind, path_of(kind, ref))
            case Refused() | Unknown():
                log.warning(
                    "write failed",
                    action=type(action).__name__,
                    namespace=ref.namespace,
                    name=ref.name,
                    outcome=outcome,
                )
            case _:
                log.debug(
                    "write not carried out",
                    action=type(action).__name__,
                    namespace=ref.namespace,
                    name=ref.name,
                    outcome=outcome,
                )
        return outcome

    async def _send(self, action: Action) -> Outcome:
        match render(action, self._epoch):
            case Create(path, body):
                return await self._writer.create(path, body)
            case Merge(path, body, version):
                return await self._writer.merge_patch(path, body, version=version)
            case Patch(path, operations):
                return await self._writer.json_patch(path, operations)
            case Delete(path, uid, version):
                return await self._writer.delete(path, uid=uid, version=version)

    def _learn(self, kind: Kind, found: Json) -> None:
        """Know of it at once. What was deleted for good comes back as a Status, of no version."""
        if version_of(found):
            self._wrote(kind, found)

    async def _find_out(self, kind: Kind, path: str) -> None:
        """Read what there is; nothing of the write is under way any more."""
        began = self._clock()
        failures = 0
        while True:
            try:
                found = await self._writer.read(path)
            except ApiError as error:
                failures += 1
                if failures.bit_count() == 1:  # the first, second, fourth, eighth, …
                    since = round(self._clock() - began)
                    log.warning("not found out yet", path=path, seconds=since, error=str(error))
                await asyncio.sleep(backoff(failures, 0.5))
            else:
                if found is not None:
                    self._learn(kind, found)
                return


def _name(action: Action) -> tuple[Kind, str, str]:
    kind, ref = target(action)
    return kind, ref.namespace, ref.name


def _current(action: Action, written: Mapping[tuple[Kind, str, str], Json]) -> Action:
    """An action on the version that an earlier step of its work left, where it names none."""
    found = written.get(_name(action))
    if found is None or target(action)[1].version:
        return action
    metadata = mapping(found.get("metadata"))
    uid, version = text(metadata.get("uid")), text(metadata.get("resourceVersion"))
    match action:
        case BookClaim() | ReleaseClaim() | ReportClaim() | DeleteClaim():
            return replace(action, claim=replace(action.claim, uid=uid, version=version))
        case AddFinalizer() | RemoveFinalizer():
            return replace(action, object=replace(action.object, uid=uid, version=version))
        case StartPod():
            return replace(action, pod=replace(action.pod, version=version))
        case _:
            return action


def _is_done(action: Action, outcome: Outcome) -> bool:
    if isinstance(outcome, Missing) and isinstance(action, _GONE_IS_DONE):
        return True
    if isinstance(action, Tell) and not isinstance(outcome, Withheld):
        return True  # told before, or lost: nothing waits for an event
    return isinstance(outcome, Done)


def is_stale(result: Result) -> bool:
    """Whether a work only has to be decided anew."""
    return isinstance(result.outcome, Stale | Missing)
