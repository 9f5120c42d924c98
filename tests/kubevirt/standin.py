"""The stand-in as a test uses it: everything started, and stopped at the block's end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import aiohttp

from shared import vocabulary
from tests.cluster.api import Api, Object, Refused
from tests.cluster.session import Cluster
from tests.kubevirt import account
from tests.kubevirt import words as w
from tests.kubevirt.cache import Cache, follow
from tests.kubevirt.controller import (
    INSTANCE,
    MACHINE,
    MIGRATION,
    REPLICA_SET,
    Hands,
    Instances,
    Machines,
    Migrations,
    ReplicaSets,
    Unfinished,
)
from tests.kubevirt.guests import GUEST, Guests
from tests.kubevirt.imports import IMPORT, Imports
from tests.kubevirt.objects import controller_of, items, labels_of, name_of, namespace_of
from tests.kubevirt.rendering import claim_of
from tests.kubevirt.timing import Clock, SystemClock, Timing
from tests.kubevirt.workqueue import Key, WorkQueue

WORKERS: Final = 10
"""Passes at the same time, each over another object."""

NAMESPACED: Final[Mapping[str, Mapping[str, str]]] = {
    w.VM: {},
    w.VMI: {},
    w.MIGRATION: {},
    w.REPLICA_SET: {},
    w.POD: {"labelSelector": w.LABEL_APP},
    w.PVC: {},
    w.DATA_VOLUME: {},
}
"""What is followed where the machines are, with its selector."""


class Part(Protocol):
    """One part of KubeVirt: a pass over an object of its kind."""

    async def work(self, namespace: str, name: str) -> None:
        """Do what is to be done for it now."""


@dataclass(frozen=True, slots=True)
class Standin:
    """A running stand-in.

    Attributes:
        namespace: where KubeVirt is.
        controller: the API as its controller's account.
        handler: the API as virt-handler's.
    """

    namespace: str
    controller: Api
    handler: Api


@contextlib.asynccontextmanager
async def kubevirt(
    cluster: Cluster,
    namespace: str = vocabulary.KUBEVIRT_NAMESPACE,
    *,
    serves: str | None = None,
    timing: Timing | None = None,
    clock: Clock | None = None,
    chance: random.Random | None = None,
    guests_run: bool = True,
    disks_import: bool = True,
) -> AsyncIterator[Standin]:
    """KubeVirt for as long as the block runs; its kinds are served already.

    When the block ends, whatever is under way is dropped, as with a controller that is killed. One
    that is started later takes over what it finds (KubeVirt observed 47, 48).

    Args:
        cluster: of the machines.
        namespace: KubeVirt's own, with its accounts and the KubeVirt object.
        serves: the one namespace whose machines it looks after; None for all. Two stand-ins at
            once need two namespaces.
        timing: how long things take.
        clock: the machine's unless given.
        chance: for pauses; unseeded unless given.
        guests_run: whether virt-handler's part is played; else the test writes what it would.
        disks_import: whether the importer's part is played; else the test writes its phases.
    """
    await account.install(cluster, namespace)
    plan = _Plan(
        cluster,
        namespace,
        serves,
        timing or Timing(),
        clock or SystemClock(),
        chance or random.Random(),
        guests_run,
        disks_import,
    )
    try:
        async with contextlib.AsyncExitStack() as ending:
            apis = []
            for name in (w.ACCOUNT_CONTROLLER, w.ACCOUNT_HANDLER):
                apis.append(await account.connect(cluster, namespace, name))
                ending.push_async_callback(apis[-1].close)
            tasks = await ending.enter_async_context(asyncio.TaskGroup())
            listed = asyncio.Event()
            running = tasks.create_task(_run(plan, apis[0], apis[1], listed))
            ending.callback(running.cancel)
            await listed.wait()
            yield Standin(namespace, *apis)
    except BaseExceptionGroup as group:
        raise _only(group) from None


def _only(group: BaseException) -> BaseException:
    """What is in a group, when it is one thing: mostly the failure of the test itself."""
    while isinstance(group, BaseExceptionGroup) and len(group.exceptions) == 1:
        group = group.exceptions[0]
    return group


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be run."""

    cluster: Cluster
    namespace: str
    serves: str | None
    timing: Timing
    clock: Clock
    chance: random.Random
    guests_run: bool
    disks_import: bool


async def _run(plan: _Plan, controller: Api, handler: Api, ready: asyncio.Event) -> None:
    """Follow the collections, then work, until cancelled; an error of ours ends it."""
    async with asyncio.TaskGroup() as tasks:
        queue = WorkQueue(plan.clock, plan.timing, tasks)
        cache = Cache(plan.clock, plan.timing, plan.chance, functools.partial(_wake, queue))
        listed = []
        for kind, home, query in _followed(plan):
            listed.append(asyncio.Event())
            tasks.create_task(follow(controller, kind, home, cache, listed[-1], **query))
        for each in listed:
            await each.wait()
        parts = _parts(plan, queue, cache, controller, handler)
        for _ in range(WORKERS):
            tasks.create_task(_work(queue, parts))
        ready.set()


def _followed(plan: _Plan) -> Iterator[tuple[str, str | None, Mapping[str, str]]]:
    for kind, query in NAMESPACED.items():
        yield kind, plan.serves, query
    yield w.KUBEVIRT, plan.namespace, {}
    yield w.NODE, None, {}


def _parts(
    plan: _Plan, queue: WorkQueue, cache: Cache, controller: Api, handler: Api
) -> dict[str, Part]:
    hands = Hands(controller, cache, queue, plan.clock, plan.timing, plan.chance, plan.namespace)
    others = dataclasses.replace(hands, api=plan.cluster.admin)
    parts: dict[str, Part] = {
        MACHINE: Machines(hands),
        INSTANCE: Instances(hands),
        MIGRATION: Migrations(hands),
        REPLICA_SET: ReplicaSets(hands),
    }
    if plan.guests_run:
        parts[GUEST] = Guests(dataclasses.replace(hands, api=handler), others)
    if plan.disks_import:
        parts[IMPORT] = Imports(others)
    return parts


async def _work(queue: WorkQueue, parts: Mapping[str, Part]) -> None:
    """Work on one key after the other."""
    while True:
        key = await queue.take()
        try:
            if key.part in parts:
                await parts[key.part].work(key.namespace, key.name)
        except (Unfinished, Refused, aiohttp.ClientError, TimeoutError):
            queue.again(key)
        else:
            queue.forget(key)
        finally:
            queue.done(key)


def _wake(queue: WorkQueue, cache: Cache, kind: str, obj: Object) -> None:
    for key in concerned(cache, kind, obj):
        queue.add(key)


def concerned(cache: Cache, kind: str, obj: Object) -> Iterator[Key]:
    """Whose business a change of an object is. That of the KubeVirt object is nobody's."""
    namespace = namespace_of(obj)
    if kind == w.VM:
        yield Key(MACHINE, namespace, name_of(obj))
    elif kind == w.VMI:
        yield from _concerned_by_instance(cache, obj)
    elif kind == w.MIGRATION:
        yield Key(MIGRATION, namespace, name_of(obj))
        yield Key(INSTANCE, namespace, obj["spec"]["vmiName"])
    elif kind == w.REPLICA_SET:
        yield Key(REPLICA_SET, namespace, name_of(obj))
    elif kind == w.POD:
        owner = controller_of(obj)
        if owner.get("kind") == "Pod":
            launcher = cache.get(w.POD, namespace, owner["name"])
            owner = controller_of(launcher) if launcher else {}
        if owner.get("kind") == "VirtualMachineInstance":
            yield Key(INSTANCE, namespace, owner["name"])
            yield Key(GUEST, namespace, owner["name"])
            if w.LABEL_MIGRATION_JOB in labels_of(obj):
                yield from _migrations_of(cache, namespace, owner["name"])
    elif kind in {w.PVC, w.DATA_VOLUME}:
        yield Key(IMPORT, namespace, name_of(obj))
        for vmi in cache.of(w.VMI, namespace):
            if any(claim_of(each) == name_of(obj) for each in items(vmi, "spec", "volumes")):
                yield Key(INSTANCE, namespace, name_of(vmi))


def _concerned_by_instance(cache: Cache, vmi: Object) -> Iterator[Key]:
    namespace = namespace_of(vmi)
    yield Key(INSTANCE, namespace, name_of(vmi))
    yield Key(GUEST, namespace, name_of(vmi))
    owner = controller_of(vmi)
    if owner.get("kind") == "VirtualMachine":
        yield Key(MACHINE, namespace, owner["name"])
    elif owner.get("kind") == "VirtualMachineInstanceReplicaSet":
        yield Key(REPLICA_SET, namespace, owner["name"])
    yield from _migrations_of(cache, namespace, name_of(vmi))


def _migrations_of(cache: Cache, namespace: str, name: str) -> Iterator[Key]:
    for each in cache.of(w.MIGRATION, namespace):
        if each["spec"]["vmiName"] == name:
            yield Key(MIGRATION, namespace, name_of(each))
