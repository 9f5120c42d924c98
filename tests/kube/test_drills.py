"""The informer while the API server, the store or the network fail under it."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from admission.inputs import VIEW_AGE_MAX
from shared.kube.pace import BRISK
from shared.kube.reflector import Standing
from tests.cluster.processes import suspended
from tests.kube.conftest import Lone
from tests.kube.following import PACE, Following, credentials, following
from tests.kube.relay import Relay
from tests.kube.test_informer import QUOTAS, Unique, quota, settle, storm

NAMESPACES = "v1/Namespace"


@pytest.fixture
async def space(lone: Lone, unique: Unique) -> str:
    """A namespace on the plane of the drills."""
    name = unique("drill")
    await lone.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@asynccontextmanager
async def behind(relay: Relay, lone: Lone) -> AsyncIterator[Following]:
    """Follow quotas through a relay, synced."""
    async with following(credentials(lone.access, port=relay.port), [QUOTAS]) as got:
        await got.informer.wait_until_synced()
        yield got


async def test_a_connection_that_breaks_again_and_again_loses_nothing(
    lone: Lone, space: str
) -> None:
    """Each one breaks within a few kilobytes, mostly inside an event."""
    async with Relay(lone.apiserver.port) as relay, behind(relay, lone) as got:
        relay.cut_after = 9000
        relay.break_all()
        rounds = 0
        while relay.accepted < 8:
            await storm(lone.api, space, random.Random(rounds), 60, f"round-{rounds}-")
            rounds += 1
        relay.cut_after = None
        relay.break_all()
        await settle(got, QUOTAS, space)
        assert got.report("resourcequotas").trouble == ""


async def test_a_connection_that_stays_open_and_delivers_nothing_is_found_out(
    lone: Lone, space: str
) -> None:
    """Trouble 10: a peer lost without a word."""
    async with Relay(lone.apiserver.port) as relay, behind(relay, lone) as got:
        await lone.api.create(quota(space, "before", 1))
        await got.until(lambda: "before" in got.of(space), "the first quota is seen")
        relay.freeze()
        await lone.api.create(quota(space, "meanwhile", 1))
        await lone.api.delete("v1/ResourceQuota", "before", space)
        accepted = relay.accepted
        await got.until(lambda: relay.accepted > accepted, "it connects anew")
        await got.until(lambda: got.informer.ages()["resourcequotas"] > PACE.stall, "its age tells")
        assert list(got.of(space)) == ["before"]
        assert got.informer.synced
        relay.thaw()
        await got.until(lambda: list(got.of(space)) == ["meanwhile"], "it has caught up")
        assert got.gone(space) == ["before"]


async def test_a_kube_apiserver_that_is_stopped_shows_in_the_age_and_is_fresh_soon_after_it_goes_on(
    lone: Lone, space: str
) -> None:
    """Stopped and not ended: its sockets stay open, and take connections that nobody answers."""
    async with following(credentials(lone.access), [QUOTAS], BRISK) as got:
        await got.informer.wait_until_synced()
        await lone.api.create(quota(space, "a", 1))
        await got.until(lambda: "a" in got.of(space), "the first quota is seen")
        with suspended(lone.apiserver.process):
            age = got.informer.ages
            await got.until(lambda: age()["resourcequotas"] > VIEW_AGE_MAX, "the age is too old")
            assert (got.informer.synced, list(got.of(space))) == (True, ["a"])
        await got.until(lambda: age()["resourcequotas"] < VIEW_AGE_MAX, "it is fresh again")
        await lone.api.create(quota(space, "b", 1))
        await got.until(lambda: "b" in got.of(space), "what came since is seen")


async def test_a_server_that_is_away_shows_in_the_age_and_is_caught_up_with(
    lone: Lone, space: str
) -> None:
    async with Relay(lone.apiserver.port) as relay, behind(relay, lone) as got:
        await lone.api.create(quota(space, "a", 1))
        await got.until(lambda: "a" in got.of(space), "the first quota is seen")
        relay.refuse()
        await lone.api.apply(quota(space, "a", 2))
        await lone.api.create(quota(space, "b", 1))
        await got.until(lambda: got.report("resourcequotas").trouble, "the trouble is told")
        assert got.report("resourcequotas").standing is Standing.SYNCED
        relay.accept()
        await settle(got, QUOTAS, space)
        assert got.report("resourcequotas").trouble == ""


async def test_kube_apiserver_may_restart_under_it(lone: Lone, space: str) -> None:
    async with following(credentials(lone.access), [QUOTAS]) as got:
        await got.informer.wait_until_synced()
        await lone.api.create(quota(space, "a", 1))
        await got.until(lambda: "a" in got.of(space), "the first quota is seen")
        await lone.apiserver.stop()
        await got.until(lambda: got.report("resourcequotas").trouble, "the trouble is told")
        await lone.apiserver.start()
        await lone.api.delete("v1/ResourceQuota", "a", space)
        await lone.api.create(quota(space, "b", 1))
        await got.until(lambda: list(got.of(space)) == ["b"], "it has caught up")


async def etcd(lone: Lone, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask the store itself, at its JSON gateway."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{lone.etcd.port}{path}", json=body) as answer,
    ):
        answer.raise_for_status()
        got: dict[str, Any] = await answer.json()
        return got


async def test_a_version_that_was_compacted_is_listed_anew_with_the_deleted_told(
    lone: Lone, space: str
) -> None:
    """The real 410: history is gone from the store, and the server starts with none."""
    async with Relay(lone.apiserver.port) as relay, behind(relay, lone) as got:
        await lone.api.create(quota(space, "goes", 1))
        await lone.api.create(quota(space, "stays", 1))
        await got.until(lambda: len(got.of(space)) == 2, "both quotas are seen")
        lists = got.report("resourcequotas").lists
        relay.refuse()
        await lone.api.delete("v1/ResourceQuota", "goes", space)
        last = await lone.api.create(quota(space, "comes", 1))
        await lone.apiserver.stop()
        revision = last["metadata"]["resourceVersion"]
        await etcd(lone, "/v3/kv/compaction", {"revision": revision, "physical": True})
        await lone.apiserver.start()
        relay.accept()
        await got.until(lambda: set(got.of(space)) == {"stays", "comes"}, "the difference was told")
        assert got.gone(space) == ["goes"]
        assert got.report("resourcequotas").lists > lists


async def test_a_store_that_was_set_back_to_a_backup_is_noticed(
    lone: Lone, space: str, tmp_path: Path
) -> None:
    """The server's versions then lie behind ours: a watch from ours would tell nothing."""
    async with following(credentials(lone.access), [QUOTAS]) as got:
        await got.informer.wait_until_synced()
        await lone.api.create(quota(space, "in-the-backup", 1))
        await lone.apiserver.stop()
        await lone.etcd.stop()
        await asyncio.to_thread(shutil.copytree, lone.at.data, tmp_path / "backup")
        await lone.etcd.start()
        await lone.apiserver.start()
        await storm(lone.api, space, random.Random(7), 200)
        await lone.api.create(quota(space, "lost", 1))
        await settle(got, QUOTAS, space)
        await lone.apiserver.stop()
        await lone.etcd.stop()
        await asyncio.to_thread(shutil.rmtree, lone.at.data)
        await asyncio.to_thread(shutil.copytree, tmp_path / "backup", lone.at.data)
        await lone.etcd.start()
        await lone.apiserver.start()
        await got.until(
            lambda: list(got.of(space)) == ["in-the-backup"], "the backup's state was told"
        )
        await lone.api.create(quota(space, "new", 1))
        await got.until(lambda: "new" in got.of(space), "and what comes after it")
