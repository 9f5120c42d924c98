"""Whether each reason was true when it was written."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from shared import vocabulary as v
from tests.binder.history import State
from tests.binder.truth import (
    Key,
    Moment,
    Waiting,
    World,
    claim_names,
    is_gated,
    node_of,
    reasons,
    told_of,
)
from tests.cluster.api import Object
from tests.kubevirt.objects import (
    is_final,
    is_going,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)


@dataclass(frozen=True, slots=True)
class Told:
    """A reason that was written on a claim."""

    claim: Key
    uid: str
    reason: str
    message: str
    version: int
    at: float


@dataclass(slots=True)
class Reasons:
    """Follows the states of claims, pods and instances, and judges every reason that is written.

    A pass sees the cluster by watches, and its writes arrive one after the other: a reason is of
    a moment shortly before or after it is written, when what was decided with it is there too.

    Attributes:
        patience: how far apart the two may be, in seconds.
        told: how often each reason was written.
        apart: how many of them were not true in the moment itself, by whole seconds.
        wrong: every reason that was not true within that time.
    """

    world: World
    patience: float
    told: Counter[str] = field(default_factory=Counter)
    apart: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _claims: dict[Key, Object] = field(default_factory=dict)
    _pods: dict[str, Object] = field(default_factory=dict)
    _instances: dict[str, Object] = field(default_factory=dict)
    _past: deque[tuple[float, Moment]] = field(default_factory=deque)
    """Each moment, with when it ended."""
    _open: list[tuple[Told, str]] = field(default_factory=list)
    """What was not true yet, with what was."""

    def follow(self, states: Iterable[State]) -> None:
        """Take in what was so, in order, to the end."""
        for state in states:
            before = Moment(self._claims, self._pods, self._instances)
            told, is_other = self._take_in(state)
            if is_other:
                self._past.append((state.at, before))
                while self._past[0][0] < state.at - self.patience:
                    self._past.popleft()
            if told is not None:
                self._judge(told)
            if is_other:
                self._judge_again(state.at)
        for told, why in self._open:
            self._deny(told, why)

    def _take_in(self, state: State) -> tuple[Told | None, bool]:
        """What was told, and whether anything else is as it was not before.

        Nothing is changed in place: the moments before keep what they had.
        """
        new = state.object
        if new["kind"] != v.KIND_CLAIM:
            is_pod = new["kind"] == "Pod"
            there, uid = self._pods if is_pod else self._instances, uid_of(new)
            before = there.get(uid)
            there = {k: o for k, o in there.items() if k != uid}
            if not state.is_gone:
                there[uid] = new
            if is_pod:
                self._pods = there
            else:
                self._instances = there
            return None, _essence(before) != _essence(None if state.is_gone else new)
        key = namespace_of(new), name_of(new)
        before = self._claims.get(key)
        self._claims = {k: o for k, o in self._claims.items() if k != key}
        told = None
        if not state.is_gone:
            self._claims[key] = new
            if told_of(new) and _waiting(new) != _waiting(before or {}):
                reason, message = _waiting(new)
                told = Told(key, uid_of(new), reason, message, state.version, state.at)
        return told, _essence(before) != _essence(None if state.is_gone else new)

    def _judge(self, told: Told) -> None:
        self.told[told.reason] += 1
        now = self._truth(told, Moment(self._claims, self._pods, self._instances))
        if told.reason in now:
            return
        for ended, moment in reversed(self._past):
            if ended < told.at - self.patience:
                break
            if told.reason in self._truth(told, moment):
                self.apart[int(told.at - ended)] += 1
                return
        self._open.append((told, " or ".join(sorted(now))))

    def _judge_again(self, now: float) -> None:
        """Whether what was not true yet is true by now."""
        still = []
        for told, why in self._open:
            if now > told.at + self.patience:
                self._deny(told, why)
            elif told.reason in self._truth(
                told, Moment(self._claims, self._pods, self._instances)
            ):
                self.apart[int(now - told.at)] += 1
            else:
                still.append((told, why))
        self._open = still

    def _truth(self, told: Told, moment: Moment) -> frozenset[str]:
        """Why a claim waits in a moment; empty where it does not."""
        for each, why in reasons(self.world, moment):
            if _is_of(told, each, moment):
                return why
        return frozenset()

    def _deny(self, told: Told, why: str) -> None:
        where = "/".join(told.claim)
        self.wrong.append(
            f"{where} was told {told.reason} ({told.message}), and that was not so within"
            f" {self.patience:.0f} s: {why or 'it did not wait'}: version {told.version}"
        )


def _is_of(told: Told, each: Waiting, moment: Moment) -> bool:
    """Whether a claim is among what one waits for; it may have to be made yet."""
    if told.claim[0] != each.namespace:
        return False
    if each.uid:
        return told.claim[1] in claim_names(moment.instances[each.uid])
    return told.claim[1] in {name_of(claim) for claim in each.lacking}


def _waiting(claim: Object) -> tuple[str, str]:
    told = status_of(claim).get("waiting") or {}
    return told.get("reason", ""), told.get("message", "")


def _essence(obj: Object | None) -> object:
    """What of an object makes a difference to reasons."""
    if obj is None:
        return None
    match obj["kind"]:
        case v.KIND_CLAIM:
            return node_of(obj)
        case "Pod":
            return is_gated(obj), is_going(obj), is_final(obj)
        case _:
            return is_going(obj)
