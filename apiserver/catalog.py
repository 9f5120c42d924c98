"""The options as they are served: one view per namespace, kept up to date from what changed.

A view is made when its namespace is first asked about and kept while somebody reads it, and
some minutes longer. A change of the cluster only marks what it may have touched; marked options
are computed again when they are asked for, or by `Catalog.run` where somebody watches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from apiserver.entry import Entry, freshness
from apiserver.versions import Versions, instant
from apiserver.views import ALL_TOMBSTONES_MAX, OptionSource, Tombstones, View
from apiserver.watch import QUEUE_MAX, Change, Subscription
from shared.core.tenants import is_tenant, is_within
from shared.errors import ApiError, Expired

if TYPE_CHECKING:
    from apiserver.selectors import Selector
    from shared.api.conditions import Condition
    from shared.core.cluster import ClusterState, Touched
    from shared.core.options import Option

IDLE_SECONDS: Final = 600.0
"""How long a view is kept that nobody asks about; a watch from before then lists again."""

COALESCE_SECONDS: Final = 0.05
"""How long changes gather before watchers are told: one event for a burst."""

VIEWS_MAX: Final = 20_000
"""How many views are kept; also one of a name that does not exist is one."""

_BREATH: Final = 64
"""How many options are computed before others get the loop."""


class Catalog:
    """All views, and who watches them.

    Args:
        source: where options come from.
        versions: gives out versions.
        monotonic: seconds, to tell idle views.
        queue_max: how many changes a reader may lag behind.
        tombstones_max: how many options that went are remembered, over all views.
    """

    def __init__(
        self,
        source: OptionSource,
        versions: Versions,
        *,
        monotonic: Callable[[], float],
        queue_max: int = QUEUE_MAX,
        tombstones_max: int = ALL_TOMBSTONES_MAX,
    ) -> None:
        self.versions = versions
        self._source = source
        self._monotonic = monotonic
        self._queue_max = queue_max
        self._tombstones = Tombstones(tombstones_max)
        self._views: dict[str, View] = {}
        self._readers: dict[str, set[Subscription]] = {}
        self._readers_of_all: set[Subscription] = set()
        self._all_since: int | None = None
        """Since which version no tenant's options were without a view; None where some may be."""
        self._wake = asyncio.Event()
        self._ended = False
        self._fresh = freshness(None, instant(versions.current()))

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
        self._note_all()

    def options_of_all(self) -> list[Entry]:
        """The options of every tenant by namespace and name. Prepare first: this does not wait."""
        found = [entry for namespace in self._tenants() for entry in self.options(namespace)]
        self._note_all()
        return found

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
            Expired: the version is older than what is known, or another process gave it out.
        """
        if since and not self.versions.is_own(since):
            raise Expired(
                f"too old resource version: {since} (not of this replica, or from before its start)"
            )
        namespaces = self._tenants() if namespace is None else [namespace]
        if namespace is None and since and (self._all_since is None or since < self._all_since):
            raise Expired(f"too old resource version: {since} ({self._all_since})")
        views = [self._view(name) for name in namespaces]
        if namespace is None:
            self._note_all()
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
        if readers:
            return
        # Whoever read until now may come back: the idle time begins here.
        left: Collection[str] = self._views
        if subscription.namespace is not None:
            del self._readers[subscription.namespace]
            left = [subscription.namespace]
        now = self._monotonic()
        for name in left:
            named = subscription.namespace is not None
            if name in self._views and (named or (is_tenant(name) and self._exists(name))):
                self._views[name].used = now

    def end(self) -> None:
        """Let every reader end, now and later: the process goes away."""
        self._ended = True
        for readers in (self._readers_of_all, *self._readers.values()):
            for reader in readers:
                reader.end()

    def interrupt(self, error: ApiError) -> None:
        """End every reader of now with an error: what it could be told is not true any more."""
        for readers in (self._readers_of_all, *self._readers.values()):
            for reader in readers:
                reader.fail(error)

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
            self.drop_idle()
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

    def drop_idle(self) -> None:
        """Forget the views that nobody asked about for long; `run` does so as things change."""
        before = self._monotonic() - IDLE_SECONDS
        for name in [name for name, view in self._views.items() if view.used < before]:
            if not self._exists(name):
                self._view(name)  # that it went may be news, and then counts as use
            if self._views[name].used < before:
                self._drop(name)

    def _drop(self, namespace: str) -> None:
        if namespace in self._readers:
            return
        if is_tenant(namespace):
            exists = self._exists(namespace)
            if self._readers_of_all and exists:
                return
            # Readers of all have to be told that it is gone before it is forgotten.
            view = self._views[namespace] if exists else self._view(namespace)
            if exists:
                self._all_since = None
            elif self._all_since is not None:
                self._all_since = max(self._all_since, view.newest)
        self._views.pop(namespace).end()

    def _view(self, namespace: str) -> View:
        """The view of a namespace, up to date; its readers are told what that changed."""
        view = self._views.get(namespace)
        if view is None:
            if len(self._views) >= VIEWS_MAX:
                self._drop(min(self._views.values(), key=lambda each: each.used).namespace)
            view = self._views[namespace] = View(
                namespace, self._floor(namespace), self._tombstones
            )
            view.used = self._monotonic()
        if namespace in self._readers or self._exists(namespace):
            view.used = self._monotonic()
        if view.is_stale:
            changes = view.refresh(self._source, self.versions, self._fresh)
            if changes:
                view.used = self._monotonic()
                for reader in self._readers.get(namespace, ()):
                    reader.push(changes)
                if is_tenant(namespace):
                    for reader in self._readers_of_all:
                        reader.push(changes)
        return view

    def _floor(self, namespace: str) -> int:
        """From which version on a new view knows all.

        Where every tenant has had a view, one without is new: nobody was shown options of it.
        """
        if is_tenant(namespace) and self._all_since is not None:
            return self._all_since
        return self.versions.current()

    def _note_all(self) -> None:
        """Every tenant was asked about: from now on a tenant without a view is new."""
        if self._all_since is None and all(name in self._views for name in self._tenants()):
            self._all_since = self.versions.current()

    def _exists(self, namespace: str) -> bool:
        return namespace in self._source.namespaces()

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
