"""Two accounts of every unit: what claims book, and what pods hold, at each moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared import vocabulary as v
from shared.kube.podspec import pinned_to
from tests.binder.history import State
from tests.binder.truth import Key, count_of, entries_of, is_gated, mark_of, node_of
from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.objects import (
    is_final,
    items,
    labels_of,
    name_of,
    namespace_of,
    status_of,
    uid_of,
)


@dataclass(frozen=True, slots=True)
class Held:
    """What a pod holds, from when it was let go to a node until it ended."""

    pod: str
    node: str
    units: Mapping[str, int]
    claims: frozenset[Key]


@dataclass(slots=True)
class Ledger:
    """Follows the states of claims, pods and instances.

    Attributes:
        room: units of a device on a node, by both.
        wrong: every unit that was booked twice or held twice, every pod that was let go without
            its whole set or went elsewhere, and every claim that was taken from under a pod.
        bookings: how often units were booked.
        starts: how many pods were pinned and let go, by uid of the instance.
        states: how many there were.
    """

    room: Mapping[Key, int]
    written: Mapping[int, str] = field(default_factory=dict)
    """Who wrote which version, by the audit log."""
    wrong: list[str] = field(default_factory=list)
    bookings: int = 0
    starts: Counter[str] = field(default_factory=Counter)
    states: int = 0
    _versions: set[int] = field(default_factory=set)
    _booked: dict[Key, tuple[str, str, int]] = field(default_factory=dict)
    _booked_units: Counter[Key] = field(default_factory=Counter)
    _entries: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)
    _gated: set[str] = field(default_factory=set)
    _held: dict[str, Held] = field(default_factory=dict)
    _held_units: Counter[Key] = field(default_factory=Counter)

    def follow(self, states: Iterable[State]) -> None:
        """Take in what was so, in order."""
        for state in states:
            self.states += 1
            self._versions.add(state.version)
            match state.object["kind"]:
                case v.KIND_CLAIM:
                    self._claim(state)
                case "Pod":
                    self._pod(state)
                case v.KIND_VMI:
                    self._entries[uid_of(state.object)] = entries_of(state.object)
                case other:
                    raise ValueError(f"{other}: expected a claim, a pod or an instance")

    @property
    def unseen(self) -> list[str]:
        """What the audit log knows of that was not among the states, from the first one on."""
        first = min(self._versions, default=0)
        return [
            f"{what}: no watch showed version {version}"
            for version, what in self.written.items()
            if version > first and version not in self._versions
        ]

    def _claim(self, state: State) -> None:
        claim = state.object
        key, node = (namespace_of(claim), name_of(claim)), node_of(claim)
        before = self._booked.pop(key, None)
        if before is not None:
            self._booked_units[before[:2]] -= before[2]
        now = None
        if node and not state.is_gone:
            now = (node, str(status_of(claim)["resourceName"]), count_of(claim))
            self._booked[key] = now
            self._booked_units[now[:2]] += now[2]
        if now is not None and before != now:
            self.bookings += 1
            if self._booked_units[now[:2]] > self.room.get(now[:2], 0):
                self._found(f"{self._booked_units[now[:2]]} units of {now[:2]} are booked", state)
        if before is not None and before != now:
            self._taken_away(key, before[0], node if now is not None else "", state)

    def _taken_away(self, key: Key, before: str, now: str, state: State) -> None:
        """A VM that migrated has pods on two nodes; its booking follows it."""
        on = {held.node for held in self._held.values() if key in held.claims}
        if before in on and now not in on:
            self._found(f"{key[1]} left {before} for {now!r}, under a pod", state)

    def _pod(self, state: State) -> None:
        pod, uid = state.object, uid_of(state.object)
        if is_gated(pod):
            self._gated.add(uid)
        if is_gated(pod) or is_final(pod) or state.is_gone:
            self._let_go(uid)
            return
        on, mark = str(pod["spec"].get("nodeName", "")), mark_of(pod)
        is_started = uid in self._gated
        if is_started:
            self._gated.remove(uid)
            self._start(pod, mark, state)
        held = self._held.get(uid)
        if mark and on and w.LABEL_MIGRATION_JOB not in labels_of(pod):
            if held is None:
                self._found(f"{name_of(pod)} is on {on}, and nobody let it go", state)
            elif held.node != on:
                self._found(f"{name_of(pod)} is on {on}, and was let go to {held.node}", state)
        node = on or (pinned_to(pod["spec"]) if mark else "")
        if held is None or held.node != node:
            self._let_go(uid)
            self._hold(uid, node, pod, state)

    def _start(self, pod: Object, mark: str, state: State) -> None:
        self.starts[mark] += 1
        node = pinned_to(pod["spec"])
        for name, _, count in self._entries[mark]:
            on, _, units = self._booked.get((namespace_of(pod), name), ("", "", 0))
            if (on, units) != (node, count):
                self._found(f"started on {node}, {name} has {units} on {on!r}", state)
        self._hold(uid_of(pod), node, pod, state)

    def _hold(self, uid: str, node: str, pod: Object, state: State) -> None:
        if not node:
            return
        claims = {(namespace_of(pod), name) for name, *_ in self._entries.get(mark_of(pod), ())}
        held = Held(name_of(pod), node, self._asked(pod), frozenset(claims))
        self._held[uid] = held
        for resource, units in held.units.items():
            self._held_units[node, resource] += units
            if self._held_units[node, resource] > self.room.get((node, resource), 0):
                in_all = self._held_units[node, resource]
                self._found(f"{in_all} units of {(node, resource)} are held by pods", state)

    def _let_go(self, uid: str) -> None:
        held = self._held.pop(uid, None)
        if held is not None:
            for resource, units in held.units.items():
                self._held_units[held.node, resource] -= units

    def _asked(self, pod: Object) -> Mapping[str, int]:
        """Units of devices; KubeVirt's init containers ask for none."""
        asked = Counter[str]()
        devices = {resource for _, resource in self.room}
        for container in items(pod, "spec", "containers"):
            for resource, amount in _requests(container):
                if resource in devices:
                    asked[resource] += int(amount)
        return asked

    def _found(self, what: str, state: State) -> None:
        by = self.written.get(state.version, "the audit log does not tell by whom")
        self.wrong.append(f"{what}: version {state.version}, {by}")


def _requests(container: Object) -> Iterable[tuple[str, str]]:
    """What a container asks for, by resource."""
    requests: Mapping[str, str] = (container.get("resources") or {}).get("requests") or {}
    return requests.items()
