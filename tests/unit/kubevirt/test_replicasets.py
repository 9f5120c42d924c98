"""A set of instances of one template."""

from __future__ import annotations

from tests.cluster.api import Object
from tests.kubevirt import replicasets
from tests.unit.kubevirt.given import GPU, MOMENT, gpus, instance


def replica_set(replicas: int) -> Object:
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstanceReplicaSet",
        "metadata": {"name": "rs1", "namespace": "tenant-x", "uid": "uid-of-rs1"},
        "spec": {
            "replicas": replicas,
            "template": {
                "metadata": {"annotations": {"gpu.cozystack.io/classes": "[]"}},
                "spec": {"domain": gpus(GPU)},
            },
        },
    }


def test_its_instances_have_no_name_yet_when_they_are_admitted() -> None:
    """KubeVirt observed 7."""
    (made,) = replicasets.act(replica_set(1), []).create
    assert made["metadata"]["generateName"] == "rs1"
    assert "name" not in made["metadata"]
    assert made["metadata"]["annotations"] == {"gpu.cozystack.io/classes": "[]"}
    assert made["metadata"]["ownerReferences"][0]["kind"] == "VirtualMachineInstanceReplicaSet"


def test_missing_ones_are_made_ended_ones_replaced_and_spare_ones_deleted() -> None:
    runs = instance("a", phase="Running")
    ended = instance("b", phase="Failed")
    going = instance("c", phase="Running", deletionTimestamp=MOMENT)
    act = replicasets.act(replica_set(2), [runs, ended, going])
    assert len(act.create) == 1
    assert act.delete == (ended,)
    fewer = replicasets.act(replica_set(1), [runs, instance("d", phase="Running")])
    assert [each["metadata"]["name"] for each in fewer.delete] == ["d"]
    assert replicasets.told(replica_set(2), [runs, ended])["replicas"] == 1
