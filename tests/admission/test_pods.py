"""Pods when they are made: KubeVirt's launchers of VMs with GPUs, and who poses as one (6.2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from shared import vocabulary as words
from tests.admission.people import VMI
from tests.catalog.tenants import Tenant
from tests.cluster.access import User, service_account
from tests.cluster.api import Api, Object, Refused
from tests.cluster.install import Catalog
from tests.cluster.session import Cluster

RECORD = (
    '[{"entry":0,"className":"a100","resourceName":"nvidia.com/GA100_A100_PCIE_40GB","count":1}]'
)
STRANGER = "only pods that KubeVirt makes for a virtual machine with GPUs have it"


@pytest.fixture
async def kubevirt(cluster: Cluster) -> Api:
    """KubeVirt's controller; a group that may do anything stands for its rights."""
    name = service_account(words.KUBEVIRT_NAMESPACE, "kubevirt-controller").name
    return cluster.api(User(name, ("system:masters",)))


@pytest.fixture
async def vmi(
    enforced: Catalog, acme: Tenant, unique: Callable[[str], str]
) -> AsyncIterator[Object]:
    """A VM of a person, with one unit."""
    del enforced
    annotations = {words.ANNOTATION_CLASSES: '[{"className":"a100","count":1}]'}
    name = unique("vm")
    yield await acme.api.create(
        {
            "apiVersion": words.KUBEVIRT_GROUP_VERSION,
            "kind": words.KIND_VMI,
            "metadata": {"name": name, "namespace": acme.namespace, "annotations": annotations},
            "spec": {"domain": {"devices": {}}},
        }
    )
    await acme.api.delete(VMI, name, acme.namespace)


def launcher(vmi: Object, uid: str = "") -> Object:
    """A pod as KubeVirt makes it: the VM's annotations, its controller, a name to be made."""
    owner = {
        "apiVersion": words.KUBEVIRT_GROUP_VERSION,
        "kind": words.KIND_VMI,
        "name": vmi["metadata"]["name"],
        "uid": uid or vmi["metadata"]["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"virt-launcher-{vmi['metadata']['name']}-",
            "namespace": vmi["metadata"]["namespace"],
            "labels": {words.LABEL_KUBEVIRT: words.LAUNCHER},
            "annotations": {words.ANNOTATION_ATTACHMENTS: RECORD},
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "compute", "image": "none"}]},
    }


async def test_a_launcher_gets_our_mark_and_waits_at_our_gate(kubevirt: Api, vmi: Object) -> None:
    pod = await kubevirt.create(launcher(vmi), dryRun="All")
    annotations = pod["metadata"]["annotations"]
    assert annotations[words.ANNOTATION_LAUNCHER] == vmi["metadata"]["uid"]
    assert pod["spec"]["schedulingGates"] == [{"name": words.GATE}]


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("by a tenant", id="a tenant copies everything"),
        pytest.param("another uid", id="KubeVirt's account, another uid"),
        pytest.param("another name", id="KubeVirt's account, a VM that is not there"),
    ],
)
async def test_a_pod_that_poses_as_a_launcher_is_refused(
    kubevirt: Api, acme: Tenant, vmi: Object, how: str
) -> None:
    pod = launcher(vmi, uid="11111111-1111-1111-1111-111111111111" if how == "another uid" else "")
    if how == "another name":
        pod["metadata"]["ownerReferences"][0]["name"] = "../../tenant-root/vms"
    api = acme.api if how == "by a tenant" else kubevirt
    with pytest.raises(Refused) as refused:
        await api.create(pod)
    assert STRANGER in refused.value.message
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


async def test_a_pod_of_a_tenant_that_names_our_gate_is_refused(acme: Tenant) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gated", "namespace": acme.namespace},
        "spec": {
            "schedulingGates": [{"name": "example.com/other"}, {"name": words.GATE}],
            "containers": [{"name": "main", "image": "none"}],
        },
    }
    with pytest.raises(Refused) as refused:
        await acme.api.create(pod)
    assert refused.value.message == (
        'admission webhook "pods.gpu.cozystack.io" denied the request: '
        f'spec.schedulingGates[1].name: {STRANGER}; this one was made by "{acme.user.name}", '
        "expected system:serviceaccount:cozy-kubevirt:kubevirt-controller "
        "(setting kubevirtUsernames)"
    )
