"""What placing alone reads, as the API server sends it: volumes, names of Secrets, the system."""

from __future__ import annotations

from shared import vocabulary as v
from shared.core.model import Secret, System, Volume, VolumeClaim
from tests.bench.raw_metadata import Field, metadata, written_by

_DRIVER = "storage.example.net"


def volume_claim(value: VolumeClaim) -> Field:
    """A bound PersistentVolumeClaim as CDI makes it for a disk."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(
            value.name,
            value.namespace,
            uid=value.uid,
            labels={"app": "containerized-data-importer", "app.kubernetes.io/part-of": "kubevirt"},
            annotations={
                "cdi.kubevirt.io/storage.populatedFor": value.name,
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
                "volume.kubernetes.io/storage-provisioner": _DRIVER,
                **(
                    {v.ANNOTATION_SELECTED_NODE: value.selected_node} if value.selected_node else {}
                ),
            },
            finalizers=["kubernetes.io/pvc-protection"],
            fields=written_by("cdi-controller", "metadata", "annotations", "labels", rows=6),
        ),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "20Gi"}},
            "storageClassName": "replicated",
            "volumeMode": "Block",
            "volumeName": value.volume,
        },
        "status": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "20Gi"},
            "phase": value.phase,
        },
    }


def volume(value: Volume) -> Field:
    """A provisioned PersistentVolume."""
    terms = [
        {
            "matchExpressions": [
                {"key": each.key, "operator": each.operator, "values": list(each.values)}
                for each in term.expressions
            ]
        }
        for term in value.node_terms or ()
    ]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata(
            value.name,
            annotations={"pv.kubernetes.io/provisioned-by": _DRIVER},
            finalizers=["kubernetes.io/pv-protection"],
            fields=written_by("csi-provisioner", "spec", "csi", "claimRef", "nodeAffinity"),
        ),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "capacity": {"storage": "20Gi"},
            "csi": {"driver": _DRIVER, "fsType": "ext4", "volumeHandle": value.name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": "replicated",
            "volumeMode": "Block",
        },
        "status": {"phase": "Bound"},
    }


def secret(value: Secret) -> Field:
    """The metadata of a Secret."""
    return {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadata",
        "metadata": metadata(
            value.name, value.namespace, labels={v.LABEL_MANAGED_BY: v.MANAGED_BY}
        ),
    }


def system(value: System) -> Field:
    """The GPUSystem."""
    return {
        "apiVersion": v.GROUP_VERSION,
        "kind": v.KIND_SYSTEM,
        "metadata": metadata(value.name),
        "status": {"epoch": value.epoch, "resourceNames": list(value.resource_names)},
    }
