"""Budget keys that name no GPU are told of, once and in words for whoever wrote them (rule 4.4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from binder.actions import TellQuota
from binder.quotas import AT_ONCE, PATIENCE, BudgetKeys
from binder.rendering import Create, render
from shared.core.model import KubeVirt, Placement, Put, Quota, Settings
from shared.reasons import Reason
from tests.unit.binder.applier import actions
from tests.unit.binder.world import A100, TENANT, World, gpu_class, node

NO_DEVICE = "there is no class of this device, nor is it a GPU that is known here"
NIC = "nvidia.com/CX7"


@pytest.fixture
def world() -> World:
    made = World()
    made.put(KubeVirt("cozy-kubevirt", "kubevirt", "Deployed", frozenset({A100, NIC})))
    return made


def quota(*keys: str, name: str = "gpus", namespace: str = TENANT, uid: str = "q1") -> Quota:
    return Quota(namespace, name, dict.fromkeys(keys, 2), uid=uid)


def hints(world: World) -> list[str]:
    """What is told once keys have been there for long enough."""
    before = len(world.applier.hints)
    world.settle()
    world.now += PATIENCE
    world.settle()
    return [each.message for each in world.applier.hints[before:]]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        pytest.param("requests.nvidia.com/a100", f"{NO_DEVICE}; {A100} is one", id="another case"),
        pytest.param("nvida.com/A100", f"{NO_DEVICE}; {A100} is one", id="another domain"),
        pytest.param("request.nvidia.com/A100", f"{NO_DEVICE}; {A100} is one", id="a spelling"),
        pytest.param("limits.nvidia.com/A100_80GB", NO_DEVICE, id="no such device"),
        pytest.param(
            "requests.h100.gpuclass.gpu.cozystack.io/units",
            "there is no class h100",
            id="no such class",
        ),
        pytest.param(
            "a100.gpuclass.gpu.cozystack.io/unit",
            "there is no class with this key; that of a class is "
            "<class>.gpuclass.gpu.cozystack.io/units",
            id="a misspelt key of a class",
        ),
        pytest.param(
            "gpu.cozystack.io/a100",
            "there is no class with this key; that of a class is "
            "<class>.gpuclass.gpu.cozystack.io/units",
            id="in our domain",
        ),
    ],
)
def test_what_is_meant_for_gpus_and_names_none_is_told(world: World, key: str, told: str) -> None:
    """Trouble 1."""
    world.put(quota(key))
    assert hints(world) == [f"{key} limits no GPUs: {told}"]


@pytest.mark.parametrize(
    "key",
    [
        "requests.nvidia.com/A100",
        "limits.nvidia.com/A100",
        "nvidia.com/L40S",
        "requests.a100.gpuclass.gpu.cozystack.io/units",
        "requests.nvidia.com/CX7",  # KubeVirt permits it
        "requests.nvidia.com/MIG",  # a node offers it
        "requests.nvidia.com/listed",
        "requests.example.com/fpga",
        "requests.cpu",
        "pods",
        "count/gpuclaims.gpu.cozystack.io",
        "fast.storageclass.storage.k8s.io/requests.storage",
    ],
)
def test_what_names_one_or_is_about_something_else_is_not(world: World, key: str) -> None:
    offers = replace(node("n1"), allocatable={"nvidia.com/MIG": 1})
    world.put(
        Settings(resource_names=frozenset({"nvidia.com/listed"})),
        offers,
        quota(key),
    )
    assert hints(world) == []


@pytest.mark.parametrize(
    "kept",
    [
        Quota(TENANT, "tenant-quota-allocated", {"nvidia.com/a100": 1}),
        Quota(TENANT, "scoped", {"nvidia.com/a100": 1}, scoped=True),
    ],
)
def test_of_quotas_that_never_count_nothing_is_told(world: World, kept: Quota) -> None:
    world.put(kept)
    assert hints(world) == []


@pytest.mark.parametrize("spelled", [("requests.", ""), ("", "requests.")])
def test_each_key_is_told_once_however_often_it_is_spelt_and_the_quota_changes(
    world: World, spelled: tuple[str, ...]
) -> None:
    world.put(quota(*(f"{each}nvidia.com/a100" for each in spelled)))
    assert [each.split()[0] for each in hints(world)] == ["nvidia.com/a100"]
    world.put(quota("requests.nvidia.com/a100", "nvidia.com/l40s"))
    assert [each.split()[0] for each in hints(world)] == ["nvidia.com/l40s"]
    world.put(quota("requests.nvidia.com/a100", "nvidia.com/l40s", A100))
    assert hints(world) == []
    assert len(world.applier.agenda.budget_keys) == 2, "they are counted for as long as they stand"


def test_a_quota_that_was_made_anew_is_another_one(world: World) -> None:
    world.put(quota("nvidia.com/a100"))
    first = hints(world)
    world.gone(quota("nvidia.com/a100"))
    assert hints(world) == []
    assert len(world.applier.agenda.budget_keys) == 0
    world.put(quota("nvidia.com/a100", uid="q2"))
    assert hints(world) == first
    one, other = world.applier.hints
    assert one.event_name != other.event_name


def test_a_class_that_comes_soon_makes_its_key_known_and_one_that_goes_makes_it_unknown(
    world: World,
) -> None:
    world.put(quota("h100.gpuclass.gpu.cozystack.io/units"))
    assert world.step() != []  # the classes' status; and a hint is due
    assert world.applier.hints == []
    world.now += PATIENCE - timedelta(seconds=2)
    world.put(gpu_class("h100", "nvidia.com/H100"))
    assert hints(world) == []
    world.gone(gpu_class("h100", "nvidia.com/H100"))
    assert hints(world) == [
        "h100.gpuclass.gpu.cozystack.io/units limits no GPUs: there is no class h100"
    ]


def test_a_pass_says_when_there_is_something_to_tell(world: World) -> None:
    world.put(quota("nvidia.com/a100"))
    world.settle()
    left = world.plan().wake_in
    assert left is not None
    assert 0 < left < PATIENCE.total_seconds()
    assert len(hints(world)) == 1
    assert world.plan().wake_in is None


def test_many_are_told_a_few_in_each_pass(world: World) -> None:
    keys = [f"nvidia.com/X{number}" for number in range(AT_ONCE + 4)]
    world.put(quota(*keys))
    world.settle()
    world.now += PATIENCE
    planned = world.plan()
    assert len([each for each in actions(planned) if isinstance(each, TellQuota)]) == AT_ONCE
    assert planned.wake_in == 0.0
    assert len(hints(world)) == len(keys)


def test_nothing_is_told_while_the_devices_are_not_known(world: World) -> None:
    world.put(quota("nvidia.com/a100"))
    world.settle()
    world.state.set_unreadable({"kubevirts"})
    assert hints(world) == []
    world.state.set_unreadable(())
    assert len(hints(world)) == 1


def test_a_new_term_tells_again_by_the_same_name(world: World) -> None:
    """So what is there already stays one event."""
    world.put(quota("nvidia.com/a100"))
    first = hints(world)
    world.applier.agenda.budget_keys.forget()
    assert hints(world) == first
    one, other = world.applier.hints
    assert (one.event_name, one.at == other.at) == (other.event_name, False)


def test_what_is_told_after_its_quota_went_is_not_remembered(world: World) -> None:
    keys = BudgetKeys(world.state)
    gone = TellQuota(TENANT, "gone", "q", "nvidia.com/a100", Reason.CLASS_NOT_FOUND, "", "")
    keys.told(gone)
    world.put(quota("nvidia.com/a100", name="gone", uid="q"))
    keys.note(Put(quota("nvidia.com/a100", name="gone", uid="q")))
    keys.works(world.now)
    works, _ = keys.works(world.now + PATIENCE)
    assert len(works) == 1


def test_the_event_is_about_the_quota() -> None:
    told = TellQuota(TENANT, "gpus", "u1", A100, Reason.CLASS_NOT_FOUND, "no GPU", "noon")
    made = render(told, 5)
    assert isinstance(made, Create)
    assert made.path == f"/api/v1/namespaces/{TENANT}/events"
    assert made.body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "namespace": TENANT,
        "name": "gpus",
        "uid": "u1",
    }
    assert (made.body["type"], made.body["reason"]) == ("Warning", "ClassNotFound")
    assert made.body["message"] == "no GPU"


@pytest.mark.parametrize(
    "settings", [Settings(enabled=False), Settings(placement=Placement.SCHEDULER)]
)
def test_it_is_told_in_every_mode(world: World, settings: Settings) -> None:
    world.put(settings, quota("nvidia.com/a100"))
    assert len(hints(world)) == 1
