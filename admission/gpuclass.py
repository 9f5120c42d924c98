"""GPUClasses: one resource for one class, and never one of Kubernetes' own (rule 6.5).

The schema holds the single object to its form; here it is compared with the others. Everything
that is refused here is asked again where a VM names the class, since two classes can be made at
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from admission.asked import malformed_cause
from admission.inputs import ClassInputs, ClassNeeds
from admission.review import Allow, Decision, Request, refusal, require_kind
from shared.core.annotations import shown
from shared.core.gpunames import is_extended_resource, is_permitted
from shared.errors import Cause
from shared.fields import Json, elements, mapping, text
from shared.reasons import Reason, say
from shared.vocabulary import (
    CLASS_KEY_SUFFIX,
    FINALIZER_CLASS,
    GROUP,
    KIND_CLASS,
)

_FIELD: Final = "spec.resourceName"
_A_RESOURCE: Final = (
    "the extended resource that the device plugin advertises on nodes, with a domain that is not "
    'Kubernetes\' own, such as "nvidia.com/GA102GL_A10"'
)

_FELT: Final = {
    "resourceName": "claims that are bound keep the former resource until they are bound anew",
    "maxCount": "claims and VMs that have more keep it",
    "entitlement": "claims of tenants that are no longer entitled live on",
    "lifecycle": "claims live on, and VMs that are older than the closing still start",
    "disclosure": "tenants see at once what it discloses now",
    "tolerations": "pods that are there keep theirs",
    "guestLicense": "VMs that run keep theirs until they start anew",
}
"""Fields whose change others feel, and what it does not do."""


@dataclass(frozen=True, slots=True)
class Case:
    """One class as it is to be, as it was, and what is known of the others."""

    name: str
    spec: Json
    old_spec: Json | None
    in_use: bool
    inputs: ClassInputs

    @property
    def resource_name(self) -> str:
        """The resource that it is to have."""
        return text(self.spec.get("resourceName"))

    @property
    def names_resource(self) -> bool:
        """Whether this call says which resource it has: an update may leave that as it is."""
        return self.old_spec is None or self.old_spec.get("resourceName") != self.spec.get(
            "resourceName"
        )


Rule = Callable[[Case], Iterable[Cause]]
"""What is wrong with a class in one respect."""


def malformed(case: Case) -> Iterator[Cause]:
    """A resource that no class can have: a native one, several, or a budget key of ours."""
    name = case.resource_name
    fits = is_extended_resource(name) and not name.endswith(CLASS_KEY_SUFFIX)
    if case.names_resource and not fits:
        yield malformed_cause(_FIELD, shown(case.spec.get("resourceName")), _A_RESOURCE)


def inputs_unreadable(case: Case) -> Iterator[Cause]:
    """The other classes could not be read."""
    if not case.names_resource:
        return
    for unread in case.inputs.unread:
        told = f"GPU admission: {say(Reason.INPUTS_UNREADABLE)}: {unread.what}: {unread.why}"
        yield Cause(Reason.INPUTS_UNREADABLE, told)


def class_conflict(case: Case) -> Iterator[Cause]:
    """A resource that another class has."""
    if not case.names_resource:
        return
    for other in sorted(case.inputs.hoster.classes.values(), key=lambda other: other.name):
        if other.name != case.name and other.resource_name == case.resource_name:
            told = f"{shown(case.resource_name)} is the resource of the class {other.name} already"
            yield Cause(Reason.CLASS_CONFLICT, told, _FIELD)


CHAIN: Final[tuple[tuple[Reason, Rule], ...]] = (
    (Reason.MALFORMED, malformed),
    (Reason.INPUTS_UNREADABLE, inputs_unreadable),
    (Reason.CLASS_CONFLICT, class_conflict),
)
"""Every rule, in the order of precedence (rule 3.4)."""


def needs(request: Request) -> ClassNeeds | None:
    """What to read for a decision; None where it takes nothing.

    Raises:
        BadRequest: the review is about another kind.
    """
    require_kind(request, GROUP, KIND_CLASS)
    if request.operation not in {"CREATE", "UPDATE"} or request.object is None:
        return None
    metadata = mapping(request.object.get("metadata"))
    if "deletionTimestamp" in metadata:
        return None
    old = request.old_object
    if old is not None and old.get("spec") == request.object.get("spec"):
        return None
    return ClassNeeds(request.name or text(metadata.get("name")))


def decide(
    request: Request, inputs: ClassInputs, chain: Sequence[tuple[Reason, Rule]] = CHAIN
) -> Decision:
    """Refuse a class whose resource cannot be its own; warn of changes that others feel.

    What changes no spec, or is being deleted, is never refused.

    Raises:
        BadRequest: the review is about another kind.
    """
    needed = needs(request)
    if needed is None or request.object is None:
        return Allow()
    old = request.old_object
    metadata = mapping(request.object.get("metadata"))
    case = Case(
        name=needed.class_name,
        spec=mapping(request.object.get("spec")),
        old_spec=None if old is None else mapping(old.get("spec")),
        in_use=FINALIZER_CLASS in elements(metadata.get("finalizers")) or inputs.claims > 0,
        inputs=inputs,
    )
    for reason, rule in chain:
        causes = tuple(rule(case))
        if causes:
            return refusal(request, reason, causes)
    return Allow(warnings=(*felt(case), *not_permitted(case)))


def felt(case: Case) -> Iterator[str]:
    """A warning for each change of a class that is in use."""
    if case.old_spec is None or not case.in_use:
        return
    for field, what in _FELT.items():
        if case.old_spec.get(field) != case.spec.get(field):
            yield f"spec.{field} changes while the class is in use: {what}"


def not_permitted(case: Case) -> Iterator[str]:
    """A warning where KubeVirt lets no VM have the device: nobody can use the class yet."""
    if case.names_resource and not is_permitted(case.resource_name, case.inputs.hoster.kubevirt):
        yield (
            f"{case.resource_name} is not in KubeVirt's permittedHostDevices: no VM can have this "
            "class until it is"
        )
