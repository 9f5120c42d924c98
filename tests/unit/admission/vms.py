"""What is known of the claims and budgets that a VM meets."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from admission import vmi as rules
from admission.inputs import View, VmiInputs
from admission.review import Refuse
from shared.core.budgets import Remaining
from shared.core.model import (
    Claim,
    GpuClass,
    Placement,
    Vm,
)
from shared.core.terms import LimitingLevel
from tests.unit.admission.building import (
    A100,
    GA100,
    HOSTER,
    changed_by,
    entries,
    hoster,
    request,
)
from tests.unit.scripted_api import Raw

KIND = ("kubevirt.io", "VirtualMachineInstance")
CLASSES_FIELD = "metadata.annotations[gpu.cozystack.io/classes]"


CLAIMS_FIELD = "metadata.annotations[gpu.cozystack.io/claims]"


TRAIN = Claim("tenant-a", "train", "a100", 2, uid="claim-1")
ONE = entries(("a100", 1))


"""One unit of a class that everybody may have."""


def claimed(
    *claims: Claim,
    present: frozenset[str] = frozenset(),
    owner: Vm | None = None,
    rivals: Mapping[str, frozenset[str]] | None = None,
) -> VmiInputs:
    named = {claim.name: claim for claim in claims}
    return VmiInputs(HOSTER, named, present, rivals or {}, owner)


def view(remaining: int, gpu_class: GpuClass = A100, age: float = 1.0) -> View:
    left = Remaining(remaining, LimitingLevel.SELF)
    return View(age, gpu_class.resource_name, remaining=left)


BY_SCHEDULER = hoster(placement=Placement.SCHEDULER)


def verdict(thing: Raw, inputs: VmiInputs) -> str:
    """The reason of a refusal, or how many units are let in."""
    got = rules.decide(request(thing, kind=KIND), inputs)
    if isinstance(got, Refuse):
        return got.reason
    return str(len(changed_by(got, thing)["spec"]["domain"]["devices"]["gpus"]))


def units(**cases: tuple[Raw, VmiInputs, str]) -> pytest.MarkDecorator:
    """A table of VMIs, each with its verdict."""
    return pytest.mark.parametrize(
        ("thing", "inputs", "want"),
        [pytest.param(*case, id=name.replace("_", " ")) for name, case in cases.items()],
    )


PLAIN = VmiInputs(HOSTER)
RAW = {"name": "g9", "deviceName": GA100}
CLOSING = entries(("p40", 1))


def of_vm(created: str, uid: str = "vm-1") -> VmiInputs:
    return VmiInputs(HOSTER, owner=Vm("tenant-a", "vm1", uid, created))
