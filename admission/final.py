"""The last look at a VMI, after all webhooks: it has what its record says, and no other GPU.

It reads nothing: the object and the names that the informer knows decide (rule 6.1.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from admission import expansion
from admission.asked import (
    Asked,
    annotation_field,
    annotations_of,
    is_ours,
    malformed_cause,
    told,
    unknown_annotations,
)
from admission.devices import hidden_gpus, host_device_names
from admission.inputs import FinalInputs
from admission.review import Allow, Decision, Request, refusal, require_kind
from shared.core.annotations import Malformed, parse_record
from shared.core.model import RecordEntry
from shared.errors import Cause
from shared.fields import Json
from shared.reasons import Reason, Words, say
from shared.vocabulary import ANNOTATION_ATTACHMENTS, KIND_VMI, KUBEVIRT_GROUP

_RECORD: Final = annotation_field(ANNOTATION_ATTACHMENTS)
_GPUS: Final = "spec.domain.devices.gpus"
_WRITTEN: Final = (
    "what the mutating webhook vmis.gpu.cozystack.io writes: it is not installed, or another "
    "webhook took it out"
)


@dataclass(frozen=True)
class Case:
    """One VMI as it is to be stored."""

    vmi: Json
    inputs: FinalInputs

    @cached_property
    def asked(self) -> Asked:
        """What its annotations ask for."""
        return Asked.of(self.vmi)

    @cached_property
    def record(self) -> tuple[RecordEntry, ...] | Malformed:
        """Its record, or what is wrong with it."""
        try:
            return parse_record(annotations_of(self.vmi).get(ANNOTATION_ATTACHMENTS))
        except Malformed as malformed:
            return malformed


Rule = Callable[[Case], Iterable[Cause]]
"""What is wrong with a VMI in one respect."""


def misspelt(case: Case) -> Iterator[Cause]:
    """An annotation that looks like ours and is none, whoever wrote it (6.1.1)."""
    yield from unknown_annotations(case.vmi)


def record_malformed(case: Case) -> Iterator[Cause]:
    """It has no record that admission wrote."""
    if ANNOTATION_ATTACHMENTS not in annotations_of(case.vmi):
        yield malformed_cause(_RECORD, "missing", _WRITTEN)
    elif isinstance(case.record, Malformed):
        yield from told(case.record)


def record_differs(case: Case) -> Iterator[Cause]:
    """The record is about something else than what it asks for now, or that cannot be read."""
    if isinstance(case.record, Malformed):
        return
    if case.asked.malformed:
        yield from case.asked.malformed
        return
    claims = [entry.claim for entry in case.record if entry.claim]
    entries = [
        (entry.entry, entry.class_name, entry.count) for entry in case.record if not entry.claim
    ]
    asked = [
        (index, entry.class_name, entry.count) for index, entry in enumerate(case.asked.classes)
    ]
    if claims != sorted(case.asked.claims) or entries != asked:
        yield malformed_cause(
            _RECORD, "a record of other claims or classes", "the record that admission wrote"
        )


def entries_differ(case: Case) -> Iterator[Cause]:
    """The entries under `gpus` are not those of the record: somebody added or took away."""
    if isinstance(case.record, Malformed):
        return
    expected = expansion.units(case.record, host_device_names(case.vmi))
    if not expansion.are(case.vmi, expected):
        what = f"the list is not the {len(expected)} units that admission wrote"
        told = say(Reason.MIXED_REQUESTS, words=Words(what=what))
        yield Cause(Reason.MIXED_REQUESTS, told, _GPUS)


def hidden_requests(case: Case) -> Iterator[Cause]:
    """A GPU that is asked for anywhere else."""
    record = () if isinstance(case.record, Malformed) else case.record
    names = case.inputs.gpu_names | {entry.resource_name for entry in record}
    for found in hidden_gpus(case.vmi, lambda: names):
        told = say(Reason.MIXED_REQUESTS, words=Words(what=found.what))
        yield Cause(Reason.MIXED_REQUESTS, told, found.field)


CHAIN: Final[tuple[tuple[Reason, Rule], ...]] = (
    (Reason.MALFORMED, misspelt),
    (Reason.MALFORMED, record_malformed),
    (Reason.MALFORMED, record_differs),
    (Reason.MIXED_REQUESTS, entries_differ),
    (Reason.MIXED_REQUESTS, hidden_requests),
)
"""Every rule, in the order of precedence (rule 3.4)."""


def decide(
    request: Request, inputs: FinalInputs, chain: Sequence[tuple[Reason, Rule]] = CHAIN
) -> Decision:
    """Refuse a VMI that would start with other GPUs than those that were admitted.

    Raises:
        BadRequest: the review is about another kind.
    """
    require_kind(request, KUBEVIRT_GROUP, KIND_VMI)
    vmi = request.object
    if request.operation != "CREATE" or vmi is None or not is_ours(vmi):
        return Allow()
    case = Case(vmi, inputs)
    for reason, rule in chain:
        causes = tuple(rule(case))
        if causes:
            return refusal(request, reason, causes)
    return Allow()
