"""Budget keys that name no GPU, and so limit none: told to whoever wrote them (rule 4.4).

Kubernetes takes any name with a domain for a key of a ResourceQuota, so a misspelt one looks like
a limit. It is told once in an event on the quota; how many there are is a figure.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from binder.actions import TellQuota, Work
from shared.core.budgets import class_key, counts, key_of
from shared.core.cluster import ClusterState
from shared.core.gpunames import gpu_names
from shared.core.model import Change, Key, Quota
from shared.reasons import Reason, Words, say
from shared.times import rfc3339
from shared.vocabulary import CLASS_KEY_SUFFIX, GROUP

PATIENCE: Final = timedelta(seconds=10)
"""How long a key may name no GPU: quotas and classes are often made in one go."""

AT_ONCE: Final = 16
"""So many events are told in one pass: a class that goes can leave a key in every tenant's quota,
and VMs wait for their turn to write too."""


@dataclass(frozen=True)
class Names:
    """What a budget key can name.

    `devices` are all that KubeVirt permits besides GPUs (rule 4.2): a network card has a vendor's
    domain too.
    """

    classes: frozenset[str] = frozenset()
    devices: frozenset[str] = frozenset()

    @classmethod
    def of(cls, state: ClusterState) -> Names:
        """The names that a cluster has now."""
        gpus = gpu_names(state.classes.values(), state.kubevirt, state.settings.resource_names)
        permitted = state.kubevirt.permitted if state.kubevirt is not None else None
        return cls(frozenset(state.classes), gpus | (permitted or frozenset()))

    @cached_property
    def domains(self) -> frozenset[str]:
        """Those of all devices."""
        return frozenset(device.partition("/")[0] for device in self.devices)

    def meant(self, key: str) -> str | None:
        """The device of a key's name, case and domain aside."""
        return self._by_name.get(_name_of(key))

    @cached_property
    def _by_name(self) -> dict[str, str]:
        return {_name_of(device): device for device in sorted(self.devices, reverse=True)}


def unknown(quota: Quota, names: Names) -> dict[str, str]:
    """The keys of a quota that are meant for GPUs and name none, each with one spelling of it.

    Meant for GPUs is a key in our own domain, and one that shares its domain with a device, or
    its name but for case. What is about something else is not ours to judge.
    """
    found: dict[str, str] = {}
    for spelled in sorted(quota.hard) if counts(quota) else ():
        key = key_of(spelled)
        domain = key.partition("/")[0]
        if key.endswith(CLASS_KEY_SUFFIX):
            is_known = key.removesuffix(CLASS_KEY_SUFFIX) in names.classes
        elif f".{domain}".endswith(f".{GROUP}"):
            is_known = False
        else:
            is_meant = domain in names.domains or names.meant(key) is not None
            is_known = key in names.devices or not is_meant
        if not is_known:
            found.setdefault(key, spelled)
    return found


def describe(key: str, spelled: str, names: Names) -> str:
    """What is wrong with a key, in words that tell nothing of any tenant."""
    if key.endswith(CLASS_KEY_SUFFIX):
        what = key.removesuffix(CLASS_KEY_SUFFIX)
    elif f".{key.partition('/')[0]}".endswith(f".{GROUP}"):
        what = f"with this key; that of a class is {class_key('<class>')}"
    else:
        what = "of this device, nor is it a GPU that is known here"
        meant = names.meant(key)
        what += "" if meant is None else f"; {meant} is one"
    told = say(Reason.CLASS_NOT_FOUND, words=Words(what=what))
    return f"{spelled} limits no GPUs: {told}"


class BudgetKeys:
    """The keys that name no GPU, and which of them were told of in this term.

    `note` every change, after it was applied. A look costs what changed, and all quotas only
    where the names themselves changed.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._names = Names()
        self._stale: set[Key] = set()
        self._unknown: dict[Key, dict[str, str]] = {}
        self._due: dict[Key, datetime] = {}
        """When to tell of a quota, of which there is something to tell."""
        self._told: dict[Key, set[tuple[str, str]]] = {}
        """Uid and key."""

    def __len__(self) -> int:
        """How many keys name no GPU, as of the last look."""
        return sum(map(len, self._unknown.values()))

    def note(self, change: Change) -> None:
        """A change was applied to the state."""
        if isinstance(change.object, Quota):
            self._stale.add(change.object.key)

    def told(self, event: TellQuota) -> None:
        """An event is there, or was given up."""
        key = (event.namespace, event.name)
        if key in self._state.quotas:
            self._told.setdefault(key, set()).add((event.uid, event.key))

    def forget(self) -> None:
        """Others may have told more since, or what was told may be gone."""
        self._told.clear()
        self._stale |= self._state.quotas.keys()

    def works(
        self, now: datetime, under_way: Container[str] = frozenset()
    ) -> tuple[list[Work], float | None]:
        """What is to be told now, and in how many seconds there is more.

        `under_way` are keys of works that tell already.
        """
        if "kubevirts" in self._state.unreadable:
            return [], None  # which devices there are is not known
        self._look(now)
        works: list[Work] = []
        for key in sorted(key for key, due in self._due.items() if due <= now):
            events = self._events(self._state.quotas[key], rfc3339(now))
            found = (Work(f"quota/{key[0]}/{key[1]}/{each.key}", ((each,),)) for each in events)
            works += (work for work in found if work.key not in under_way)
            if len(works) > AT_ONCE:
                return works[:AT_ONCE], 0.0
            if not events:
                del self._due[key]
        later = [due for due in self._due.values() if due > now]
        return works, (min(later) - now).total_seconds() if later else None

    def _look(self, now: datetime) -> None:
        """Judge anew what changed."""
        state, names = self._state, Names.of(self._state)
        if names != self._names:
            self._names = names
            self._stale |= state.quotas.keys()
        found = {
            key: unknown(state.quotas[key], names) if key in state.quotas else {}
            for key in self._stale
        }
        self._stale.clear()
        offered = self._offered() if any(found.values()) else frozenset()
        for key, keys in found.items():
            left = {each: spelled for each, spelled in keys.items() if each not in offered}
            if left:
                self._unknown[key] = left
                self._due.setdefault(key, now + PATIENCE)
            else:
                self._unknown.pop(key, None)
                self._due.pop(key, None)
            if key not in state.quotas:
                self._told.pop(key, None)

    def _offered(self) -> frozenset[str]:
        """What nodes offer, to containers perhaps: Kubernetes' own quotas limit that."""
        nodes: Iterable[Iterable[str]] = (node.allocatable for node in self._state.nodes.values())
        return frozenset().union(*nodes)

    def _events(self, quota: Quota, at: str) -> list[TellQuota]:
        told = self._told.get(quota.key, set())
        return [
            TellQuota(
                quota.namespace,
                quota.name,
                quota.uid,
                key,
                Reason.CLASS_NOT_FOUND,
                describe(key, spelled, self._names),
                at,
            )
            for key, spelled in self._unknown[quota.key].items()
            if (quota.uid, key) not in told
        ]


def _name_of(key: str) -> str:
    return key.partition("/")[2].casefold()
