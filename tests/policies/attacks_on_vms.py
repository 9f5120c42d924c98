"""What is refused about VMs and their pods, with the begin of what is told."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.cluster.api import Object
from tests.policies.attempts import Attack, creates, patches, posts
from tests.policies.changes import (
    FREED,
    MARKED,
    NO_OWNERS,
    OTHER,
    UNGATE,
    annotated,
    binding,
    foreign,
    gated,
    marked,
    owned,
    unmarked,
    with_owner,
)
from tests.policies.people import BINDER, HELM, KUBEVIRT, MIGHTY, REPLICAS, TENANT
from tests.policies.scene import ONE, POD, RECORD, VMI, owner, pod, vmi

OLD: Final = f"{words.KUBEVIRT_GROUP}/v1alpha3/{words.KIND_VMI}"
_MARK: Final = f"metadata.annotations[{words.ANNOTATION_LAUNCHER}]"
MADE: Final = f"{_MARK} or spec.schedulingGates: only pods that KubeVirt makes"
NOT_ITS_OWN: Final = f"{_MARK}: expected the uid of the VirtualMachineInstance that controls the"
FIXED: Final = f"{_MARK}: set when a pod is made, and never changed after that"
KEPT: Final = (
    "metadata.ownerReferences: the VirtualMachineInstance with the uid in"
    f" {_MARK} stays the pod's controller"
)
UNGATED: Final = "spec.schedulingGates: the binder removes gpu.cozystack.io/claims once the VM's"


def stands(*names: str) -> str:
    """What is told of annotations of a VM that somebody changed."""
    return f"{_annotations(names)}: read once, when the VM starts, and never changed after that"


def unjudged(*names: str) -> str:
    """What is told of annotations of a VM that is made where nobody admits it."""
    why = "admission did not judge it, and the VM would start without its GPUs"
    return f"{_annotations(names)}: {why}: the webhooks {words.GROUP} are not in force"


def _annotations(names: tuple[str, ...]) -> str:
    return ", ".join(f"metadata.annotations[{words.GROUP}/{name}]" for name in names)


ONLY_OTHER: Final[Object] = {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}

ATTACKS: Final[tuple[Attack, ...]] = (
    # The gate.
    Attack("a tenant ungates", "launcher", TENANT, patches(POD, "launcher", UNGATE), UNGATED, 4),
    Attack("with a merge patch", "launcher", TENANT, patches(POD, "launcher", ONLY_OTHER), UNGATED),
    Attack("with all rights", "launcher", MIGHTY, patches(POD, "launcher", UNGATE), UNGATED),
    Attack("KubeVirt ungates", "launcher", KUBEVIRT, patches(POD, "launcher", UNGATE), UNGATED),
    Attack("a tenant's pod at our gate", "launcher", TENANT, creates(gated), MADE),
    Attack("a template's pod at our gate", "launcher", REPLICAS, creates(gated), MADE),
    Attack("a launcher without mark", "launcher", KUBEVIRT, creates(unmarked), NOT_ITS_OWN),
    # The mark of a pod.
    Attack("a pod with a mark", "launcher", TENANT, creates(marked), MADE),
    Attack(
        "a mark that says nothing",
        "launcher",
        TENANT,
        creates(lambda _: pod("marked", annotations={words.ANNOTATION_LAUNCHER: ""})),
        MADE,
    ),
    Attack("a template's pod with a mark", "launcher", REPLICAS, creates(marked), MADE),
    Attack(
        "a copied launcher", "launcher", TENANT, creates(lambda scene: scene.launcher()), MADE, 0
    ),
    Attack(
        "the same by trusted people",
        "launcher",
        HELM,
        creates(lambda scene: scene.launcher()),
        MADE,
    ),
    Attack(
        "another VM's uid",
        "launcher",
        KUBEVIRT,
        creates(foreign),
        NOT_ITS_OWN,
        1,
    ),
    Attack(
        "an owner that controls nothing",
        "launcher",
        KUBEVIRT,
        creates(lambda scene: with_owner(scene, controller=False)),
        NOT_ITS_OWN,
    ),
    Attack(
        "an owner of another kind",
        "launcher",
        KUBEVIRT,
        creates(lambda scene: with_owner(scene, kind="Pod", apiVersion="v1")),
        NOT_ITS_OWN,
    ),
    Attack(
        "a tenant changes the mark",
        "launcher",
        TENANT,
        patches(POD, "launcher", annotated(launcher=OTHER)),
        FIXED,
        2,
    ),
    Attack(
        "a tenant takes the mark off",
        "launcher",
        TENANT,
        patches(POD, "launcher", annotated(launcher=None)),
        FIXED,
    ),
    Attack(
        "a tenant marks a pod",
        "launcher",
        TENANT,
        patches(POD, "plain", annotated(launcher=OTHER)),
        FIXED,
    ),
    Attack(
        "by way of the status",
        "launcher",
        MIGHTY,
        patches(POD, "launcher", annotated(launcher=None), "status"),
        FIXED,
    ),
    Attack(
        "the binder changes the mark",
        "launcher",
        BINDER,
        patches(POD, "launcher", annotated(launcher=OTHER)),
        FIXED,
    ),
    Attack(
        "by way of a Binding",
        "launcher",
        MIGHTY,
        posts("/pods/plain/binding", binding(annotations=MARKED)),
        FIXED,
    ),
    Attack(
        "by way of a Binding of old",
        "launcher",
        MIGHTY,
        posts("/bindings", binding(annotations=MARKED)),
        FIXED,
    ),
    # Whose a marked pod is.
    Attack(
        "a tenant frees a launcher", "launcher", TENANT, patches(POD, "launcher", FREED), KEPT, 3
    ),
    Attack("trusted people free it", "launcher", HELM, patches(POD, "launcher", NO_OWNERS), KEPT),
    Attack("KubeVirt frees it", "launcher", KUBEVIRT, patches(POD, "launcher", NO_OWNERS), KEPT),
    Attack("the binder frees it", "launcher", BINDER, patches(POD, "launcher", NO_OWNERS), KEPT),
    Attack(
        "it is another instance's",
        "launcher",
        TENANT,
        patches(POD, "launcher", owned(uid=OTHER)),
        KEPT,
    ),
    Attack(
        "its owner has another name",
        "launcher",
        TENANT,
        patches(POD, "launcher", owned(name="other")),
        KEPT,
    ),
    Attack(
        "its owner controls it no more",
        "launcher",
        TENANT,
        patches(POD, "launcher", owned(controller=None)),
        KEPT,
    ),
    Attack(
        "another owner in its place",
        "launcher",
        TENANT,
        patches(
            POD,
            "launcher",
            {"metadata": {"ownerReferences": [owner("v1", "ConfigMap", "mine", OTHER)]}},
        ),
        KEPT,
    ),
    # What a VM was admitted with.
    Attack(
        "more units",
        "vmi",
        TENANT,
        patches(VMI, "vm", annotated(classes='[{"className":"guarded","count":8}]')),
        stands("classes"),
        0,
    ),
    Attack(
        "no classes", "vmi", TENANT, patches(VMI, "vm", annotated(classes=None)), stands("classes")
    ),
    Attack(
        "a claim",
        "vmi",
        TENANT,
        patches(VMI, "vm", annotated(claims='["order"]')),
        stands("claims"),
    ),
    Attack(
        "classes where there were none",
        "vmi",
        TENANT,
        patches(VMI, "bare", annotated(classes="[]")),
        stands("classes"),
    ),
    Attack(
        "by an older version",
        "vmi",
        TENANT,
        patches(OLD, "vm", annotated(classes=None)),
        stands("classes"),
    ),
    Attack(
        "claims that say nothing",
        "vmi",
        TENANT,
        patches(VMI, "bare", annotated(claims="")),
        stands("claims"),
    ),
    Attack(
        "another record",
        "vmi",
        TENANT,
        patches(VMI, "vm", annotated(attachments="[]")),
        stands("attachments"),
    ),
    Attack(
        "no record",
        "vmi",
        KUBEVIRT,
        patches(VMI, "vm", annotated(attachments=None)),
        stands("attachments"),
    ),
    Attack(
        "a mark for pods to come",
        "vmi",
        TENANT,
        patches(VMI, "bare", annotated(launcher=OTHER)),
        stands("launcher"),
    ),
    Attack(
        "no annotations at all",
        "vmi",
        HELM,
        patches(VMI, "vm", {"metadata": {"annotations": None}}),
        stands("classes", "attachments"),
    ),
    # What nobody judged, as where there are no webhooks.
    Attack(
        "KubeVirt makes a VM that nobody admitted",
        "vmi",
        KUBEVIRT,
        creates(lambda _: vmi("v", {words.ANNOTATION_CLASSES: ONE})),
        unjudged("classes"),
        1,
    ),
    Attack(
        "a tenant makes one",
        "vmi",
        TENANT,
        creates(lambda _: vmi("v", {words.ANNOTATION_CLAIMS: '["order"]'})),
        unjudged("claims"),
    ),
    Attack(
        "one of both by trusted people",
        "vmi",
        HELM,
        creates(lambda _: vmi("v", {words.ANNOTATION_CLASSES: ONE, words.ANNOTATION_CLAIMS: "[]"})),
        unjudged("classes", "claims"),
    ),
    Attack(
        "one with a record, and without a GPU",
        "vmi",
        TENANT,
        creates(
            lambda _: vmi(
                "v", {words.ANNOTATION_CLASSES: ONE, words.ANNOTATION_ATTACHMENTS: RECORD}
            )
        ),
        unjudged("classes"),
    ),
    Attack(
        "one that says nothing",
        "vmi",
        TENANT,
        creates(lambda _: vmi("v", {words.ANNOTATION_CLASSES: ""})),
        unjudged("classes"),
    ),
)
