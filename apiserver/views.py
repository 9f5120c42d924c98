"""The options of one namespace, each at its newest version, and what is remembered of the rest.

A view keeps the newest version of each option and which ones went, not every state between: a
reader that comes back gets what changed since, each option once (rule 5.3 allows to coalesce).
An option gets a new version exactly when its content became another one: `observedTime` is the
time of that version, so that time alone changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from pydantic import ValidationError

from apiserver.entry import Entry
from apiserver.versions import Versions
from apiserver.watch import Change
from shared.api.conditions import Condition
from shared.errors import Expired

if TYPE_CHECKING:
    from shared.core.options import Option

log = structlog.get_logger(__name__)

TOMBSTONES_MAX: Final = 1024
"""How many options that went a view remembers."""

ALL_TOMBSTONES_MAX: Final = 16_384
"""How many all views remember together: a class made and deleted is one in each namespace."""


class OptionSource(Protocol):
    """Where options come from; `shared.core.cluster.ClusterState` is behind it."""

    def namespaces(self) -> Collection[str]:
        """Every namespace that exists."""
        ...

    def class_names(self) -> Collection[str]:
        """Every class that exists."""
        ...

    def option(self, namespace: str, class_name: str) -> Option | None:
        """The option, None where the namespace or the class does not exist."""
        ...

    def is_within(self, namespace: str, top: str) -> bool:
        """Whether a namespace is `top` or below it; may say yes too often."""
        ...


class Tombstones:
    """What went in all views, oldest first, within a bound."""

    def __init__(self, most: int = ALL_TOMBSTONES_MAX) -> None:
        self._most = most
        self._views: OrderedDict[int, View] = OrderedDict()

    def __len__(self) -> int:
        return len(self._views)

    def add(self, version: int, view: View) -> None:
        """A view remembers what went at a version; the oldest of all makes room."""
        self._views[version] = view
        while len(self._views) > self._most:
            oldest, owner = self._views.popitem(last=False)
            owner.forget(oldest)

    def remove(self, version: int) -> None:
        """It is not remembered any more."""
        self._views.pop(version, None)


class View:
    """The options of one namespace. `floor` is the version before which it knows nothing."""

    def __init__(self, namespace: str, floor: int, tombstones: Tombstones) -> None:
        self._tombstones = tombstones
        self.namespace = namespace
        self.floor = floor
        self.newest = 0
        """The version of its last change."""
        self.used = 0.0
        self.stale: set[str] = set()
        self.all_stale = True
        self._entries: dict[str, Entry] = {}
        self._gone: OrderedDict[int, Entry] = OrderedDict()

    @property
    def is_stale(self) -> bool:
        """Whether something may have changed since the last refresh."""
        return self.all_stale or bool(self.stale)

    def entries(self) -> list[Entry]:
        """Its options by name."""
        return list(self._entries.values())

    def get(self, name: str) -> Entry | None:
        """The option of a class."""
        return self._entries.get(name)

    def refresh(self, source: OptionSource, versions: Versions, fresh: Condition) -> list[Change]:
        """Compute again what may have changed; what did change gets new versions."""
        names = self._entries.keys() | set(source.class_names()) if self.all_stale else self.stale
        changes = []
        for name in sorted(names):
            changes += self._refresh_one(name, source, versions, fresh)
        if any(change.before is None for change in changes):
            self._entries = dict(sorted(self._entries.items()))
        self.stale, self.all_stale = set(), False
        if changes:
            self.newest = changes[-1].version
        return changes

    def _refresh_one(
        self, name: str, source: OptionSource, versions: Versions, fresh: Condition
    ) -> list[Change]:
        before = self._entries.get(name)
        option = source.option(self.namespace, name)
        if before is not None and before.option == option and before.fresh == fresh:
            return []
        changes = []
        if before is not None and not _is_still(before, option):
            changes.append(self._went(before, versions.next()))
            before = None
        if option is not None:
            after = _next(before, option, fresh, versions.next())
            if _can_be_served(after):
                self._entries[name] = after
                gone = None if before is None else before.at(after.version)
                changes.append(Change(after.version, before, after, gone))
            elif before is not None:
                changes.append(self._went(before, after.version))
        return changes

    def _went(self, before: Entry, version: int) -> Change:
        gone = before.at(version)
        del self._entries[before.name]
        # Not the one that is told: its bytes, once made, would stay as long as it is remembered.
        self._gone[version] = before.at(version)
        self._tombstones.add(version, self)
        while len(self._gone) > TOMBSTONES_MAX:
            self.forget(next(iter(self._gone)))
        return Change(version, before, None, gone)

    def forget(self, version: int) -> None:
        """Remember no longer what went at a version, nor answer what changed since before it."""
        del self._gone[version]
        self._tombstones.remove(version)
        self.floor = max(self.floor, version)

    def end(self) -> None:
        """Nobody will ask any more."""
        for version in self._gone:
            self._tombstones.remove(version)
        self._gone.clear()

    def since(self, version: int) -> list[Change]:
        """What changed after a version, each option at its newest.

        Raises:
            Expired: it is older than what the view knows.
        """
        if version < self.floor:
            raise Expired(f"too old resource version: {version} ({self.floor})")
        changes = [
            Change(went, gone, None, gone.at(went), relabelled=gone.labelled > version)
            for went, gone in self._gone.items()
            if went > version and gone.created <= version
        ]
        for entry in self._entries.values():
            if entry.created > version:
                changes.append(Change(entry.version, None, entry, None))
            elif entry.version > version:
                relabelled = entry.labelled > version
                changes.append(Change(entry.version, entry, entry, entry, relabelled=relabelled))
        return sorted(changes, key=lambda change: change.version)


def _is_still(before: Entry, option: Option | None) -> bool:
    """Whether it is the same object: a class made anew under its name is another one."""
    return option is not None and option.gpu_class.uid == before.option.gpu_class.uid


def _next(before: Entry | None, option: Option, fresh: Condition, version: int) -> Entry:
    """The entry of an option whose content is new."""
    if before is None:
        return Entry(option, version, version, version, version, fresh)
    relabelled = option.gpu_class.labels != before.option.gpu_class.labels
    changed_status = option.selectable is not before.option.selectable
    return Entry(
        option,
        version,
        created=before.created,
        labelled=version if relabelled else before.labelled,
        since=version if changed_status else before.since,
        fresh=fresh,
    )


def _can_be_served(entry: Entry) -> bool:
    """Encode it: one class that breaks the rules of the kind costs its own option, not the list.

    Now and not when asked for, so that computing many options lets others have the loop.
    """
    try:
        return bool(entry.encoded)
    except ValidationError as error:
        log.error(  # noqa: TRY400 - the trace says nothing, the field does
            "option cannot be served",
            namespace=entry.namespace,
            name=entry.name,
            fields=[".".join(map(str, each["loc"])) for each in error.errors()],
        )
        return False
