"""What is read for a decision: at once, fresh, shared, and told by name where it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import orjson
import pytest
from structlog.testing import capture_logs

from admission.inputs import ClassNeeds, OrderNeeds, PodNeeds, Unread, VmiNeeds
from admission.reads import Known, KubernetesReader, Rounds
from shared.core.cluster import ClusterState
from shared.core.model import Attachment, Claim, Put, RecordEntry, Vmi
from shared.errors import ApiError, Forbidden, InternalError, NotFound, TimedOut
from shared.kube.collections import CLUSTER
from shared.settings import GpuSettings, parse
from tests.unit.scripted_api import Raw

LAB = "tenant-acme-lab"
CLASSES = "/apis/gpu.cozystack.io/v1alpha1/gpuclasses"
KUBEVIRTS = "/apis/kubevirt.io/v1/kubevirts"
SETTINGS = "/api/v1/namespaces/cozy-gpu/configmaps/gpu-settings"
ACME = "/api/v1/namespaces/tenant-acme-lab"


def claim_at(name: str) -> str:
    return f"/apis/gpu.cozystack.io/v1alpha1/namespaces/tenant-acme-lab/gpuclaims/{name}"


def vm_at(name: str) -> str:
    return f"/apis/kubevirt.io/v1/namespaces/tenant-acme-lab/virtualmachines/{name}"


def claim(name: str, *, holder: str = "") -> Raw:
    attached = {"kind": "VirtualMachine", "name": holder, "uid": f"vm-{holder}"}
    return {
        "metadata": {"name": name, "namespace": "tenant-acme-lab"},
        "spec": {"className": "a100", "count": 1},
        "status": {"attachedTo": attached} if holder else {},
    }


def vm(name: str) -> Raw:
    return {"metadata": {"name": name, "namespace": "tenant-acme-lab", "uid": f"vm-{name}"}}


class Api:
    """Answers by path; anything else is not there. Counts how many are asked for at once.

    `turns` are what was asked in the same turn of the loop as each read, from that on, in order.
    """

    def __init__(self, answers: Mapping[str, Raw | ApiError]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.turns: list[list[str]] = []
        self.at_once = 0
        self.most_at_once = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = 30.0,
    ) -> bytes:
        assert (method, headers, timeout_seconds) == ("GET", {"Accept-Encoding": "gzip"}, 6.0)
        self.asked.append(path)
        first = len(self.asked) - 1
        asyncio.get_running_loop().call_soon(lambda: self.turns.append(self.asked[first:]))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(3):
            await asyncio.sleep(0)
        self.at_once -= 1
        answer = self.answers.get(path, NotFound("not there"))
        if isinstance(answer, ApiError):
            raise answer
        return orjson.dumps(answer)


def reader(api: Api, state: ClusterState | None = None, **ages: float) -> KubernetesReader:
    known = {collection.name: 0.5 for collection in CLUSTER} | ages
    return KubernetesReader(api, Known(state or ClusterState(), lambda: known, GpuSettings))


def needs(*claims: str, owner: str = "") -> Callable[[], VmiNeeds]:
    return lambda: VmiNeeds(claims, frozenset({"a100"}), owner)


async def test_everything_for_a_vm_is_read_in_one_round() -> None:
    api = Api({claim_at("train"): claim("train"), vm_at("vm1"): vm("vm1")})
    got = await reader(api).for_vmi(LAB, needs("train", owner="vm1"))
    assert got.unread == ()
    assert set(got.claims) == {"train"}
    assert got.owner is not None
    assert got.owner.uid == "vm-vm1"
    assert sorted(api.asked) == sorted(
        [
            SETTINGS,
            CLASSES,
            KUBEVIRTS,
            ACME,
            "/api/v1/namespaces/tenant-acme",
            "/api/v1/namespaces/tenant-root",
            claim_at("train"),
            vm_at("vm1"),
        ]
    )
    assert api.most_at_once == len(api.asked)


async def test_what_the_api_server_works_at_longest_is_asked_for_first() -> None:
    api = Api({})
    await reader(api).for_vmi(LAB, needs("train", owner="vm1"))
    assert api.turns[0] == [CLASSES], "it leaves before any other is even made"
    await reader(api).for_order(OrderNeeds("tenant-acme-lab", "a100"))
    assert api.turns[8] == [CLASSES]


async def test_an_object_is_as_it_is_now_for_the_next_decision() -> None:
    api = Api({})
    read = reader(api)
    found = []
    for value in ("entitled", "entitled", "no", "entitled"):
        labels = {"gpu.cozystack.io/vgpu": value}
        api.answers = {ACME: {"metadata": {"name": LAB, "labels": labels}}}
        got = await read.for_vmi(LAB, needs())
        found.append(got.hoster.namespaces[LAB].entitlement)
    assert found == ["entitled", "entitled", "no", "entitled"]


@pytest.mark.parametrize(("length", "is_kept"), [(3500, True), (5000, False)])
async def test_an_object_of_the_same_bytes_is_decoded_once_unless_it_is_large(
    length: int, is_kept: bool
) -> None:
    metadata = {"name": LAB, "annotations": {"note": "x" * length}}
    read = reader(Api({ACME: {"metadata": metadata}}))
    first, again = [(await read.for_vmi(LAB, needs())).hoster.namespaces[LAB] for _ in range(2)]
    assert first == again
    assert (first is again) == is_kept


async def test_an_object_of_which_too_little_can_be_read_is_told_each_time() -> None:
    read = reader(Api({ACME: {"metadata": {"name": 5}}}))
    with capture_logs() as told:
        for _ in range(2):
            await read.for_vmi(LAB, needs())
    assert [each["what"] for each in told] == ["metadata.name: 5, expected a name"] * 2


async def test_a_class_is_as_it_is_now_for_the_next_decision() -> None:
    a100 = {"metadata": {"name": "a100", "uid": "1"}, "spec": {"mode": "Passthrough"}}
    api = Api({})
    read = reader(api)
    for number, resource in enumerate(("nvidia.com/A100", "nvidia.com/A100", "nvidia.com/GA100")):
        spec = {"mode": "Passthrough", "resourceName": resource}
        metadata = {"resourceVersion": f"{number}"}
        api.answers = {CLASSES: {"items": [a100 | {"spec": spec}], "metadata": metadata}}
        hoster = (await read.for_vmi(LAB, needs())).hoster
        assert hoster.classes["a100"].resource_name == resource
    api.answers = {}
    assert (await read.for_vmi(LAB, needs())).hoster.classes == {}


async def test_a_class_that_comes_to_name_the_resource_of_another_is_in_conflict_at_once() -> None:
    def made(name: str, resource: str) -> Raw:
        spec = {"mode": "Passthrough", "resourceName": resource}
        return {"metadata": {"name": name, "uid": name}, "spec": spec}

    a100 = made("a100", "nvidia.com/A100")
    api = Api({})
    read = reader(api)
    found = []
    for other in ("nvidia.com/L40S", "nvidia.com/A100", "nvidia.com/L40S"):
        api.answers = {CLASSES: {"items": [a100, made("l40s", other)]}}
        hoster = (await read.for_vmi(LAB, needs())).hoster
        found.append(hoster.in_conflict(hoster.classes["a100"]))
    assert found == [False, True, False]


async def test_a_setting_that_is_bad_reads_as_the_one_in_force_at_that_moment() -> None:
    in_force = GpuSettings()
    api = Api({SETTINGS: {"data": {"binderUsername": "", "forbidRawNames": "maybe"}}})
    ages = {collection.name: 0.5 for collection in CLUSTER}
    read = KubernetesReader(api, Known(ClusterState(), lambda: ages, lambda: in_force))
    assert not (await read.for_vmi(LAB, needs())).hoster.settings.forbid_raw_names
    in_force = replace(in_force, forbid_raw_names=True)
    assert (await read.for_vmi(LAB, needs())).hoster.settings.forbid_raw_names
    api.answers = {SETTINGS: {"data": {"forbidRawNames": "false"}}}
    assert not (await read.for_vmi(LAB, needs())).hoster.settings.forbid_raw_names


async def test_whom_a_claim_is_attached_to_is_read_too_known_before_or_not() -> None:
    state = ClusterState()
    held = Attachment("VirtualMachine", "early", "vm-early")
    state.apply(Put(Claim("tenant-acme-lab", "known", "a100", attached_to=held)))
    api = Api(
        {
            claim_at("known"): claim("known", holder="early"),
            claim_at("news"): claim("news", holder="late"),
            claim_at("orphan"): claim("orphan", holder="gone"),
            vm_at("early"): vm("early"),
            vm_at("late"): vm("late"),
        }
    )
    got = await reader(api, state).for_vmi(LAB, needs("known", "news", "orphan"))
    assert got.present == {"vm-early", "vm-late"}
    assert api.asked.count(vm_at("early")) == 1


@pytest.mark.parametrize(
    ("uid", "phase", "is_present"),
    [
        ("vmi-1", "Running", True),
        ("vmi-1", "Pending", True),
        ("vmi-1", "", True),
        ("vmi-1", "Succeeded", False),
        ("vmi-1", "Failed", False),
        ("vmi-2", "Running", False),
    ],
)
async def test_an_instance_that_no_vm_owns_has_its_claim_until_it_is_final(
    uid: str, phase: str, is_present: bool
) -> None:
    held = claim("train")
    held["status"] = {"attachedTo": {"kind": "VirtualMachineInstance", "name": "x", "uid": "vmi-1"}}
    instance = {
        "metadata": {"name": "x", "namespace": "tenant-acme-lab", "uid": uid},
        "status": {"phase": phase},
    }
    at = vm_at("x").replace("virtualmachines", "virtualmachineinstances")
    got = await reader(Api({claim_at("train"): held, at: instance})).for_vmi(LAB, needs("train"))
    assert (got.present, got.unread) == (frozenset({"vmi-1"} if is_present else ()), ())


async def test_a_vm_of_the_name_but_not_the_uid_is_another() -> None:
    other = {"metadata": {"name": "x", "namespace": "tenant-acme-lab", "uid": "vm-another"}}
    api = Api({claim_at("train"): claim("train", holder="x"), vm_at("x"): other})
    assert (await reader(api).for_vmi(LAB, needs("train"))).present == frozenset()


async def test_an_order_learns_which_right_is_missing_and_how_old_what_is_known_is() -> None:
    state = ClusterState()
    state.set_unreadable({"pods"})
    ages = {"pods": 31.0, "nodes": 0.5}
    known = Known(state, lambda: ages, GpuSettings, refused=lambda: {"pods": "list"})
    spec = {"resourceName": "nvidia.com/A100", "mode": "Passthrough", "vendor": "NVIDIA"}
    a100 = {"metadata": {"name": "a100"}, "spec": spec}
    api = Api({CLASSES: {"items": [a100]}})
    got = await KubernetesReader(api, known).for_order(OrderNeeds("tenant-acme-lab", "a100"))
    trouble = got.view.trouble(got.hoster.classes["a100"])
    assert trouble == Unread(
        "the state of the cluster", "we may not list pods; it was last known 31 seconds ago"
    )


@pytest.mark.parametrize("name", ["\ud800", "x" * 254, "a/b", "..", "100%"])
async def test_what_has_a_name_that_nothing_can_have_is_not_there(name: str) -> None:
    """Whoever makes an object writes its owner's name; an odd one is no trouble of ours."""
    api = Api({})
    got = await reader(api).for_vmi(LAB, needs(owner=name))
    assert (got.owner, got.unread) == (None, ())
    pod = await reader(api).for_pod(PodNeeds("tenant-acme-lab", name, name))
    assert (pod.vmi, pod.migration, pod.unread) == (None, None, ())


async def test_the_line_of_a_tenant_has_the_ancestors_that_exist() -> None:
    api = Api(
        {
            ACME: {"metadata": {"name": "tenant-acme-lab"}},
            "/api/v1/namespaces/tenant-root": {
                "metadata": {"name": "tenant-root", "labels": {"gpu.cozystack.io/vgpu": "entitled"}}
            },
        }
    )
    hoster = (await reader(api).for_vmi(LAB, needs())).hoster
    assert hoster.line == ("tenant-acme-lab", "tenant-root")
    assert hoster.namespaces["tenant-root"].entitlement == "entitled"


@pytest.mark.parametrize(
    ("path", "what"),
    [
        pytest.param(SETTINGS, "the settings", id="settings"),
        pytest.param(CLASSES, "the GPU classes", id="classes"),
        pytest.param(KUBEVIRTS, "KubeVirt's configuration", id="KubeVirt"),
        pytest.param(ACME, "the namespace tenant-acme-lab", id="namespace"),
        pytest.param(claim_at("train"), "the claim train", id="claim"),
        pytest.param(vm_at("vm1"), "the VirtualMachine vm1", id="owner"),
    ],
)
@pytest.mark.parametrize(
    ("error", "why"),
    [
        pytest.param(Forbidden("no"), "we may not read it", id="forbidden"),
        pytest.param(TimedOut("slow"), "no answer in time", id="slow"),
        pytest.param(
            InternalError("GET /secret/path"),
            "the API server answers 500 InternalError",
            id="broken",
        ),
    ],
)
async def test_what_cannot_be_read_is_named_with_its_cause(
    path: str, what: str, error: ApiError, why: str
) -> None:
    with capture_logs() as told:
        got = await reader(Api({path: error})).for_vmi(LAB, needs("train", owner="vm1"))
    assert got.unread == (Unread(what, why),)
    assert [(each["what"], each["error"]) for each in told] == [(what, str(error))]


async def test_a_vm_with_claims_is_not_judged_before_the_other_vms_are_known() -> None:
    unknown = reader(Api({}), virtualmachineinstances=float("inf"))
    assert (await unknown.for_vmi(LAB, needs("train"))).unread == (
        Unread("the virtual machines", "they are not known yet"),
    )
    assert (await unknown.for_vmi(LAB, needs())).unread == ()
    state = ClusterState()
    state.set_unreadable({"virtualmachineinstances"})
    assert (await reader(Api({}), state).for_vmi(LAB, needs("train"))).unread == (
        Unread("the virtual machines", "we may not read them"),
    )


async def test_the_view_of_an_order_is_as_old_as_the_oldest_collection() -> None:
    got = await reader(Api({}), nodes=11.5).for_order(OrderNeeds("tenant-acme-lab", "a100"))
    assert got.view.age == 11.5


async def test_settings_are_as_read_and_a_bad_one_is_as_it_was_last_known() -> None:
    last = parse({"enabled": "false", "placement": "scheduler"}, GpuSettings())[0]
    ages = {collection.name: 0.5 for collection in CLUSTER}
    api = Api({SETTINGS: {"data": {"enabled": "maybe", "kubevirtUsernames": "a,b"}}})
    known = Known(ClusterState(), lambda: ages, lambda: last)
    found = (await KubernetesReader(api, known).for_vmi(LAB, needs())).hoster
    assert not found.settings.reading.enabled, "the last good value"
    assert not found.by_scheduler, "what is not said is as it is by default"
    assert set(found.settings.kubevirt_usernames) == {"a", "b"}
    none = (await KubernetesReader(Api({}), known).for_vmi(LAB, needs())).hoster
    assert none.settings == GpuSettings()


async def test_a_name_that_nothing_can_have_is_nothing() -> None:
    api = Api({})
    got = await reader(api).for_pod(PodNeeds("tenant-acme-lab", "../../x", "a%2fb"))
    assert (got.vmi, got.migration, got.unread) == (None, None, ())
    assert sorted(api.asked) == sorted([SETTINGS, CLASSES])


async def test_for_a_class_the_table_of_kubevirt_may_be_unreadable() -> None:
    got = await reader(Api({KUBEVIRTS: Forbidden("no")})).for_class(ClassNeeds("a100"))
    assert got.unread == ()
    got = await reader(Api({CLASSES: Forbidden("no")})).for_class(ClassNeeds("a100"))
    assert got.unread == (Unread("the GPU classes", "we may not read it"),)


async def test_vms_that_name_a_claim_in_their_record_are_its_rivals() -> None:
    state = ClusterState()
    record = (RecordEntry("train", -1, "a100", "nvidia.com/A100", 1),)
    state.apply(Put(Vmi("tenant-acme-lab", "elder", "uid-elder", record=record)))
    got = await reader(Api({}), state).for_vmi(LAB, needs("train"))
    assert got.rivals == {"train": frozenset({"elder"})}


class Slow:
    """A read that ends when it is let go; its answer is its number."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Event] = []
        self.again = asyncio.Event()
        """Set once it has begun a second time."""

    async def __call__(self) -> int:
        go = asyncio.Event()
        self.begun.append(go)
        if len(self.begun) == 2:
            self.again.set()
        number = len(self.begun)
        await go.wait()
        return number


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_comes_while_a_read_is_under_way_shares_the_next_and_never_that_one() -> None:
    rounds, slow = Rounds[int](patience_seconds=60), Slow()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(rounds.get("k", slow))
        await turn()
        others = [tasks.create_task(rounds.get("k", slow)) for _ in range(3)]
        await turn()
        assert len(slow.begun) == 1
        slow.begun[0].set()
        await turn()
        assert len(slow.begun) == 2
        late = tasks.create_task(rounds.get("k", slow))
        await turn()
        slow.begun[1].set()
        await turn()
        slow.begun[2].set()
    assert first.result() == 1
    assert [task.result() for task in others] == [2, 2, 2]
    assert late.result() == 3


async def test_a_read_that_hangs_holds_up_nobody_beyond_their_patience() -> None:
    rounds, slow = Rounds[int](patience_seconds=0.01), Slow()
    async with asyncio.TaskGroup() as tasks:
        hanging = tasks.create_task(rounds.get("k", slow))
        await turn()
        second = tasks.create_task(rounds.get("k", slow))
        await slow.again.wait()
        slow.begun[1].set()
        await second
        assert not hanging.done()
        slow.begun[0].set()
    assert (hanging.result(), second.result()) == (1, 2)


async def test_where_the_reader_for_all_is_cancelled_another_reads() -> None:
    rounds, slow = Rounds[int](patience_seconds=60), Slow()
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(rounds.get("k", slow))
        await turn()
        leader = tasks.create_task(rounds.get("k", slow))
        await turn()
        others = [tasks.create_task(rounds.get("k", slow)) for _ in range(2)]
        await turn()
        leader.cancel()
        await turn()
        slow.begun[0].set()
        await turn()
        slow.begun[1].set()
    assert leader.cancelled()
    assert (first.result(), [task.result() for task in others]) == (1, [2, 2])
