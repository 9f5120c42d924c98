"""What a VM is told in events while it does not start (rules 7.9 and 7.16)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

from binder.actions import Action, TellVmi
from binder.memory import Memory
from binder.report import Verdict
from binder.rewording import is_alike
from binder.units import Unit
from shared.reasons import START_REFUSED

_AGAIN: Final = timedelta(minutes=30)
"""So long after an event that nothing else says it is told again: events live for an hour."""


def events(
    unit: Unit,
    why: Verdict,
    said: Mapping[str, str],
    memory: Memory,
    now: str,
    *,
    again: bool = False,
) -> list[Action]:
    """An event on the VMI, once per change of reason, or `again` before that one is gone.

    From what was told last, or where nobody remembers from what its claims say. It comes before
    they say otherwise: who dies between the two leaves what makes the same event, of the same name,
    once more. None is lost, and none is told twice.
    """
    if unit.gpu_set is None or unit.pod is None:
        return []
    vmi = unit.gpu_set.vmi
    last = memory.last(vmi.uid)
    if why.reason in _told_last(last, said) and not (again and _is_old(last, now)):
        return []
    known = [f"{each}={said[each]}" for each in sorted(said)]
    if last is not None and not said and memory.has_told(vmi.uid, why.reason):
        known = [f"{last.reason}={last.at}"]  # the event of that name told it before
    occasion = " ".join((unit.pod.uid, *known))
    return [TellVmi(vmi.namespace, vmi.name, vmi.uid, why.reason, why.message, now, occasion)]


def is_news(unit: Unit, why: Verdict, said: Mapping[str, str], memory: Memory) -> bool:
    """Whether a VM was told last of a reason that this one does not stand for."""
    if unit.gpu_set is None:
        return True
    told = _told_last(memory.last(unit.gpu_set.vmi.uid), said)
    return not told or not all(is_alike(each, why.reason) for each in told)


def refusal(unit: Unit, memory: Memory) -> str:
    """What is told of a start that the API server refused before; empty where it did not.

    The words of a refusal are not for tenants: others' policies may name anything in them.
    """
    if unit.gpu_set is None or unit.pod is None:
        return ""
    word = memory.refusal(unit.gpu_set.vmi.uid, unit.pod.uid)
    return START_REFUSED.format(word=word) if word else ""


def _told_last(last: TellVmi | None, said: Mapping[str, str]) -> Collection[str]:
    """The reasons that a VM was told last: as is remembered, else as its claims say."""
    return said.keys() if last is None else (last.reason,)


def _is_old(event: TellVmi | None, now: str) -> bool:
    """Whether an event will be gone before long."""
    if event is None:
        return False
    return datetime.fromisoformat(now) - datetime.fromisoformat(event.at) >= _AGAIN
