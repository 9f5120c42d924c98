"""The informer on a real API server: what it holds is what the server has, whatever happens."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from shared import vocabulary as v
from shared.core.model import Object, Secret
from shared.fields import Json
from shared.kube import decode
from shared.kube.collections import CLUSTER, PLACING, Collection, config_map
from shared.kube.pace import Pace
from shared.kube.paths import collection
from shared.kube.reflector import Standing
from tests.cluster.access import User
from tests.cluster.api import Api
from tests.cluster.session import Cluster
from tests.cluster.waiting import wait_until
from tests.kube.following import Following, credentials, following, listed

Unique = Callable[[str], str]

BY_NAME = {each.name: each for each in CLUSTER}
QUOTAS, PODS, NODES = BY_NAME["resourcequotas"], BY_NAME["pods"], BY_NAME["nodes"]


def quota(namespace: str, name: str, units: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"hard": {"requests.example.com/gpu": str(units)}},
    }


async def storm(
    api: Api, namespace: str, chance: random.Random, writes: int, prefix: str = "q"
) -> None:
    """Create, change and delete quotas at random, many at a time; names begin with `prefix`."""
    units = 0

    async def live(name: str) -> None:
        nonlocal units
        for _ in range(writes // 20):
            units += 1
            await api.create(quota(namespace, name, units))
            for _ in range(chance.randint(0, 3)):
                units += 1
                await api.apply(quota(namespace, name, units))
            if chance.random() < 0.7:
                await api.delete("v1/ResourceQuota", name, namespace)
            else:
                return

    async with asyncio.TaskGroup() as lives:
        for number in range(20):
            lives.create_task(live(f"{prefix}{number}"))


def in_namespace(values: dict[tuple[str, str], Object], namespace: str) -> dict[str, Object]:
    return {name: value for (space, name), value in values.items() if space == namespace}


async def settle(got: Following, source: Collection[Object], namespace: str) -> None:
    """Wait until what is held in a namespace is what a fresh list has."""
    want = in_namespace(await listed(got.connection, source), namespace)
    await got.until(
        lambda: got.of(namespace) == want, f"{source.name} in {namespace} are as listed"
    )


async def test_a_storm_of_changes_ends_in_what_the_server_has(
    cluster: Cluster, namespace: str
) -> None:
    async with following(credentials(cluster.access), [QUOTAS]) as got:
        await got.informer.wait_until_synced()
        await storm(cluster.admin, namespace, random.Random(3), 200)
        await settle(got, QUOTAS, namespace)
        assert got.gone(namespace)
        assert got.report("resourcequotas").lists == 1


async def test_a_list_of_many_pages_is_one_list(
    cluster: Cluster, namespace: str, unique: Unique
) -> None:
    names = [unique("q") for _ in range(25)]
    for name in names:
        await cluster.admin.create(quota(namespace, name, 1))
    small = Collection(QUOTAS.name, QUOTAS.path, QUOTAS.decode, page_size=7)
    async with following(credentials(cluster.access), [small]) as got:
        await got.informer.wait_until_synced()
        assert sorted(got.of(namespace)) == sorted(names)


@pytest.mark.parametrize("collections", [CLUSTER, PLACING], ids=["for figures", "for placing"])
async def test_every_collection_of_a_cluster_is_known_even_where_its_kind_is_not_served(
    cluster: Cluster, collections: tuple[Collection[Object], ...]
) -> None:
    by_name = {each.name: each for each in collections}
    async with following(credentials(cluster.access), collections) as got:
        await got.informer.wait_until_synced()
        assert set(got.informer.ages()) == set(by_name)
        for name, each in by_name.items():
            served = await cluster.admin.request("GET", each.path, query={"limit": "1"})
            want = Standing.SYNCED if served.status == 200 else Standing.ABSENT
            assert got.report(name).standing is want
            assert not got.report(name).problems
        for name in ("nodes", "namespaces", "resourcequotas"):
            await same_names(got, by_name[name])


def secret(name: str, namespace: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "stringData": {"token": "hidden"},
    }


async def test_of_secrets_only_the_names_of_ours_are_ever_sent_to_us(
    cluster: Cluster, namespace: str
) -> None:
    """Rule 7.15: neither a list nor a watch carries what is in one."""
    (secrets,) = (each for each in PLACING if each.name == "secrets")
    sent: list[Json] = []

    def noted(raw: Json, note: decode.Note) -> Object:
        sent.append(raw)
        return secrets.decode(raw, note)

    ours = {v.LABEL_MANAGED_BY: v.MANAGED_BY}
    await cluster.admin.create(secret("listed", namespace, ours))
    await cluster.admin.create(secret("somebody-elses", namespace, {}))
    source = dataclasses.replace(secrets, decode=noted)
    async with following(credentials(cluster.access), [source]) as got:
        await got.until(lambda: "listed" in got.of(namespace), "the first is seen")
        await cluster.admin.create(secret("watched", namespace, ours))
        await got.until(lambda: "watched" in got.of(namespace), "the second is seen")
        assert got.of(namespace) == {
            name: Secret(namespace, name) for name in ("listed", "watched")
        }
        await cluster.admin.patch(
            "v1/Secret", "listed", {"metadata": {"labels": {v.LABEL_MANAGED_BY: None}}}, namespace
        )
        await got.until(lambda: "listed" not in got.of(namespace), "one is ours no longer")
    assert {name for raw in sent for name in raw} == {"kind", "apiVersion", "metadata"}


async def same_names(got: Following, source: Collection[Object]) -> None:
    """Wait until a fresh list has the names that are held."""

    async def asked() -> bool:
        fresh = await listed(got.connection, source)
        return got.keys({type(value) for value in fresh.values()}) == set(fresh)

    await wait_until(asked, f"{source.name} are as listed")


def definition(group: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


async def test_a_kind_may_come_and_go_and_come_again(
    cluster: Cluster, namespace: str, unique: Unique
) -> None:
    """Rule 7.15: KubeVirt's kinds are followed once they are served."""
    group = f"{unique('kind')}.example.com"
    crd = "apiextensions.k8s.io/v1/CustomResourceDefinition"
    widgets = Collection("widgets", collection(f"{group}/v1", "widgets"), decode.quota)

    async def serve_one(got: Following) -> None:
        await cluster.admin.create(definition(group))
        widget = {
            "apiVersion": f"{group}/v1",
            "kind": "Widget",
            "metadata": {"name": "w1", "namespace": namespace},
        }
        await got.until(
            lambda: got.report("widgets").standing is Standing.SYNCED, "widgets are served"
        )
        await cluster.admin.create(widget)
        await got.until(lambda: list(got.of(namespace)) == ["w1"], "the widget is seen")

    async with following(credentials(cluster.access), [widgets]) as got:
        await got.informer.wait_until_synced()
        assert got.report("widgets").standing is Standing.ABSENT
        await serve_one(got)
        await cluster.admin.delete(crd, f"widgets.{group}")
        await got.until(
            lambda: got.report("widgets").standing is Standing.ABSENT, "widgets are withdrawn"
        )
        assert got.gone(namespace) == ["w1"]
        assert got.informer.synced
        await got.until(lambda: not got.of(namespace), "nothing is left of them")
        await serve_one(got)
        await cluster.admin.delete(crd, f"widgets.{group}")


async def test_what_may_not_be_read_is_named_until_it_may(
    cluster: Cluster, namespace: str, unique: Unique
) -> None:
    role, user = unique("reader"), User(unique("user"))

    def binding(resource: str) -> list[dict[str, Any]]:
        rbac, name = "rbac.authorization.k8s.io", f"{role}-{resource}"
        rule = {"apiGroups": [""], "resources": [resource], "verbs": ["list", "watch"]}
        subject = {"apiGroup": rbac, "kind": "User", "name": user.name}
        return [
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": [rule],
            },
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
                "subjects": [subject],
            },
        ]

    for obj in binding("nodes"):
        await cluster.admin.create(obj)
    async with following(credentials(cluster.access, user), [NODES, QUOTAS]) as got:
        await got.until(lambda: got.informer.unreadable, "something may not be read")
        await got.until(
            lambda: got.report("nodes").standing is Standing.SYNCED, "nodes may be read"
        )
        assert got.informer.unreadable == {"resourcequotas"}
        assert not got.informer.synced
        assert "resourcequotas is forbidden" in got.report("resourcequotas").trouble
        await cluster.admin.create(quota(namespace, "q", 1))
        for obj in binding("resourcequotas"):
            await cluster.admin.create(obj)
        await got.informer.wait_until_synced()
        assert got.informer.unreadable == frozenset()
        assert "q" in got.of(namespace)


class Raw:
    """A sink of undecoded objects."""

    def __init__(self) -> None:
        self.data: object = None

    def put(self, value: Json) -> None:
        self.data = value.get("data")

    def gone(self, value: Json) -> None:
        del value
        self.data = None


async def test_one_config_map_is_followed_with_the_right_to_that_one_alone(
    cluster: Cluster, namespace: str, unique: Unique
) -> None:
    """As `extension-apiserver-authentication` is read, and our settings."""
    name, user, rbac = unique("map"), User(unique("user")), "rbac.authorization.k8s.io"
    meta = {"name": name, "namespace": namespace}
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [name],
        "verbs": ["get", "list", "watch"],
    }
    reference = {"apiGroup": rbac, "kind": "Role", "name": name}
    subject = {"apiGroup": rbac, "kind": "User", "name": user.name}
    for kind, body in (
        ("Role", {"rules": [rule]}),
        ("RoleBinding", {"roleRef": reference, "subjects": [subject]}),
    ):
        await cluster.admin.create(
            {"apiVersion": f"{rbac}/v1", "kind": kind, "metadata": meta, **body}
        )
    raw = Raw()
    one = config_map(namespace, name)
    async with following(
        credentials(cluster.access, user), also=lambda informer: informer.follow(one, raw)
    ) as got:
        await got.informer.wait_until_synced()
        assert raw.data is None
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        await cluster.admin.create({**config, "data": {"a": "1"}})
        await got.until(lambda: raw.data == {"a": "1"}, "the map is seen")
        await cluster.admin.patch("v1/ConfigMap", name, {"data": {"a": "2"}}, namespace)
        await got.until(lambda: raw.data == {"a": "2"}, "the change is seen")
        await cluster.admin.create(
            {**config, "metadata": {**meta, "name": unique("map")}, "data": {"a": "3"}}
        )
        await cluster.admin.delete("v1/ConfigMap", name, namespace)
        await got.until(lambda: raw.data is None, "the end is seen")


async def test_a_quiet_collection_is_proven_fresh_by_the_end_of_each_watch(
    cluster: Cluster, unique: Unique
) -> None:
    """kube-apiserver sends no bookmark where nothing was written (seen on 1.36)."""
    group = f"{unique('kind')}.example.com"
    await cluster.admin.create(definition(group))
    widgets = Collection("widgets", collection(f"{group}/v1", "widgets"), decode.quota)
    pace = Pace(watch=(2, 2), absent=0.5)
    async with following(credentials(cluster.access), [widgets], pace) as got:
        await got.until(
            lambda: got.report("widgets").standing is Standing.SYNCED, "widgets are served"
        )
        listed_at = time.monotonic() - got.report("widgets").age
        before = got.report("widgets")
        await got.until(
            lambda: got.report("widgets").watches >= before.watches + 2, "two watches ended"
        )
        after = got.report("widgets")
        assert time.monotonic() - after.age > listed_at + 3
        assert after.lists == before.lists
        assert after.trouble == ""
