"""What people try in the demo, and what they are told: written by hand, beside the objects.

The messages are those of docs/design.md 3.4 and 6; figures follow from `story`.
"""

from __future__ import annotations

from dataclasses import dataclass

HOSTER = ""
"""Who may do anything."""


@dataclass(frozen=True, slots=True)
class Try:
    """A file of `tries`, created by somebody of a namespace, and refused.

    `reason` is what kubectl shows in brackets, `message` what our refusal says.
    """

    file: str
    by: str
    reason: str
    message: str


REFUSED = (
    Try(
        "malformed.yaml",
        "tenant-acme",
        "Malformed",
        'metadata.annotations[gpu.cozystack.io/classes][0].count: "2", expected a whole number'
        " from 1 to 1024",
    ),
    Try(
        "too-many-units.yaml",
        "tenant-acme",
        "TooManyUnits",
        "metadata.annotations[gpu.cozystack.io/classes]: asked 1025 units: a VM has at most 1024"
        " units",
    ),
    Try(
        "mixed-requests.yaml",
        "tenant-acme",
        "MixedRequests",
        'spec.domain.devices.gpus[0]: the entry asks for "nvidia.com/GA100_A100_PCIE_80GB", beside'
        " the class entries or claims of the VM: leave one of them out",
    ),
    Try(
        "claim-not-found.yaml",
        "tenant-acme",
        "ClaimNotFound",
        "metadata.annotations[gpu.cozystack.io/claims][0]: the claim trian does not exist in this"
        " namespace",
    ),
    Try(
        "claim-in-use.yaml",
        "tenant-acme",
        "ClaimInUse",
        "metadata.annotations[gpu.cozystack.io/claims][0]: the claim train belongs to the"
        " VirtualMachine train",
    ),
    Try(
        "class-closed.yaml",
        "tenant-acme",
        "ClassClosed",
        "metadata.annotations[gpu.cozystack.io/classes][0]: class a10-12q: the class takes no new"
        " orders and no new VMs",
    ),
    Try(
        "max-count-exceeded.yaml",
        "tenant-acme",
        "MaxCountExceeded",
        "metadata.annotations[gpu.cozystack.io/classes][0]: class a10-6q: asked 5, up to 4: one"
        " order, or one VM, has at most 4 units of this class",
    ),
    Try(
        "not-entitled.yaml",
        "tenant-globex",
        "NotEntitled",
        "metadata.annotations[gpu.cozystack.io/classes][0]: class a10-6q: this tenant is not"
        " entitled to the class",
    ),
    Try(
        "budget-exceeded.yaml",
        "tenant-acme",
        "BudgetExceeded",
        "asked 3, up to 2: this tenant's budget has 2 left, 6 free",
    ),
    Try(
        "no-capacity.yaml",
        "tenant-globex",
        "NoCapacity",
        "asked 9, up to 3: 6 free, at most 3 can be had together",
    ),
    Try(
        "set-does-not-fit-one-node.yaml",
        "tenant-globex",
        "SetDoesNotFitOneNode",
        "asked 4, up to 3: at most 3 can be had together, 6 free",
    ),
    Try(
        "forbidden.yaml",
        "tenant-acme",
        "Forbidden",
        "spec.schedulingGates[0].name: only pods that KubeVirt makes for a virtual machine with"
        ' GPUs have it; this one was made by "tenant-acme-user", expected'
        " system:serviceaccount:cozy-kubevirt:kubevirt-controller (setting kubevirtUsernames)",
    ),
    Try(
        "class-conflict.yaml",
        HOSTER,
        "ClassConflict",
        'spec.resourceName: "nvidia.com/NVIDIA_L40S-24Q" is the resource of the class l40s-24q'
        " already",
    ),
)

ADMITTED = "study.yaml"
"""A VM of Acme's that names a class: let in, placed by the binder, and started."""

REFUSED_AT_START = "class-not-found.yaml"
"""A VM of Acme's that nobody refuses, but each of its starts: KubeVirt makes what we judge."""

AT_START = (
    'Failure while starting VMI: admission webhook "vmis.gpu.cozystack.io" denied the request:'
    " metadata.annotations[gpu.cozystack.io/classes][0].className: there is no class a10-6"
)
"""What its condition Failure says then."""

PLACED = "dream.yaml"
"""A VM of Globex's that takes the last place for three L40S."""

PLACED_ON = "gpu-node-06"
"""Of nodes 05 to 07 it alone has three left: 4 - 1; the others have 4 - 3 and 4 - 2."""

WAITS = "later.yaml"
"""Another one like it, which starts when the first one goes."""

WAITS_FOR = "SetDoesNotFitOneNode", "asked 3: at most 2 can be had together, 3 free"
"""The reason and the text of its event: 1 and 2 are left on two nodes."""

HELD = "train"
"""Acme's order of two A100, which the VM of that name uses."""
