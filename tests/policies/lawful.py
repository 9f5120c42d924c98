"""What is let in: what everybody writes whose business it is, and all that is none of ours."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.catalog.objects import CLAIM, claim, namespace
from tests.cluster.access import User
from tests.cluster.api import Object
from tests.policies.attempts import Act, Lawful, creates, patches, posts, replaces
from tests.policies.changes import (
    NO_OWNERS,
    OTHER,
    UNGATE,
    annotated,
    binding,
    booking,
    entitles,
    finalized,
    labelled,
)
from tests.policies.people import (
    BINDER,
    COLLECTOR,
    HELM,
    KUBEVIRT,
    MANAGER,
    MASTER,
    MIGHTY,
    NAMESPACES,
    TENANT,
)
from tests.policies.scene import (
    CLASS,
    EPOCH,
    KEEPS,
    LABELLED,
    NAMESPACE,
    OURS,
    POD,
    SECRET,
    SYSTEM,
    VMI,
    WORKLOAD,
    admitted,
    pod,
    secret,
    vmi,
    workload,
)

HOST: Final = "v1/Namespace"
NOT_OURS: Final = "is-not-the-clusters-own"
"""The condition that all policies have."""

PINNED: Final[list[Object]] = [
    *UNGATE,
    {
        "op": "add",
        "path": "/spec/affinity",
        "value": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                {"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}
                            ]
                        }
                    ]
                }
            }
        },
    },
]
FOREIGN: Final[list[Object]] = [
    {"op": "test", "path": "/spec/schedulingGates/0/name", "value": "example.com/other"},
    {"op": "remove", "path": "/spec/schedulingGates/0"},
]
WAITING: Final[Object] = {
    "status": {
        "waiting": {"reason": "NoCapacity", "message": "", "sinceTime": "2026-11-29T12:00:00Z"}
    }
}
RUNS: Final[Object] = {"status": {"phase": "Running"}}
TOLD: Final[Object] = {"status": {"phase": "Scheduling", "activePods": {"x": ""}}}
SEEN: Final[Object] = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
NAMED: Final[Object] = {"metadata": {"labels": {"example.com/named": "yes"}}}
MAP: Final[list[Object]] = [
    {"op": "test", "path": "/metadata/labels", "value": {words.LABEL_KUBEVIRT: words.LAUNCHER}},
    {"op": "replace", "path": "/metadata/labels", "value": {"kubevirt.io/nodeName": "gpu-1"}},
]
BY_NOBODY: Final[Object] = {"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": OTHER}
SHARED: Final[list[Object]] = [
    {"op": "add", "path": "/metadata/ownerReferences/-", "value": BY_NOBODY}
]
OWNED: Final[Object] = {"metadata": {"ownerReferences": [BY_NOBODY]}}
RECORDED: Final = "was-not-admitted-or-changes-an-annotation-of-ours"


def by(user: User, thing: str, named: str, act: Act, without: str = "") -> Lawful:
    """In the order in which one reads it."""
    return Lawful(named, thing, user, act, without)


LAWFUL: Final = (
    # The binder, as rule 3.5 has it.
    by(BINDER, "launcher", "pins and ungates", patches(POD, "launcher", PINNED)),
    by(BINDER, "epoch", "books in its term", patches(CLAIM, "order", booking(EPOCH), "status")),
    by(BINDER, "epoch", "in a newer one", patches(CLAIM, "order", booking(EPOCH + 1), "status")),
    by(BINDER, "epoch", "takes one away", patches(CLAIM, "order", booking(EPOCH, None), "status")),
    by(
        BINDER,
        "epoch",
        "tells of a booking of old",
        patches(CLAIM, "order", WAITING, "status"),
        "changes-the-booking",
    ),
    by(BINDER, "epoch", "why one waits", patches(CLAIM, "new", WAITING, "status")),
    by(
        BINDER,
        "status",
        "stock of a class",
        patches(CLASS, "guarded", {"status": {"capacity": {"free": 1}}}, "status"),
    ),
    by(
        BINDER,
        "status",
        "a new term",
        patches(SYSTEM, words.SYSTEM_NAME, {"status": {"epoch": EPOCH + 1}}, "status"),
    ),
    by(
        BINDER,
        "template-claim",
        "a claim for an entry",
        creates(
            lambda _: {
                **claim(NAMESPACE, "made", "guarded", 1),
                "metadata": {
                    "name": "made",
                    "namespace": NAMESPACE,
                    "labels": {words.LABEL_TEMPLATE: "true"},
                    "finalizers": [words.FINALIZER_CLAIM],
                },
            }
        ),
    ),
    by(
        BINDER,
        "finalizer",
        "holds a claim",
        patches(CLAIM, "new", finalized(words.FINALIZER_CLAIM)),
    ),
    by(BINDER, "finalizer", "lets a class go", patches(CLASS, "guarded", finalized())),
    by(BINDER, "usage-record", "a record", creates(lambda scene: scene.record("gpu-more"))),
    by(
        BINDER,
        "usage-record",
        "keeps it",
        patches(WORKLOAD, "gpu-order", {"status": {"operational": False}}),
    ),
    by(BINDER, "secret", "a licence", creates(lambda _: secret("gpu-license-new", OURS))),
    by(
        BINDER,
        "secret",
        "a newer one",
        patches(SECRET, "gpu-license-guarded", {"stringData": {"token": "y"}}),
    ),
    # KubeVirt.
    by(KUBEVIRT, "launcher", "makes a launcher", creates(lambda scene: scene.launcher())),
    by(
        KUBEVIRT,
        "launcher",
        "makes a migration target",
        creates(
            lambda scene: {
                **scene.launcher("l3"),
                "spec": pod("l3")["spec"],
            }
        ),
    ),
    by(
        KUBEVIRT,
        "launcher",
        "makes a pod of a VM without GPUs",
        creates(lambda _: pod("l4", labels={words.LABEL_KUBEVIRT: words.LAUNCHER})),
    ),
    by(KUBEVIRT, "launcher", "its map of labels", patches(POD, "launcher", MAP)),
    by(KUBEVIRT, "launcher", "its condition", patches(POD, "launcher", SEEN, "status")),
    by(KUBEVIRT, "vmi", "state of a VM", patches(VMI, "vm", TOLD), RECORDED),
    by(KUBEVIRT, "vmi", "finalizer of a VM", patches(VMI, "vm", finalized("kubevirt.io/x"))),
    # Kubernetes' collector, for whom an owner went and left its dependents.
    by(COLLECTOR, "launcher", "frees a launcher", patches(POD, "launcher", NO_OWNERS)),
    # Trusted people.
    by(HELM, "launcher", "ungate", patches(POD, "launcher", UNGATE)),
    by(HELM, "finalizer", "free a claim", patches(CLAIM, "order", finalized())),
    by(HELM, "finalizer", "free a class", patches(CLASS, "guarded", finalized())),
    by(
        HELM,
        "entitlement",
        "entitle",
        patches(HOST, NAMESPACE, labelled(words.LABEL_ENTITLEMENT, words.ENTITLED)),
    ),
    by(
        HELM,
        "entitlement",
        "take it away",
        patches(HOST, LABELLED, labelled(words.LABEL_ENTITLEMENT, None)),
    ),
    by(
        HELM,
        "entitlement",
        "make a tenant with it",
        creates(lambda _: namespace("tenant-new", {words.LABEL_ENTITLEMENT: "denied"})),
    ),
    # What is none of ours, and what is the tenant's own.
    by(
        TENANT,
        "launcher",
        "makes a pod",
        creates(lambda _: pod("p")),
        "changes-mark-gate-or-owner",
    ),
    by(
        TENANT,
        "launcher",
        "a pod at another gate",
        creates(lambda _: pod("p", gates=["example.com/other"])),
    ),
    by(TENANT, "launcher", "opens another gate", patches(POD, "launcher", FOREIGN)),
    by(TENANT, "launcher", "annotates a launcher", patches(POD, "launcher", SEEN)),
    by(TENANT, "launcher", "labels a launcher", patches(POD, "launcher", NAMED)),
    by(TENANT, "launcher", "gives it another owner", patches(POD, "launcher", SHARED)),
    by(TENANT, "launcher", "gives a pod an owner", patches(POD, "plain", OWNED)),
    by(TENANT, "launcher", "takes its owner off", patches(POD, "owned", NO_OWNERS)),
    by(TENANT, "launcher", "holds up a launcher", patches(POD, "launcher", finalized(KEEPS))),
    by(TENANT, "launcher", "lets one go that leaves", patches(POD, "leaving", finalized())),
    by(TENANT, "launcher", "annotates a bare pod", patches(POD, "plain", SEEN)),
    by(MIGHTY, "launcher", "binds a pod", posts("/pods/plain/binding", binding())),
    by(TENANT, "vmi", "makes a VM", creates(lambda _: vmi("v"))),
    by(TENANT, "vmi", "an annotated VM", creates(lambda _: vmi("v", {"example.com/seen": ""}))),
    by(KUBEVIRT, "vmi", "a VM with its GPU", creates(lambda _: admitted())),
    by(TENANT, "vmi", "annotates a VM", patches(VMI, "vm", SEEN)),
    by(TENANT, "vmi", "annotates a bare VM", patches(VMI, "bare", SEEN)),
    by(
        TENANT,
        "vmi",
        "changes nothing",
        patches(VMI, "vm", annotated(classes='[{"className":"guarded","count":1}]')),
    ),
    by(
        TENANT,
        "template-claim",
        "orders",
        creates(lambda _: claim(NAMESPACE, "mine", "guarded", 1)),
        "changes-the-mark",
    ),
    by(MIGHTY, "template-claim", "labels an order", patches(CLAIM, "order", NAMED)),
    by(MIGHTY, "finalizer", "annotates what has ours", patches(CLAIM, "order", SEEN)),
    by(
        MIGHTY,
        "finalizer",
        "adds another",
        patches(CLAIM, "order", finalized(words.FINALIZER_CLAIM, "example.com/mine")),
    ),
    by(MIGHTY, "finalizer", "labels a class", patches(CLASS, "guarded", NAMED)),
    by(
        MIGHTY,
        "entitlement",
        "labels a namespace",
        patches(HOST, LABELLED, NAMED),
        "changes-the-label",
    ),
    by(MIGHTY, "entitlement", "makes a namespace", creates(lambda _: namespace("plain"))),
    by(
        MIGHTY,
        "usage-record",
        "writes other records",
        patches(WORKLOAD, "other", {"status": {"operational": False}}),
        "is-a-usage-record",
    ),
    by(MIGHTY, "usage-record", "makes another record", creates(lambda _: workload("more"))),
    by(TENANT, "secret", "makes a Secret", creates(lambda _: secret("mine")), "is-ours"),
    by(
        TENANT, "secret", "changes a Secret", patches(SECRET, "own", {"stringData": {"token": "y"}})
    ),
)
"""Every request of an ordinary day; its name and thing together are its own."""

# The collectors' accounts are of a trusted group too, the manager is of none.
_CHANGES: Final[tuple[tuple[str, Act], ...]] = (
    ("status", patches(CLASS, "guarded", {"status": {"capacity": {"free": 9}}}, "status")),
    ("epoch", patches(CLAIM, "order", booking(EPOCH - 1), "status")),
    ("template-claim", patches(CLAIM, "template", labelled(words.LABEL_TEMPLATE, None))),
    ("finalizer", patches(CLASS, "free", finalized(words.FINALIZER_CLASS))),
    ("vmi", patches(VMI, "vm", annotated(classes=None))),
    ("launcher", patches(POD, "launcher", annotated(launcher=None))),
    ("entitlement", replaces(HOST, NAMESPACE, entitles, "finalize")),
    ("usage-record", patches(WORKLOAD, "gpu-order", NO_OWNERS)),
    ("secret", patches(SECRET, "gpu-license-guarded", {"metadata": {"labels": None}})),
)

PASSES: Final = tuple(
    Lawful(f"{named} passes", thing, user, act, NOT_OURS if user is MANAGER else "")
    for named, user in (
        ("the garbage collector", COLLECTOR),
        ("the namespace controller", NAMESPACES),
        ("the controller manager", MANAGER),
        ("system:masters", MASTER),
    )
    for thing, act in _CHANGES
)
"""Who always passes, with what is refused to others."""
