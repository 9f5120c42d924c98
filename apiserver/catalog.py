"""The options as they are served: one view per namespace, kept up to date from what changed.

A view is made when its namespace is first asked about and kept while somebody reads it, and
some minutes longer. A change of the cluster only marks what it may have touched; marked options
are computed again when they are asked for, or by `Catalog.run` where somebody watches. An option
gets a new version exactly when its content became another one: `observedTime` is the time of
that version, so that time alone changes nothing.

A view remembers the newest version of each option and which ones went, not every state between:
a reader that comes back gets what changed since, each option once (rule 5.3 allows to coalesce).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from pydantic import ValidationError

from apiserver.forms import Encoded, encode
from apiserver.watch import QUEUE_MAX, VERSIONS_PER_SECOND, Change, Subscription, Versions
from shared.api.conditions import Condition, ConditionType
from shared.core.tenants import is_tenant, is_within
from shared.core.terms import Truth
from shared.errors import Expired
from shared.reasons import Reason

if TYPE_CHECKING:
    from apiserver.selectors import Selector
    from shared.core.cluster import ClusterState, Touched
    from shared.core.options import Option

log = structlog.get_logger(__name__)

IDLE_SECONDS: Final = 600.0
"""How long a view is kept that nobody asks about; a watch from before then lists again."""

COALESCE_SECONDS: Final = 0.05
"""How long changes gather before watchers are told: one event for a burst."""

VIEWS_MAX: Final = 20_000
"""How many views are kept; also one of a name that does not exist is one."""

TOMBSTONES_MAX: Final = 1024
"""How many options that went a view remembers."""

_BREATH: Final = 64
"""How many options are computed before others get the loop."""


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


@dataclass(frozen=True)
class Entry:
    """One option at one version.

    `created` is the version under which it came, `labelled` the one at which its labels last
    changed, `since` the one at which Selectable got its status.
    """

    option: Option
    version: int
    created: int
    labelled: int
    since: int
    fresh: Condition

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.option.namespace

    @property
    def name(self) -> str:
        """Its name: that of the class."""
        return self.option.gpu_class.name

    @cached_property
    def encoded(self) -> Encoded:
        """Its bytes, made when first asked for."""
        return encode(
            self.option,
            version=self.version,
            observed_time=_rfc3339(_instant(self.version)),
            since=_rfc3339(_instant(self.since)),
            fresh=self.fresh,
        )

    def matches(self, selector: Selector) -> bool:
        """Whether a selector means it."""
        return selector.matches(self.namespace, self.name, self.option.gpu_class.labels)

    def at(self, version: int) -> Entry:
        """The same content under another version."""
        return replace(self, version=version)


class View:
    """The options of one namespace. `floor` is the version before which it knows nothing."""

    def __init__(self, namespace: str, floor: int) -> None:
        self.namespace = namespace
        self.floor = floor
        self.used = 0.0
        self.stale: set[str] = set()
        self.all_stale = True
        self._entries: dict[str, Entry] = {}
        self._gone: dict[tuple[str, int], Entry] = {}

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
        self._gone[before.name, version] = gone
        while len(self._gone) > TOMBSTONES_MAX:
            (_, dropped), _ = next(iter(self._gone.items()))
            del self._gone[next(iter(self._gone))]
            self.floor = max(self.floor, dropped)
        return Change(version, before, None, gone)

    def since(self, version: int) -> list[Change]:
        """What changed after a version, each option at its newest.

        Raises:
            Expired: it is older than what the view knows.
        """
        if version < self.floor:
            raise Expired(f"too old resource version: {version} ({self.floor})")
        changes = [
            Change(gone.version, gone, None, gone, relabelled=gone.labelled > version)
            for (_, went), gone in self._gone.items()
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


class Catalog:
    """All views, and who watches them.

    Args:
        source: where options come from.
        versions: gives out versions.
        monotonic: seconds, to tell idle views.
        queue_max: how many changes a reader may lag behind.
    """

    def __init__(
        self,
        source: OptionSource,
        versions: Versions,
        *,
        monotonic: Callable[[], float],
        queue_max: int = QUEUE_MAX,
    ) -> None:
        self.versions = versions
        self._source = source
        self._monotonic = monotonic
        self._queue_max = queue_max
        self._views: dict[str, View] = {}
        self._readers: dict[str, set[Subscription]] = {}
        self._readers_of_all: set[Subscription] = set()
        self._wake = asyncio.Event()
        self._ended = False
        self._fresh = freshness(None, _instant(versions.current()))

    # What is asked.

    def option(self, namespace: str, name: str) -> Entry | None:
        """One option, as of now."""
        return self._view(namespace).get(name)

    def options(self, namespace: str) -> list[Entry]:
        """The options of a namespace by name, as of now; none where it does not exist."""
        return self._view(namespace).entries()

    async def prepare_all(self) -> None:
        """Make the views of all tenants up to date, letting others have the loop in between."""
        computed = 0
        for namespace in self._tenants():
            view = self._views.get(namespace)
            if view is None or view.is_stale:
                computed += len(self._view(namespace).entries())
            if computed >= _BREATH:
                computed = 0
                await asyncio.sleep(0)

    def options_of_all(self) -> list[Entry]:
        """The options of every tenant by namespace and name. Prepare first: this does not wait."""
        return [entry for namespace in self._tenants() for entry in self.options(namespace)]

    def subscribe(
        self,
        namespace: str | None,
        selector: Selector,
        since: int,
        *,
        on_overflow: Callable[[], None],
    ) -> Subscription:
        """Begin to read changes after a version; 0 begins with everything as it is now.

        Raises:
            Expired: the version is older than what is known.
        """
        namespaces = self._tenants() if namespace is None else [namespace]
        views = [self._view(name) for name in namespaces]
        backlog = [change for view in views for change in _backlog(view, since)]
        backlog.sort(key=lambda change: change.version)
        subscription = Subscription(
            namespace, selector, backlog, on_overflow=on_overflow, queue_max=self._queue_max
        )
        if self._ended:
            subscription.end()
        self._readers_at(namespace).add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop reading."""
        readers = self._readers_at(subscription.namespace)
        readers.discard(subscription)
        if subscription.namespace is not None and not readers:
            del self._readers[subscription.namespace]

    def end(self) -> None:
        """Let every reader end, now and later: the process goes away."""
        self._ended = True
        for readers in (self._readers_of_all, *self._readers.values()):
            for reader in readers:
                reader.end()

    @property
    def watchers(self) -> int:
        """How many read."""
        return len(self._readers_of_all) + sum(map(len, self._readers.values()))

    # What changes.

    def touch(self, touched: Touched) -> None:
        """Mark what a change of the cluster may have touched."""
        if not touched:
            return
        for view in self._views.values():
            if touched.everything or any(
                self._source.is_within(view.namespace, top) for top in touched.namespaces
            ):
                view.all_stale = True
                continue
            view.stale |= touched.classes
            view.stale.update(
                name
                for name, top in touched.budgets
                if name not in view.stale and self._source.is_within(view.namespace, top)
            )
        self._wake.set()

    def set_fresh(self, fresh: Condition) -> None:
        """Say how fresh the inputs are; another condition changes every option."""
        if fresh != self._fresh:
            self._fresh = fresh
            for view in self._views.values():
                view.all_stale = True
            self._wake.set()

    async def run(self) -> None:
        """Tell watchers what changed, a moment after it did. Runs until cancelled."""
        while True:
            await self._wake.wait()
            await asyncio.sleep(COALESCE_SECONDS)
            self._wake.clear()
            self._drop_idle()
            await self._tell()

    async def _tell(self) -> None:
        namespaces = set(self._readers)
        if self._readers_of_all:
            namespaces.update(self._tenants())
        for namespace in sorted(namespaces):
            view = self._views.get(namespace)
            if view is None or view.is_stale:
                self._view(namespace)
                await asyncio.sleep(0)

    def _drop_idle(self) -> None:
        before = self._monotonic() - IDLE_SECONDS
        for name in [name for name, view in self._views.items() if view.used < before]:
            self._drop(name)

    def _drop(self, namespace: str) -> None:
        read = namespace in self._readers or (self._readers_of_all and is_tenant(namespace))
        if not read:
            del self._views[namespace]

    def _view(self, namespace: str) -> View:
        """The view of a namespace, up to date; its readers are told what that changed."""
        view = self._views.get(namespace)
        if view is None:
            if len(self._views) >= VIEWS_MAX:
                self._drop(min(self._views.values(), key=lambda each: each.used).namespace)
            view = self._views[namespace] = View(namespace, self.versions.current())
        view.used = self._monotonic()
        if view.is_stale:
            changes = view.refresh(self._source, self.versions, self._fresh)
            if changes:
                for reader in self._readers.get(namespace, ()):
                    reader.push(changes)
                if is_tenant(namespace):
                    for reader in self._readers_of_all:
                        reader.push(changes)
        return view

    def _tenants(self) -> list[str]:
        """Every tenant, and those that went and are remembered: readers have to learn of it."""
        return sorted(
            {*filter(is_tenant, self._source.namespaces()), *filter(is_tenant, self._views)}
        )

    def _readers_at(self, namespace: str | None) -> set[Subscription]:
        if namespace is None:
            return self._readers_of_all
        return self._readers.setdefault(namespace, set())


def _backlog(view: View, since: int) -> list[Change]:
    if since:
        return view.since(since)
    return [Change(entry.version, None, entry, None) for entry in view.entries()]


def freshness(lag: str | None, since: datetime) -> Condition:
    """The condition Fresh: True, or False with what lags."""
    return Condition(
        type=ConditionType.FRESH,
        status=Truth.TRUE if lag is None else Truth.FALSE,
        last_transition_time=_rfc3339(since),
        reason=Reason.AVAILABLE if lag is None else Reason.INPUTS_UNREADABLE,
        message=lag or "",
    )


def _instant(version: int) -> datetime:
    return datetime.fromtimestamp(version // VERSIONS_PER_SECOND, UTC)


def _rfc3339(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


class StateSource:
    """The cluster's state as a source of options."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def namespaces(self) -> Collection[str]:
        """As `OptionSource` says."""
        return self._state.namespaces.keys()

    def class_names(self) -> Collection[str]:
        """As `OptionSource` says."""
        return self._state.classes.keys()

    def option(self, namespace: str, class_name: str) -> Option | None:
        """As `OptionSource` says."""
        return self._state.option(namespace, class_name)

    def is_within(self, namespace: str, top: str) -> bool:
        """As `OptionSource` says."""
        return is_within(namespace, top)
