"""What the stand-in remembers of the cluster, and when it looks at an object again."""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Iterator

import looptime
import pytest

from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.cache import Cache
from tests.kubevirt.standin import concerned
from tests.kubevirt.timing import Timing
from tests.kubevirt.workqueue import Key, WorkQueue
from tests.unit.kubevirt.given import NOW, instance, launcher

LAG = Timing(listed_after_seconds=(0.06, 0.06), stranger_after_seconds=(0.03, 0.03))


class Clock:
    """Time that passes when a test says so, or by the loop's own clock."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime.datetime:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Cache:
    return Cache(clock, LAG, random.Random(1), lambda *_: None)


def version(obj: Object, number: int) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(number)}}


def test_an_older_version_never_takes_the_place_of_a_newer_one(cache: Cache) -> None:
    cache.see(w.VMI, version(instance(phase="Running"), 12))
    cache.see(w.VMI, version(instance(phase="Pending"), 9))
    known = cache.get(w.VMI, "tenant-x", "train")
    assert known is not None
    assert known["status"]["phase"] == "Running"


def test_the_late_answer_to_a_write_does_not_bring_back_what_is_gone(cache: Cache) -> None:
    pod = version(launcher(), 5)
    cache.see(w.POD, pod)
    cache.lose(w.POD, version(launcher(), 9))
    cache.see(w.POD, version(launcher(), 8))
    assert cache.get(w.POD, "tenant-x", "virt-launcher-train-abcde") is None
    assert cache.owned(instance()) == ()


def test_another_object_of_the_same_name_takes_its_place(cache: Cache) -> None:
    first, second = launcher(), launcher()
    second["metadata"]["uid"] = "other"
    cache.see(w.POD, version(first, 5))
    cache.see(w.POD, version(second, 7))
    assert [pod["metadata"]["uid"] for pod in cache.owned(instance())] == ["other"]


def test_a_list_drops_what_it_lacks_but_not_what_is_newer_than_it(cache: Cache) -> None:
    old, new = version(launcher("old"), 5), version(launcher("new"), 30)
    cache.see(w.POD, old)
    cache.see(w.POD, new)
    cache.replace(w.POD, [], 20, first=False)
    assert [pod["metadata"]["name"] for pod in cache.owned(instance())] == ["new"]


def test_a_pod_is_listed_some_time_after_it_appeared_its_own_later_than_a_strangers(
    cache: Cache, clock: Clock
) -> None:
    """KubeVirt observed 13 and 17."""
    own, stranger, before = launcher("own"), launcher("stranger"), launcher("before")
    cache.replace(w.POD, [version(before, 1)], 1, first=True)
    cache.see(w.POD, version(own, 2))
    cache.expect_own(own)
    cache.see(w.POD, version(stranger, 3))

    def listed() -> list[str]:
        return [p["metadata"]["name"] for p in (own, stranger, before) if cache.is_listed(p)]

    assert listed() == ["before"]
    clock.time += datetime.timedelta(seconds=0.03)
    assert listed() == ["stranger", "before"]
    clock.time += datetime.timedelta(seconds=0.03)
    assert listed() == ["own", "stranger", "before"]


def keys(found: Iterator[Key]) -> set[tuple[str, str]]:
    return {(key.part, key.name) for key in found}


def test_a_pods_change_is_its_instances_business_also_by_way_of_another_pod(cache: Cache) -> None:
    pod = version(launcher(), 1)
    cache.see(w.POD, pod)
    attachment = launcher("hp-volume-x")
    attachment["metadata"]["ownerReferences"] = [
        {"kind": "Pod", "name": "virt-launcher-train-abcde", "uid": "any", "controller": True}
    ]
    want = {("instance", "train"), ("guest", "train")}
    assert keys(concerned(cache, w.POD, pod)) == want
    assert keys(concerned(cache, w.POD, attachment)) == want
    assert keys(concerned(cache, w.POD, launcher(ownerReferences=[]))) == set()


def test_a_claims_change_is_the_business_of_who_uses_it(cache: Cache) -> None:
    volumes = [{"name": "root", "dataVolume": {"name": "boot"}}]
    cache.see(w.VMI, version(instance(spec={"volumes": volumes}), 1))
    cache.see(w.VMI, version(instance("other"), 2))
    claim = {"metadata": {"name": "boot", "namespace": "tenant-x", "uid": "c"}}
    assert keys(concerned(cache, w.PVC, claim)) == {("import", "boot"), ("instance", "train")}


KEY = Key("instance", "tenant-x", "train")


async def test_a_key_is_worked_on_by_one_and_comes_up_again_when_it_was_added_meanwhile(
    clock: Clock,
) -> None:
    async with asyncio.TaskGroup() as later:
        queue = WorkQueue(clock, Timing(), later)
        queue.add(KEY)
        queue.add(KEY)
        assert await queue.take() == KEY
        queue.add(KEY)
        queue.add(Key("instance", "tenant-x", "other"))
        assert (await queue.take()).name == "other"
        queue.done(KEY)
        assert await queue.take() == KEY
        queue.done(KEY)


async def pauses_after(clock: Clock, outcomes: str) -> list[float]:
    """How long a key is waited for after each failure `F`; after `S` it was worked on well."""
    loop = asyncio.get_running_loop()
    pauses = []
    async with asyncio.TaskGroup() as later:
        queue = WorkQueue(clock, Timing(speed=5), later)
        for outcome in outcomes:
            if outcome == "S":
                queue.forget(KEY)
                continue
            queue.again(KEY)
            began = loop.time()
            await queue.take()
            pauses.append(loop.time() - began)
            queue.done(KEY)
    return pauses


def test_each_failure_in_a_row_doubles_the_pause_and_a_success_ends_the_row(clock: Clock) -> None:
    """KubeVirt observed 15. With a speed of 5 the first pause is 1 ms."""
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        pauses = runner.run(pauses_after(clock, "FFFSF"))
    assert pauses == pytest.approx([0.001, 0.002, 0.004, 0.001])
