"""Our kinds as users meet them: names, explanations, defaults, columns, waiting (rules 2, 3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.api.kinds import CLAIM, CLASS, NOON, condition, gpu_claim, gpu_class
from tests.cluster.api import Refused
from tests.cluster.build import REPOSITORY
from tests.cluster.session import Cluster

Unique = Callable[[str], str]


async def test_each_kind_goes_by_its_plural_its_singular_and_its_short_name(
    kinds: Cluster,
) -> None:
    listed = (await kinds.kubectl("api-resources", "--api-group=gpu.cozystack.io")).checked

    lines = sorted(" ".join(line.split()) for line in listed.splitlines()[1:])
    assert lines == [
        "gpuclaims gpuclm gpu.cozystack.io/v1alpha1 true GPUClaim",
        "gpuclasses gpucls gpu.cozystack.io/v1alpha1 false GPUClass",
        "gpusystems gpusys gpu.cozystack.io/v1alpha1 false GPUSystem",
    ]
    for name in ("gpuclaim", "gpuclass", "gpusystem", "gpuclm", "gpucls", "gpusys"):
        assert (await kinds.kubectl("get", name, "-A")).code == 0, name


async def test_all_kinds_are_in_one_category_and_not_in_all(kinds: Cluster, unique: Unique) -> None:
    """What is in `all` is deleted by `kubectl delete all`."""
    name = unique("class")
    await kinds.admin.create(gpu_class(name))

    ours = (await kinds.kubectl("get", "cozygpu", "-A")).checked
    everything = (await kinds.kubectl("get", "all", "-A")).checked

    assert f"gpuclass.gpu.cozystack.io/{name}" in ours
    assert name not in everything


@pytest.mark.parametrize(
    ("field", "said"),
    [
        pytest.param("gpuclass", "A sort of GPU that tenants can order by the unit", id="a kind"),
        pytest.param("gpuclass.spec.vendor", "ENUM: NVIDIA AMD Intel Other", id="an enum"),
        pytest.param("gpuclass.spec.entitlement", "Required for mode", id="a derived default"),
        pytest.param("gpuclaim.status.waiting.reason", "ENUM: Disabled Malformed", id="reasons"),
        pytest.param("gpusys.status.epoch", "term of the binder", id="a short name"),
    ],
)
async def test_kubectl_explains_each_field(kinds: Cluster, field: str, said: str) -> None:
    explained = " ".join((await kinds.kubectl("explain", field)).checked.split())

    assert said in explained


@pytest.mark.parametrize("kind", ["gpuclass", "gpuclaim", "gpusystem"])
async def test_kubectl_explains_whole_kinds(kinds: Cluster, kind: str) -> None:
    explained = (await kinds.kubectl("explain", kind, "--recursive")).checked

    assert "conditions\t<[]Object>" in explained
    assert "phase" not in explained


async def test_a_class_gets_its_defaults_and_no_entitlement(kinds: Cluster) -> None:
    """The default of entitlement depends on the mode, so the reader derives it (rule 3.1)."""
    stored = await kinds.admin.create(gpu_class(), dryRun="All")

    assert stored["spec"] == {
        "vendor": "NVIDIA",
        "mode": "Passthrough",
        "resourceName": "nvidia.com/a100",
        "lifecycle": "Active",
        "disclosure": "Exact",
    }


async def test_a_claim_is_for_one_unit_unless_it_says_more(kinds: Cluster, namespace: str) -> None:
    stored = await kinds.admin.create(gpu_claim(namespace), dryRun="All")

    assert stored["spec"] == {"className": "a100", "count": 1}


async def test_a_claim_that_nobody_has_looked_at_says_so(kinds: Cluster, namespace: str) -> None:
    """Rule 3.5: also while no binder runs. What a tenant then changes of it leaves that alone."""
    stored = await kinds.admin.create(gpu_claim(namespace))
    said = {
        each["type"]: (each["status"], each["reason"]) for each in stored["status"]["conditions"]
    }
    assert said == {
        "Ready": ("Unknown", "Unevaluated"),
        "Bound": ("Unknown", "Unevaluated"),
        "Attached": ("False", "NotInUse"),
        "Disrupted": ("False", "Undisturbed"),
    }
    labelled = {"metadata": {"labels": {"for": "train"}}}
    changed = await kinds.admin.patch(CLAIM, "train", labelled, namespace)
    assert changed["status"] == stored["status"]
    shown = (await kinds.kubectl("get", "gpuclm", namespace=namespace)).checked
    assert shown.splitlines()[1].split()[:5] == ["train", "a100", "1", "Unknown", "Unevaluated"]


async def test_a_claim_can_be_waited_for(kinds: Cluster, namespace: str) -> None:
    """`kubectl wait --for=condition=Bound` works (rule 3.2)."""
    await kinds.admin.create(gpu_claim(namespace))
    status = {"conditions": [condition("Bound", "True", "Placed")]}
    await kinds.admin.patch(CLAIM, "train", {"status": status}, namespace, subresource="status")

    waited = await kinds.kubectl(
        "wait", "--for=condition=Bound", "gpuclaim/train", "--timeout=60s", namespace=namespace
    )

    assert waited.checked == "gpuclaim.gpu.cozystack.io/train condition met\n"


async def test_a_list_of_claims_tells_who_has_what_and_why_not(
    kinds: Cluster, namespace: str
) -> None:
    await kinds.admin.create(gpu_claim(namespace, "bound", count=2))
    await kinds.admin.create(gpu_claim(namespace, "waits"))
    bound = {
        "epoch": 1,
        "resourceName": "nvidia.com/a100",
        "nodeName": "gpu-1",
        "boundTime": NOON,
        "attachedTo": {"kind": "VirtualMachine", "name": "db", "uid": "1"},
        "conditions": [condition("Ready", "True", "Placed"), condition("Bound", "True", "Placed")],
    }
    waits = {
        "waiting": {"reason": "NoCapacity", "message": "none free", "sinceTime": NOON},
        "conditions": [condition("Bound", "False", "NoCapacity")],
    }
    for name, status in (("bound", bound), ("waits", waits)):
        await kinds.admin.patch(CLAIM, name, {"status": status}, namespace, subresource="status")

    shown = (await kinds.kubectl("get", "gpuclm", namespace=namespace)).checked
    wide = (await kinds.kubectl("get", "gpuclm", "-o", "wide", namespace=namespace)).checked

    head, first, second = (line.split() for line in shown.splitlines())
    assert head == ["NAME", "CLASS", "COUNT", "BOUND", "REASON", "ATTACHED-TO", "AGE"]
    assert first[:6] == ["bound", "a100", "2", "True", "Placed", "db"]
    assert second[:5] == ["waits", "a100", "1", "False", "NoCapacity"]
    head, first, _ = (line.split() for line in wide.splitlines())
    assert head[-3:] == ["AGE", "NODE", "SINCE"]
    assert first[-2] == "gpu-1"


async def test_a_list_of_classes_tells_what_there_is(kinds: Cluster, unique: Unique) -> None:
    name = unique("class")
    await kinds.admin.create(gpu_class(name, memory="40Gi", maxCount=8))
    capacity = {
        "total": 16,
        "bound": 3,
        "outside": 2,
        "unavailable": 4,
        "free": 7,
        "overbooked": 0,
        "largestSet": 5,
        "observedTime": NOON,
    }
    status = {"capacity": capacity, "conditions": [condition("Ready", "True", "Available")]}
    await kinds.admin.patch(CLASS, name, {"status": status}, subresource="status")

    shown = (await kinds.kubectl("get", "gpucls", name)).checked
    wide = (await kinds.kubectl("get", "gpucls", name, "-o", "wide")).checked

    head, row = (line.split() for line in shown.splitlines())
    assert head == ["NAME", "MODE", "VENDOR", "MEMORY", "TOTAL", "FREE", "READY", "AGE"]
    assert row[:7] == [name, "Passthrough", "NVIDIA", "40Gi", "16", "7", "True"]
    head, row = (line.split() for line in wide.splitlines())
    assert head[8:] == ["RESOURCE", "MAX", "LIFECYCLE", "UNAVAILABLE", "LARGEST"]
    assert row[8:] == [f"nvidia.com/{name}", "8", "Active", "4", "5"]


async def test_claims_can_be_selected_by_their_class(kinds: Cluster, namespace: str) -> None:
    await kinds.admin.create(gpu_claim(namespace, "one"))
    await kinds.admin.create(gpu_claim(namespace, "other", className="h100"))

    found = await kinds.admin.list(CLAIM, namespace, fieldSelector="spec.className=h100")

    assert [claim["metadata"]["name"] for claim in found] == ["other"]


async def test_status_is_written_through_its_own_door_alone(
    kinds: Cluster, namespace: str, unique: Unique
) -> None:
    name = unique("class")
    status = {"conditions": [condition("Ready", "True", "Available")]}
    await kinds.admin.create({**gpu_class(name), "status": status})
    await kinds.admin.create({**gpu_claim(namespace), "status": {"nodeName": "mine"}})
    await kinds.admin.patch(CLAIM, "train", {"status": {"nodeName": "mine"}}, namespace)
    stored = await kinds.admin.get(CLAIM, "train", namespace)
    await kinds.admin.replace({**stored, "status": {"nodeName": "mine"}})
    await kinds.admin.apply({**gpu_claim(namespace), "status": {"nodeName": "mine"}})

    assert "status" not in await kinds.admin.get(CLASS, name)
    assert "nodeName" not in (await kinds.admin.get(CLAIM, "train", namespace))["status"]


async def test_the_spec_cannot_be_written_through_the_door_of_the_status(
    kinds: Cluster, namespace: str
) -> None:
    await kinds.admin.create(gpu_claim(namespace))
    change = {"spec": {"count": 5}, "status": {"nodeName": "gpu-1"}}
    await kinds.admin.patch(CLAIM, "train", change, namespace, subresource="status")

    stored = await kinds.admin.get(CLAIM, "train", namespace)
    assert stored["spec"]["count"] == 1
    assert stored["status"]["nodeName"] == "gpu-1"


async def test_a_status_with_a_word_that_is_no_reason_is_refused(
    kinds: Cluster, namespace: str
) -> None:
    await kinds.admin.create(gpu_claim(namespace))
    waiting = {"reason": "Because", "message": "", "sinceTime": NOON}

    with pytest.raises(Refused) as refused:
        await kinds.admin.patch(
            CLAIM, "train", {"status": {"waiting": waiting}}, namespace, subresource="status"
        )

    assert refused.value.code == 422
    assert 'status.waiting.reason: Unsupported value: "Because"' in refused.value.message
    assert '"NoCapacity"' in refused.value.message


async def test_two_conditions_of_one_type_are_refused(kinds: Cluster, namespace: str) -> None:
    await kinds.admin.create(gpu_claim(namespace))
    twice = [condition("Bound", "True", "Placed"), condition("Bound", "False", "NoCapacity")]

    with pytest.raises(Refused, match="Duplicate value") as refused:
        await kinds.admin.patch(
            CLAIM, "train", {"status": {"conditions": twice}}, namespace, subresource="status"
        )

    assert refused.value.code == 422


async def test_the_crds_can_be_applied_again_and_nothing_changes(kinds: Cluster) -> None:
    """What the API server makes of them is what is written in them, so GitOps sees no drift."""
    again = await kinds.kubectl("apply", "-k", str(REPOSITORY / "manifests" / "crds"))

    assert [line.split()[-1] for line in again.checked.splitlines()] == ["unchanged"] * 3
    live = await kinds.kubectl("diff", "-k", str(REPOSITORY / "manifests" / "crds"))
    assert live.checked == ""


async def test_the_api_server_finds_every_schema_structural(kinds: Cluster) -> None:
    for plural in ("gpuclasses", "gpuclaims", "gpusystems"):
        crd = await kinds.admin.get(
            "apiextensions.k8s.io/v1/CustomResourceDefinition", f"{plural}.gpu.cozystack.io"
        )
        types = {c["type"] for c in crd["status"]["conditions"]}
        assert "Established" in types
        assert "NonStructuralSchema" not in types
