"""What the API server refuses of our kinds by itself, with no webhook of ours (rules 3, 6.5)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.api.kinds import CLAIM, CLASS, gpu_claim, gpu_class, refusal
from tests.cluster.api import Object, Refused
from tests.cluster.session import Cluster

Unique = Callable[[str], str]

EXTENDED = "such as nvidia.com/GA102GL_A10"
NATIVE = "belongs to Kubernetes itself"
BARE = "has no domain"
QUOTA = "is the key of a quota"
BAD = "is no name of an extended resource"

REAL_NAMES = (
    "nvidia.com/GA102GL_A10",
    "nvidia.com/GH100_H200_SXM_141GB",
    "nvidia.com/TU104GL_Tesla_T4",
    "nvidia.com/TU106_GEFORCE_RTX_2060_REV__A",
    "nvidia.com/20b0",
    "nvidia.com/gpu",
    "nvidia.com/GRID_A100-4C",
    "nvidia.com/A30-1-6C",
    "nvidia.com/NVIDIA_L40S-8Q",
    "nvidia.com/mig-1g.10gb.me",
    "nvidia.com/gpu.shared",
    "amd.com/cpx_nps1",
    "gpu.intel.com/i915",
    "rebellions.ai/RBLN-CR13_PF",
    "example.com/2080_Ti",
)

LONG_DOMAIN = ".".join(["a" * 60] * 4)
"""243 characters: with `requests.` before it the longest domain that Kubernetes takes, but one."""


@pytest.mark.parametrize("name", REAL_NAMES)
async def test_names_that_device_plugins_give_are_taken(kinds: Cluster, name: str) -> None:
    assert await refusal(kinds, gpu_class(resourceName=name)) == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("cpu", BARE, id="processors"),
        pytest.param("memory", BARE, id="memory"),
        pytest.param("pods", BARE, id="pods"),
        pytest.param("ephemeral-storage", BARE, id="storage"),
        pytest.param("hugepages-2Mi", BARE, id="huge pages"),
        pytest.param("nvidia.com", BARE, id="a domain alone"),
        pytest.param("", BARE, id="empty"),
        pytest.param("kubernetes.io/batch-cpu", NATIVE, id="the domain of Kubernetes"),
        pytest.param("storage.kubernetes.io/x", NATIVE, id="below the domain of Kubernetes"),
        pytest.param("requests.nvidia.com/gpu", QUOTA, id="a request in a quota"),
        pytest.param("limits.nvidia.com/gpu", QUOTA, id="a limit in a quota"),
        pytest.param("a100.gpuclass.gpu.cozystack.io/units", QUOTA, id="the budget of a class"),
        pytest.param("a,b/c", BAD, id="a comma in the domain"),
        pytest.param("nvidia.com/a,b", BAD, id="a comma in the name"),
        pytest.param("NVIDIA.com/gpu", BAD, id="a domain in upper case"),
        pytest.param("nvidia.com /GRID_P4-1Q", BAD, id="a blank"),
        pytest.param("nvidia.com/", BAD, id="no name"),
        pytest.param("/gpu", BAD, id="no domain before the slash"),
        pytest.param("nvidia.com/a/b", BAD, id="two slashes"),
        pytest.param("nvidia.com/-a", BAD, id="a name that begins with a dash"),
        pytest.param("nvidia.com/a_", BAD, id="a name that ends with an underscore"),
        pytest.param("nvidia.com/é", BAD, id="a letter that is not ASCII"),
        pytest.param("nvidia.com/" + "a" * 64, BAD, id="a name of 64 characters"),
        pytest.param(LONG_DOMAIN + "aa/b", BAD, id="a domain of 245 characters"),
    ],
)
async def test_other_names_are_refused_with_what_is_wrong_and_what_would_be_right(
    kinds: Cluster, name: str, said: str
) -> None:
    message = await refusal(kinds, gpu_class(resourceName=name))

    assert f'spec.resourceName: Invalid value: "{name}": "{name}" {said}' in message
    assert EXTENDED in message
    assert message.count("Invalid value") == 1, "one fault, one message"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("nvidia.com/" + "a" * 63, id="a name of 63 characters"),
        pytest.param(LONG_DOMAIN + "a/b", id="a domain of 244 characters"),
    ],
)
async def test_the_longest_names_are_taken(kinds: Cluster, name: str) -> None:
    assert await refusal(kinds, gpu_class(resourceName=name)) == ""


@pytest.mark.parametrize(
    "name",
    [
        *REAL_NAMES,
        "nvidia.com",
        "requests.nvidia.com/gpu",
        "a,b/c",
        "NVIDIA.com/gpu",
        "nvidia.com/",
        "/gpu",
        "nvidia.com/a/b",
        "nvidia.com/-a",
        "nvidia.com/" + "a" * 63,
        "nvidia.com/" + "a" * 64,
        LONG_DOMAIN + "a/b",
        LONG_DOMAIN + "aa/b",
    ],
)
async def test_a_class_takes_the_extended_resources_that_a_pod_takes(
    kinds: Cluster, namespace: str, name: str
) -> None:
    of_class = await refusal(kinds, gpu_class(resourceName=name))
    of_pod = await refusal(kinds, pod(namespace, resources={"limits": {name: "1"}}))

    assert bool(of_class) == bool(of_pod), (of_class, of_pod)


def pod(namespace: str, *, resources: object = None, tolerations: object = None) -> Object:
    container = {"name": "main", "image": "none", "resources": resources or {}}
    spec = {"containers": [container], "tolerations": tolerations or []}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": namespace},
        "spec": spec,
    }


@pytest.mark.parametrize(
    "memory", ["1", "24Gi", "40G", "1.5Ti", ".5Gi", "141e9", "24576Mi", "9223372036854775807"]
)
async def test_positive_quantities_of_memory_are_taken(kinds: Cluster, memory: str) -> None:
    assert await refusal(kinds, gpu_class(memory=memory)) == ""


@pytest.mark.parametrize(
    "memory", ["0", "0Gi", "-1Gi", "", "24 Gi", "24GiB", "Gi", "1..5", "lots", "1e999999999"]
)
async def test_other_memory_is_refused(kinds: Cluster, memory: str) -> None:
    """The last would keep the API server busy for minutes if it were parsed."""
    message = await refusal(kinds, gpu_class(memory=memory))

    said = f'spec.memory: Invalid value: "{memory}": "{memory}" is no positive quantity'
    assert said in message
    assert "such as 24Gi" in message


@pytest.mark.parametrize("count", [1, 1024])
async def test_counts_at_their_limits_are_taken(kinds: Cluster, namespace: str, count: int) -> None:
    assert await refusal(kinds, gpu_class(maxCount=count)) == ""
    assert await refusal(kinds, gpu_claim(namespace, count=count)) == ""


@pytest.mark.parametrize(
    ("count", "said"),
    [
        pytest.param(0, "should be greater than or equal to 1", id="none"),
        pytest.param(-1, "should be greater than or equal to 1", id="negative"),
        pytest.param(1025, "should be less than or equal to 1024", id="more than a VM may have"),
        pytest.param(2**31, "should be less than or equal to 1024", id="more than an int32"),
        pytest.param("2", 'must be of type integer: "string"', id="a text"),
        pytest.param(1.5, 'must be of type int32: "float64"', id="a fraction"),
        pytest.param(True, "must be of type int32", id="a boolean"),
    ],
)
async def test_counts_beyond_their_limits_are_refused(
    kinds: Cluster, namespace: str, count: object, said: str
) -> None:
    of_class = await refusal(kinds, gpu_class(maxCount=count))
    of_claim = await refusal(kinds, gpu_claim(namespace, count=count))

    assert "spec.maxCount: Invalid value: " in of_class
    assert said in of_class
    assert "spec.count: Invalid value: " in of_claim
    assert said in of_claim


@pytest.mark.parametrize("name", ["a", "l40s-24q", "3g", "a" * 63])
async def test_a_dns_label_is_a_name_of_a_class(kinds: Cluster, namespace: str, name: str) -> None:
    assert await refusal(kinds, gpu_class(name, resourceName="nvidia.com/x")) == ""
    assert await refusal(kinds, gpu_claim(namespace, className=name)) == ""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a" * 64, id="64 characters"),
        pytest.param("a.b", id="a dot"),
    ],
)
async def test_a_longer_or_dotted_name_is_none_of_a_class(kinds: Cluster, name: str) -> None:
    message = await refusal(kinds, gpu_class(name, resourceName="nvidia.com/x"))

    assert f'"{name}" as metadata.name is no name of a GPUClass: give at most 63' in message


@pytest.mark.parametrize("name", ["", "A100", "a.b", "-a", "a_b", "a b"])
async def test_a_claim_for_what_cannot_be_a_class_is_refused(
    kinds: Cluster, namespace: str, name: str
) -> None:
    message = await refusal(kinds, gpu_claim(namespace, className=name))

    said = f'spec.className: Invalid value: "{name}": "{name}" is no name of a GPUClass'
    assert said in message


async def test_a_claim_may_have_the_longest_name_there_is(kinds: Cluster, namespace: str) -> None:
    """Names derived from it carry a hash where they would be too long (rule 3)."""
    assert await refusal(kinds, gpu_claim(namespace, "a" * 253)) == ""


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        pytest.param("vendor", "nvidia", '"NVIDIA", "AMD", "Intel", "Other"', id="vendor"),
        pytest.param("mode", "vGPU", '"Passthrough", "VirtualGPU"', id="mode"),
        pytest.param("entitlement", "Closed", '"Open", "Required"', id="entitlement"),
        pytest.param("lifecycle", "Retired", '"Active", "Deprecated", "Closed"', id="lifecycle"),
        pytest.param("disclosure", "None", '"Exact", "Bucketed", "Hidden"', id="disclosure"),
    ],
)
async def test_another_word_than_those_of_an_enum_is_refused_with_all_of_them(
    kinds: Cluster, field: str, value: str, said: str
) -> None:
    message = await refusal(kinds, gpu_class(**{field: value}))

    assert f'spec.{field}: Unsupported value: "{value}": supported values: {said}' in message


@pytest.mark.parametrize("field", ["vendor", "mode", "resourceName"])
async def test_a_class_without_what_makes_it_is_refused(kinds: Cluster, field: str) -> None:
    assert f"spec.{field}: Required value" in await refusal(kinds, gpu_class(**{field: ...}))


async def test_an_object_without_a_spec_is_refused(kinds: Cluster, namespace: str) -> None:
    for whole in (gpu_class(), gpu_claim(namespace)):
        assert "spec: Required value" in await refusal(
            kinds, {k: v for k, v in whole.items() if k != "spec"}
        )


async def test_a_licence_names_a_secret(kinds: Cluster) -> None:
    good = gpu_class(guestLicense={"secretName": "nvidia.license"})
    bad = gpu_class(guestLicense={"secretName": "NVIDIA"})

    assert await refusal(kinds, good) == ""
    message = await refusal(kinds, bad)
    assert 'spec.guestLicense.secretName: Invalid value: "NVIDIA"' in message
    assert "is no name of a Secret" in message
    empty = await refusal(kinds, gpu_class(guestLicense={}))
    assert "spec.guestLicense.secretName: Required value" in empty


TOLERATIONS: list[Any] = [
    pytest.param({"operator": "Exists"}, "", id="every taint"),
    pytest.param({"key": "nvidia.com/gpu", "operator": "Exists"}, "", id="a key"),
    pytest.param({"key": "sku", "value": "gpu", "effect": "NoSchedule"}, "", id="a value"),
    pytest.param({"key": "sku", "operator": "", "effect": ""}, "", id="empty words"),
    pytest.param(
        {"key": "sku", "effect": "NoExecute", "tolerationSeconds": -1}, "", id="for some time"
    ),
    pytest.param({"key": "sku", "value": "a" * 63}, "", id="a value of 63 characters"),
    pytest.param({}, '[0].operator: Invalid value: "" must be Exists', id="nothing"),
    pytest.param(
        {"operator": "Equal"}, '.operator: Invalid value: "Equal" must be Exists', id="no key"
    ),
    pytest.param(
        {"key": "sku", "operator": "Exists", "value": "gpu"},
        '.value: Invalid value: "gpu" must be empty where operator is Exists',
        id="a value that is not compared",
    ),
    pytest.param(
        {"key": "s u", "operator": "Exists"},
        '.key: Invalid value: "s u" is no key of a taint',
        id="a key with a blank",
    ),
    pytest.param(
        {"key": "Example.com/gpu", "operator": "Exists"},
        '.key: Invalid value: "Example.com/gpu" is no key of a taint',
        id="a domain in upper case",
    ),
    pytest.param(
        {"key": "sku", "value": "g p"},
        '.value: Invalid value: "g p" is no value of a taint',
        id="a value with a blank",
    ),
    pytest.param(
        {"key": "sku", "value": "a" * 64}, ".value: Too long", id="a value of 64 characters"
    ),
    pytest.param(
        {"key": "sku", "tolerationSeconds": 5},
        '.effect: Invalid value: "" must be NoExecute where tolerationSeconds is set',
        id="seconds for every effect",
    ),
    pytest.param(
        {"key": "sku", "effect": "NoSchedule", "tolerationSeconds": 5},
        '.effect: Invalid value: "NoSchedule" must be NoExecute',
        id="seconds for another effect",
    ),
    pytest.param(
        {"key": "sku", "effect": "Never"}, '.effect: Unsupported value: "Never"', id="an effect"
    ),
    pytest.param(
        {"key": "sku", "operator": "In"}, '.operator: Unsupported value: "In"', id="an operator"
    ),
]


@pytest.mark.parametrize(("toleration", "said"), TOLERATIONS)
async def test_a_toleration_is_taken_exactly_where_a_pod_may_have_it(
    kinds: Cluster, namespace: str, toleration: dict[str, object], said: str
) -> None:
    of_class = await refusal(kinds, gpu_class(tolerations=[toleration]))
    of_pod = await refusal(kinds, pod(namespace, tolerations=[toleration]))

    assert bool(of_class) == bool(of_pod), (of_class, of_pod)
    assert said in of_class


async def test_tolerations_are_at_most_32(kinds: Cluster) -> None:
    def tolerations(count: int) -> list[object]:
        return [{"key": f"taint-{i}", "operator": "Exists"} for i in range(count)]

    assert await refusal(kinds, gpu_class(tolerations=tolerations(32))) == ""
    assert "spec.tolerations: Too many: 33" in await refusal(
        kinds, gpu_class(tolerations=tolerations(33))
    )


async def test_there_is_one_system(kinds: Cluster) -> None:
    system = {"apiVersion": "gpu.cozystack.io/v1alpha1", "kind": "GPUSystem"}
    the_one = json.dumps({**system, "metadata": {"name": "default"}})

    # Applied and not created: another test may have made it.
    applied = await kinds.kubectl("apply", "--dry-run=server", "-f", "-", stdin=the_one)
    assert "gpusystem.gpu.cozystack.io/default" in applied.checked
    assert await refusal(kinds, {**system, "metadata": {"name": "second"}}) == (
        'GPUSystem.gpu.cozystack.io "second" is invalid: <nil>: Invalid value: "second" is no name'
        " for a GPUSystem: there is one, with the metadata.name default"
    )


@pytest.mark.parametrize(
    ("field", "value"), [("vendor", "AMD"), ("mode", "VirtualGPU")], ids=["vendor", "mode"]
)
async def test_what_a_class_is_cannot_be_changed_nor_taken_away_first(
    kinds: Cluster, unique: Unique, field: str, value: str
) -> None:
    name = unique("class")
    stored = await kinds.admin.create(gpu_class(name))
    path = f"/spec/{field}"

    await refused(
        kinds.admin.patch(CLASS, name, [{"op": "replace", "path": path, "value": value}]),
        f'spec.{field}: Invalid value: "{value}": is immutable: make a new class',
    )
    await refused(
        kinds.admin.patch(CLASS, name, [{"op": "remove", "path": path}]),
        f"spec.{field}: Required value",
    )
    await refused(
        kinds.admin.patch(CLASS, name, {"spec": {field: None}}), f"spec.{field}: Required value"
    )
    await refused(
        kinds.admin.patch(CLASS, name, [{"op": "remove", "path": "/spec"}]), "spec: Required value"
    )
    changed = {**stored, "spec": {**stored["spec"], field: value}}
    await refused(kinds.admin.replace(changed), "is immutable")
    await refused(kinds.admin.apply(gpu_class(name, **{field: value})), "is immutable")

    assert (await kinds.admin.get(CLASS, name))["spec"] == stored["spec"]


async def test_everything_else_of_a_class_can_be_changed(kinds: Cluster, unique: Unique) -> None:
    name = unique("class")
    await kinds.admin.create(gpu_class(name))
    change = {
        "displayName": "A",
        "description": "B",
        "resourceName": f"nvidia.com/{name}-new",
        "memory": "80Gi",
        "maxCount": 4,
        "entitlement": "Required",
        "lifecycle": "Deprecated",
        "disclosure": "Hidden",
        "tolerations": [{"operator": "Exists"}],
        "guestLicense": {"secretName": "licence"},
    }

    stored = await kinds.admin.patch(CLASS, name, {"spec": change})

    assert stored["spec"] == {"vendor": "NVIDIA", "mode": "Passthrough", **change}


@pytest.mark.parametrize(
    ("field", "value"), [("className", "h100"), ("count", 3)], ids=["class", "count"]
)
async def test_an_order_cannot_be_changed_nor_taken_away_first(
    kinds: Cluster, namespace: str, field: str, value: object
) -> None:
    stored = await kinds.admin.create(gpu_claim(namespace, count=2))
    path = f"/spec/{field}"
    said = f"spec.{field}: Invalid value"

    await refused(
        kinds.admin.patch(
            CLAIM, "train", [{"op": "replace", "path": path, "value": value}], namespace
        ),
        f"{said}",
    )
    # A count that is taken away comes back as 1, which is a change like any other.
    gone = kinds.admin.patch(CLAIM, "train", [{"op": "remove", "path": path}], namespace)
    await refused(gone, "Required value" if field == "className" else "is immutable")
    null = kinds.admin.patch(CLAIM, "train", {"spec": {field: None}}, namespace)
    await refused(null, "Required value" if field == "className" else "is immutable")
    no_spec = kinds.admin.patch(CLAIM, "train", [{"op": "remove", "path": "/spec"}], namespace)
    await refused(no_spec, "spec: Required value")
    changed = {**stored, "spec": {**stored["spec"], field: value}}
    await refused(kinds.admin.replace(changed), "delete the claim and order another one")
    await refused(
        kinds.admin.apply(gpu_claim(namespace, **{"count": 2, field: value})), "is immutable"
    )

    assert (await kinds.admin.get(CLAIM, "train", namespace))["spec"] == stored["spec"]


async def refused(call: Awaitable[Object], said: str) -> None:
    with pytest.raises(Refused) as raised:
        await call
    assert raised.value.code == 422
    assert said in raised.value.message
