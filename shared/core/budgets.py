"""Budgets: pools, carve-outs, and what is left for a tenant and a key (rules 4.4 and 4.5).

A key is the class's (`<class>.gpuclass.gpu.cozystack.io/units`) or the device's (the resource
name). Both have a ledger of the same shape: what each namespace may use, and what it uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from shared.core.index import Index
from shared.core.model import Quota
from shared.core.tenants import Tenants, tops
from shared.core.terms import LimitingLevel
from shared.vocabulary import CLASS_KEY_SUFFIX, QUOTA_ALLOCATED

_SPELLINGS = ("requests.", "limits.")


def class_key(class_name: str) -> str:
    """The budget key of a class."""
    return class_name + CLASS_KEY_SUFFIX


def declared(quotas: Iterable[Quota]) -> dict[str, int]:
    """The hard limit of each key that the quotas of one namespace declare.

    `requests.<key>`, `limits.<key>` and `<key>` are one key; the smallest counts. Cozystack's
    own derived quota and quotas with scopes declare nothing. Native resources are no keys of
    ours and are left out.
    """
    hard: dict[str, int] = {}
    for quota in filter(counts, quotas):
        for name, units in quota.hard.items():
            key = key_of(name)
            if key:
                hard[key] = min(units, hard.get(key, units))
    return hard


def counts(quota: Quota) -> bool:
    """Whether what a quota says is anybody's budget."""
    return not quota.scoped and quota.name != QUOTA_ALLOCATED


def key_of(name: str) -> str:
    """The budget key of a name in a quota's hard limits; empty for what is none of ours."""
    spelling = next((each for each in _SPELLINGS if name.startswith(each)), "")
    key = name.removeprefix(spelling)
    return key if "/" in key else ""


@dataclass(frozen=True, slots=True)
class Remaining:
    """What a budget leaves: `units` may be negative inside, where more is used than allowed.

    `hard` and `used` are the namespace's own, and only set where the limit is its own: an
    ancestor's figures sum up other tenants. `used` is what is in use in the namespace's pool
    and handed down to child tenants with budgets of their own, or in use in its whole subtree,
    whichever is more, so that `units` = `hard` - `used`.
    """

    units: int
    level: LimitingLevel
    hard: int | None = None
    used: int | None = None


def smaller(one: Remaining | None, other: Remaining | None) -> Remaining | None:
    """The budget that leaves less; None is unlimited, a tie is the namespace's own."""
    if one is None or other is None:
        return other if one is None else one
    if one.units != other.units:
        return one if one.units < other.units else other
    return other if other.level is LimitingLevel.SELF and one.level is not other.level else one


@dataclass(slots=True)
class _Ledger:
    """One key's limits and use, with the sums that follow from them.

    `pool_use` and `subtree_use` are kept for declaring namespaces only; `carved` is what a
    pool's topmost declaring descendants took out of it. A change of use or of a limit moves the
    sums by its amount; they are rebuilt when the tree changes.
    """

    hard: dict[str, int] = field(default_factory=dict)
    use: dict[str, int] = field(default_factory=dict)
    pool_use: dict[str, int] = field(default_factory=dict)
    subtree_use: dict[str, int] = field(default_factory=dict)
    carved: dict[str, int] = field(default_factory=dict)
    stale: bool = False

    def declaring(self, line: tuple[str, ...]) -> Iterator[str]:
        """Those of a line that declare the key, nearest first."""
        return (name for name in line if name in self.hard)

    def top(self, line: tuple[str, ...]) -> str | None:
        """The topmost of a line that declares the key."""
        return next((name for name in reversed(line) if name in self.hard), None)

    def declare(self, namespace: str, units: int | None) -> None:
        """Set a limit, or drop it with what was summed up for it."""
        if units is not None:
            self.hard[namespace] = units
            return
        for sums in (self.hard, self.pool_use, self.subtree_use, self.carved):
            sums.pop(namespace, None)

    def book(self, line: tuple[str, ...], sign: int) -> None:
        """Add all of the start of the line to the sums (or take it away)."""
        name = line[0]
        self.count(line, sign * self.use.get(name, 0))
        if name in self.hard:
            self.carve(line, sign * self.hard[name])

    def count(self, line: tuple[str, ...], units: int) -> None:
        """Add use (or take it away) at the start of the line."""
        for index, name in enumerate(self.declaring(line)):
            if index == 0:
                self.pool_use[name] = self.pool_use.get(name, 0) + units
            self.subtree_use[name] = self.subtree_use.get(name, 0) + units

    def carve(self, line: tuple[str, ...], units: int) -> None:
        """Add what the start of the line takes out of the pool above it."""
        above = next(self.declaring(line[1:]), None)
        if above is not None:
            self.carved[above] = self.carved.get(above, 0) + units


class Budgets:
    """All ledgers.

    A change of use or of a limit costs the depth of the tree; that a namespace starts or ceases
    to declare a key costs the size of what lies below it.
    """

    def __init__(self, tenants: Tenants) -> None:
        self._tenants = tenants
        self._ledgers: dict[str, _Ledger] = {}
        self._keys: dict[str, set[str]] = {}
        """Keys that a namespace declares or uses."""
        self._within: Index[str, str] = Index()
        """Namespaces that have keys, by what they are within."""

    def keys_within(self, namespace: str) -> set[str]:
        """Keys that a namespace or one below it declares or uses."""
        return {key for name in self._within[namespace] for key in self._keys[name]}

    def top(self, namespace: str, key: str) -> str | None:
        """The topmost of the line that declares a key: what changes here is felt below it."""
        ledger = self._ledgers.get(key)
        return None if ledger is None else ledger.top(self._tenants.line(namespace))

    def changes(self, namespace: str, hard: Mapping[str, int]) -> set[str]:
        """The keys whose limit in this namespace would be another one if it declared this."""
        before = {
            key: self._ledgers[key].hard[namespace]
            for key in self._keys.get(namespace, ())
            if namespace in self._ledgers[key].hard
        }
        return {key for key in before.keys() | hard.keys() if before.get(key) != hard.get(key)}

    def declare(self, namespace: str, key: str, units: int | None) -> None:
        """The namespace declares this for a key now; None is no limit."""
        ledger = self._ledger(key)
        if ledger.stale:
            ledger.declare(namespace, units)
        elif units is not None and namespace in ledger.hard:
            ledger.carve(self._tenants.line(namespace), units - ledger.hard[namespace])
            ledger.declare(namespace, units)
        else:
            # Whose pool it is changes for what lies at or below it, and for nothing else.
            lines = [
                line
                for name in {namespace, *self._within[namespace]}
                if namespace in (line := self._tenants.line(name))
            ]
            for line in lines:
                ledger.book(line, -1)
            ledger.declare(namespace, units)
            for line in lines:
                ledger.book(line, 1)
        self._note(namespace, key)

    def use(self, namespace: str, key: str, units: int) -> str | None:
        """Count units of use more (or fewer, where negative); returns the `top` of the line."""
        ledger = self._ledger(key)
        line = self._tenants.line(namespace)
        before = ledger.use.pop(namespace, 0)
        if before + units:
            ledger.use[namespace] = before + units
        if not ledger.stale:
            ledger.count(line, units)
        if not (before and before + units):
            self._note(namespace, key)
        return ledger.top(line)

    def moved(self, namespace: str) -> None:
        """The namespace came or went: what lines through it decide is summed up anew."""
        for key in self.keys_within(namespace):
            self._ledgers[key].stale = True

    def remaining(self, namespace: str, key: str) -> Remaining | None:
        """What is left of one key in a namespace; None where no level declares it."""
        ledger = self._ledgers.get(key)
        if ledger is None:
            return None
        if ledger.stale:
            self._rebuild(ledger)
        least: Remaining | None = None
        for index, name in enumerate(ledger.declaring(self._tenants.line(namespace))):
            used = ledger.subtree_use.get(name, 0)
            if index == 0:
                used = max(used, ledger.carved.get(name, 0) + ledger.pool_use.get(name, 0))
            hard = ledger.hard[name]
            if name == namespace:
                here = Remaining(hard - used, LimitingLevel.SELF, hard, used)
            else:
                here = Remaining(hard - used, LimitingLevel.ANCESTOR)
            least = smaller(least, here)
        return least

    def _ledger(self, key: str) -> _Ledger:
        if key not in self._ledgers:
            self._ledgers[key] = _Ledger()
        return self._ledgers[key]

    def _note(self, namespace: str, key: str) -> None:
        """Keep the index of keys by namespace, and drop what is empty."""
        ledger = self._ledgers[key]
        if namespace in ledger.hard or namespace in ledger.use:
            if namespace not in self._keys:
                self._within.move(namespace, (), tops(namespace))
            self._keys.setdefault(namespace, set()).add(key)
            return
        keys = self._keys.get(namespace, set())
        keys.discard(key)
        if not keys and self._keys.pop(namespace, None) is not None:
            self._within.move(namespace, tops(namespace), ())
        if not ledger.hard and not ledger.use:
            del self._ledgers[key]

    def _rebuild(self, ledger: _Ledger) -> None:
        ledger.stale = False
        ledger.pool_use.clear()
        ledger.subtree_use.clear()
        ledger.carved.clear()
        for name in ledger.use.keys() | ledger.hard.keys():
            ledger.book(self._tenants.line(name), 1)
