"""What is refused, whatever rights somebody has: each attack with the begin of what he is told."""

from __future__ import annotations

from typing import Final

from shared import vocabulary as words
from tests.catalog.objects import CLAIM, bound, claim, namespace
from tests.cluster.api import Object
from tests.policies import attacks_on_vms
from tests.policies.attempts import Attack, creates, patches, replaces
from tests.policies.changes import (
    NO_OWNERS,
    booking,
    entitles,
    finalized,
    labelled,
)
from tests.policies.people import BINDER, HELM, MIGHTY, TENANT
from tests.policies.scene import (
    CLASS,
    EPOCH,
    GPU,
    LABELLED,
    NAMESPACE,
    OURS,
    SECRET,
    SYSTEM,
    WORKLOAD,
    secret,
    workload,
)

HOST: Final = "v1/Namespace"

TEMPLATE: Final = f"metadata.labels[{words.LABEL_TEMPLATE}]: only the binder makes claims for a VM"
ADDED: Final = "metadata.finalizers: only the binder adds"
REMOVED: Final = (
    "metadata.finalizers: gpu.cozystack.io/claim and gpu.cozystack.io/class-in-use stay"
)
STATUS: Final = "status: only the binder writes it."
ENTITLED: Final = f"metadata.labels[{words.LABEL_ENTITLEMENT}]: only trusted groups entitle"
USAGE: Final = "only the binder writes usage records of GPU claims"
SECRETS: Final = f"only the binder writes Secrets with the label {words.LABEL_MANAGED_BY}"
TERM: Final = "status.epoch: a booking of term"

RELEASED: Final[Object] = {"status": {"epoch": None, "nodeName": None, "boundTime": None}}
FREE: Final[Object] = {"status": {"capacity": {"free": 9}}}
TERM_9: Final[Object] = {"status": {"epoch": 9}}

ATTACKS: Final[tuple[Attack, ...]] = (
    *attacks_on_vms.ATTACKS,
    # Claims and classes.
    Attack(
        "a template claim of one's own",
        "template-claim",
        TENANT,
        creates(
            lambda _: (
                claim(NAMESPACE, "mine", "guarded", 1)
                | {
                    "metadata": {
                        "name": "mine",
                        "namespace": NAMESPACE,
                        "labels": {words.LABEL_TEMPLATE: "true"},
                    }
                }
            )
        ),
        TEMPLATE,
        0,
    ),
    Attack(
        "an order turns into one",
        "template-claim",
        MIGHTY,
        patches(CLAIM, "order", labelled(words.LABEL_TEMPLATE, "true")),
        TEMPLATE,
    ),
    Attack(
        "one turns into an order",
        "template-claim",
        HELM,
        patches(CLAIM, "template", labelled(words.LABEL_TEMPLATE, None)),
        TEMPLATE,
    ),
    Attack(
        "it gets another value",
        "template-claim",
        MIGHTY,
        patches(CLAIM, "template", labelled(words.LABEL_TEMPLATE, "")),
        TEMPLATE,
    ),
    Attack(
        "a claim that never goes",
        "finalizer",
        TENANT,
        creates(
            lambda _: (
                claim(NAMESPACE, "mine", "guarded", 1)
                | {
                    "metadata": {
                        "name": "mine",
                        "namespace": NAMESPACE,
                        "finalizers": [words.FINALIZER_CLAIM],
                    }
                }
            )
        ),
        ADDED,
        0,
    ),
    Attack(
        "trusted people hold up a class",
        "finalizer",
        HELM,
        patches(CLASS, "free", finalized(words.FINALIZER_CLASS)),
        ADDED,
    ),
    Attack(
        "a claim without our finalizer",
        "finalizer",
        MIGHTY,
        patches(CLAIM, "order", finalized()),
        REMOVED,
        1,
    ),
    Attack(
        "another in its place",
        "finalizer",
        MIGHTY,
        patches(CLAIM, "order", finalized("example.com/mine")),
        REMOVED,
    ),
    Attack(
        "a class without our finalizer",
        "finalizer",
        MIGHTY,
        patches(CLASS, "guarded", finalized()),
        REMOVED,
    ),
    Attack(
        "a claim books itself",
        "status",
        MIGHTY,
        patches(
            CLAIM,
            "new",
            bound(GPU, "gpu-1") | {"status": {"nodeName": "gpu-1", "epoch": 9}},
            "status",
        ),
        STATUS,
        0,
    ),
    Attack(
        "by trusted people", "status", HELM, patches(CLAIM, "order", booking(9), "status"), STATUS
    ),
    Attack("a class is freer", "status", MIGHTY, patches(CLASS, "guarded", FREE, "status"), STATUS),
    Attack(
        "another term begins",
        "status",
        HELM,
        patches(SYSTEM, words.SYSTEM_NAME, TERM_9, "status"),
        STATUS,
    ),
    # Terms of the binder.
    Attack(
        "an older term books",
        "epoch",
        BINDER,
        patches(CLAIM, "order", booking(EPOCH - 1), "status"),
        f"{TERM} {EPOCH - 1} is refused, since term {EPOCH} has begun",
        1,
    ),
    Attack(
        "it makes a booking",
        "epoch",
        BINDER,
        patches(CLAIM, "new", booking(EPOCH - 1), "status"),
        f"{TERM} {EPOCH - 1} is refused",
    ),
    Attack(
        "it takes one away",
        "epoch",
        BINDER,
        patches(CLAIM, "order", booking(EPOCH - 1, None), "status"),
        f"{TERM} {EPOCH - 1} is refused",
    ),
    Attack(
        "a booking of no term",
        "epoch",
        BINDER,
        patches(CLAIM, "order", RELEASED, "status"),
        "status.epoch: a booking of no term is refused",
    ),
    # What tenants are entitled to.
    Attack(
        "a namespace is labelled",
        "entitlement",
        MIGHTY,
        patches(HOST, NAMESPACE, labelled(words.LABEL_ENTITLEMENT, words.ENTITLED)),
        ENTITLED,
        0,
    ),
    Attack(
        "with nothing, which ends the search",
        "entitlement",
        MIGHTY,
        patches(HOST, NAMESPACE, labelled(words.LABEL_ENTITLEMENT, "")),
        ENTITLED,
    ),
    Attack(
        "the label is taken off",
        "entitlement",
        MIGHTY,
        patches(HOST, LABELLED, labelled(words.LABEL_ENTITLEMENT, None)),
        ENTITLED,
    ),
    Attack(
        "a namespace is made with it",
        "entitlement",
        MIGHTY,
        creates(lambda _: namespace("tenant-new", {words.LABEL_ENTITLEMENT: words.ENTITLED})),
        ENTITLED,
    ),
    Attack(
        "by way of a namespace's status",
        "entitlement",
        MIGHTY,
        replaces(HOST, NAMESPACE, entitles, "status"),
        ENTITLED,
    ),
    Attack(
        "by way of its finalizers",
        "entitlement",
        MIGHTY,
        replaces(HOST, NAMESPACE, entitles, "finalize"),
        ENTITLED,
    ),
    # Usage records and Secrets.
    Attack(
        "a forged record",
        "usage-record",
        MIGHTY,
        creates(lambda scene: scene.record("gpu-more")),
        USAGE,
        0,
    ),
    Attack(
        "a record by its label",
        "usage-record",
        HELM,
        creates(lambda _: workload("gpu-more", labels=OURS)),
        USAGE,
    ),
    Attack(
        "less use",
        "usage-record",
        MIGHTY,
        patches(WORKLOAD, "gpu-order", {"status": {"operational": False}}),
        USAGE,
    ),
    Attack(
        "a record without its claim",
        "usage-record",
        MIGHTY,
        patches(WORKLOAD, "gpu-order", NO_OWNERS),
        USAGE,
    ),
    Attack(
        "a record without its label",
        "usage-record",
        MIGHTY,
        patches(WORKLOAD, "labelled", labelled(words.LABEL_MANAGED_BY, None)),
        USAGE,
    ),
    Attack(
        "another licence",
        "secret",
        TENANT,
        patches(SECRET, "gpu-license-guarded", {"stringData": {"token": "y"}}),
        SECRETS,
        0,
    ),
    Attack(
        "a licence that is not ours any more",
        "secret",
        TENANT,
        patches(SECRET, "gpu-license-guarded", labelled(words.LABEL_MANAGED_BY, None)),
        SECRETS,
    ),
    Attack(
        "a Secret that says it is ours",
        "secret",
        TENANT,
        creates(lambda _: secret("mine", {words.LABEL_MANAGED_BY: "me"})),
        SECRETS,
    ),
    Attack(
        "by trusted people",
        "secret",
        HELM,
        patches(SECRET, "own", labelled(words.LABEL_MANAGED_BY, words.MANAGED_BY)),
        SECRETS,
    ),
)
"""Every attack; its name and thing together are its own."""
