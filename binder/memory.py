"""What a term of office remembers of VMs, since no object of the cluster tells it.

The last event about each, so that a reason is told once (rule 7.9); and which starts the API
server refused: such a VM has its GPUs and stands still all the same (rule 7.16).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from binder.actions import Result, StartPod, TellVmi, Work
from binder.units import set_key
from shared.kube.outcomes import Refused
from shared.reasons import Reason

_WORD: Final = re.compile(r"[A-Z][A-Za-z]{1,62}")


@dataclass(frozen=True, slots=True)
class RefusedStart:
    """The start of a pod that the API server refused; `word` is Kubernetes' reason for it."""

    pod_uid: str
    word: str


class Memory:
    """What is remembered by the uid of a VMI, until that is gone."""

    def __init__(self) -> None:
        self._last: dict[str, TellVmi] = {}
        self._reasons: dict[str, frozenset[Reason]] = {}
        self._refused: dict[str, RefusedStart] = {}
        """By the key of the set."""

    def told(self, event: TellVmi) -> None:
        """This was told."""
        self._last[event.uid] = event
        self._reasons[event.uid] = self._reasons.get(event.uid, frozenset()) | {event.reason}

    def last(self, uid: str) -> TellVmi | None:
        """What was told last of a VMI; None where nobody remembers."""
        return self._last.get(uid)

    def has_told(self, uid: str, reason: Reason) -> bool:
        """Whether a reason was ever told of a VMI."""
        return reason in self._reasons.get(uid, frozenset())

    def performed(self, work: Work, result: Result) -> None:
        """A work ended so. A VM that waits now is not refused its start any more."""
        starts = [each for step in work.steps for each in step if isinstance(each, StartPod)]
        if result.done:
            self._refused.pop(work.key, None)
        elif starts and isinstance(result.outcome, Refused):
            outcome = result.outcome
            # A webhook may put anything there; tenants read it.
            word = outcome.reason if _WORD.fullmatch(outcome.reason) else str(outcome.code)
            self._refused[work.key] = RefusedStart(starts[0].pod.uid, word)

    def refusal(self, uid: str, pod_uid: str) -> str:
        """Kubernetes' reason for refusing a VMI the start of this pod; empty where it did not."""
        refused = self._refused.get(set_key(uid))
        return refused.word if refused is not None and refused.pod_uid == pod_uid else ""

    @property
    def starts_refused(self) -> int:
        """How many VMs stand still, since the API server refused their start when last asked."""
        return len(self._refused)

    def gone(self, uid: str) -> None:
        """There is no such VMI any more."""
        self._last.pop(uid, None)
        self._reasons.pop(uid, None)
        self._refused.pop(set_key(uid), None)

    def forget(self) -> None:
        """A term ends, or begins: others may have told more since, and may start them."""
        for each in (self._last, self._reasons, self._refused):
            each.clear()
