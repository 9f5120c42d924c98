"""What people try to change, as patches and objects."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.cluster.api import Object
from tests.policies.scene import NAMESPACE, Scene, pod

OTHER: Final = "11111111-1111-1111-1111-111111111111"


def annotated(**values: str | None) -> Object:
    """A merge patch of annotations of ours; None removes one."""
    return {"metadata": {"annotations": {f"{words.GROUP}/{key}": v for key, v in values.items()}}}


def labelled(key: str, value: str | None) -> Object:
    """A merge patch of one label."""
    return {"metadata": {"labels": {key: value}}}


def finalized(*names: str) -> Object:
    """A merge patch of all finalizers."""
    return {"metadata": {"finalizers": list(names)}}


def entitles(found: Object) -> None:
    """Label a namespace as entitled."""
    found["metadata"].setdefault("labels", {})[words.LABEL_ENTITLEMENT] = words.ENTITLED


def owned(**changed: object) -> list[Object]:
    """A JSON Patch of the launcher's one owner reference; None takes a field away."""
    at = "/metadata/ownerReferences/0"
    return [
        {"op": "remove", "path": f"{at}/{key}"}
        if value is None
        else {"op": "replace", "path": f"{at}/{key}", "value": value}
        for key, value in changed.items()
    ]


def booking(epoch: int | None, node: str | None = "gpu-2") -> Object:
    """A merge patch that moves the order's booking, in a term."""
    return {"status": {"epoch": epoch, "nodeName": node}}


def binding(**metadata: object) -> Object:
    """What a scheduler posts."""
    target = {"kind": "Node", "name": "gpu-1"}
    meta = {"name": "plain", "namespace": NAMESPACE, **metadata}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


UNGATE: Final[list[Object]] = [
    {"op": "test", "path": "/spec/schedulingGates/1/name", "value": words.GATE},
    {"op": "remove", "path": "/spec/schedulingGates/1"},
]
NO_OWNERS: Final[Object] = {"metadata": {"ownerReferences": None}}
FREED: Final[Object] = {
    "metadata": {
        "ownerReferences": None,
        "labels": {words.LABEL_KUBEVIRT: None, "kubevirt.io/created-by": None},
    }
}
"""A merge patch that takes a pod from its VM: owner and labels."""

MARKED: Final = {words.ANNOTATION_LAUNCHER: OTHER}


def with_owner(scene: Scene, **changed: object) -> Object:
    """A launcher whose controller is not quite what it should be."""
    made = scene.launcher()
    made["metadata"]["ownerReferences"][0] |= changed
    return made


def unmarked(scene: Scene) -> Object:
    """A launcher with the gate alone."""
    made = scene.launcher()
    del made["metadata"]["annotations"][words.ANNOTATION_LAUNCHER]
    return made


def foreign(scene: Scene) -> Object:
    """A launcher with another VM's uid for its mark."""
    made = scene.launcher()
    made["metadata"]["annotations"] |= MARKED
    return made


def gated(scene: Scene) -> Object:
    """A pod that waits at our gate, and is nobody's launcher."""
    del scene
    return pod("gated", gates=["example.com/other", words.GATE])


def marked(scene: Scene) -> Object:
    """A pod with a VM's uid for its mark, and nobody's launcher."""
    return pod("marked", annotations={words.ANNOTATION_LAUNCHER: scene.vmi["metadata"]["uid"]})
