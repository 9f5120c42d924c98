"""What a VMI asks for in our annotations, and whose it says it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from shared.core.annotations import ClassEntry, Malformed, parse_claims, parse_classes, shown
from shared.errors import Cause
from shared.fields import Json, mapping, mappings, text
from shared.reasons import Reason, Words, say
from shared.vocabulary import (
    ANNOTATION_ATTACHMENTS,
    ANNOTATION_CLAIMS,
    ANNOTATION_CLASSES,
    ANNOTATION_LAUNCHER,
    ANNOTATION_PREFIX,
    KUBEVIRT_GROUP,
)

KNOWN: Final = frozenset(
    {ANNOTATION_CLASSES, ANNOTATION_CLAIMS, ANNOTATION_ATTACHMENTS, ANNOTATION_LAUNCHER}
)
"""The annotations under our prefix that a VMI can have; record and mark are admission's own."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Class entries and claims in the order of their annotations, and what cannot be read."""

    classes: tuple[ClassEntry, ...] = ()
    claims: tuple[str, ...] = ()
    malformed: tuple[Cause, ...] = ()

    @classmethod
    def of(cls, vmi: Json) -> Asked:
        """Read both annotations; one that is absent asks for nothing.

        A record or a mark that comes with an object asks for nothing either, and says that its
        owner expects GPUs: alone it is malformed.
        """
        annotations = annotations_of(vmi)
        wrong: list[Cause] = []
        classes: tuple[ClassEntry, ...] = ()
        claims: tuple[str, ...] = ()
        try:
            if ANNOTATION_CLASSES in annotations:
                classes = parse_classes(annotations[ANNOTATION_CLASSES])
        except Malformed as malformed:
            wrong += told(malformed)
        try:
            if ANNOTATION_CLAIMS in annotations:
                claims = parse_claims(annotations[ANNOTATION_CLAIMS])
        except Malformed as malformed:
            wrong += told(malformed)
        if not classes and not claims and not wrong:
            words = "no such annotation: admission alone writes it, and there is no class or claim"
            wrong += [
                malformed_cause(annotation_field(name), shown(annotations[name]), words)
                for name in (ANNOTATION_ATTACHMENTS, ANNOTATION_LAUNCHER)
                if name in annotations
            ]
        return cls(classes, claims, tuple(wrong))


def annotations_of(thing: Json) -> Json:
    """The annotations of an object."""
    return mapping(mapping(thing.get("metadata")).get("annotations"))


def is_ours(vmi: Json) -> bool:
    """Whether an object carries any annotation under our prefix, one that is misspelt too."""
    return any(_is_under_our_prefix(key) for key in annotations_of(vmi))


def unknown_annotations(vmi: Json) -> Iterator[Cause]:
    """Every annotation under our prefix that says nothing: its owner expects GPUs (6.1.1).

    When a VMI is judged nobody has checked the keys yet, so they are shown like values.
    """
    expected = f"{ANNOTATION_CLASSES} or {ANNOTATION_CLAIMS}"
    for key in sorted(annotations_of(vmi)):
        if _is_under_our_prefix(key) and key not in KNOWN:
            field = annotation_field(shown(key).replace('"', ""))
            yield malformed_cause(field, "not known", expected)


def _is_under_our_prefix(key: str) -> bool:
    """In any case: Kubernetes takes keys with capitals, and tells them apart."""
    return key.lower().startswith(ANNOTATION_PREFIX)


def annotation_field(annotation: str, place: str = "") -> str:
    """The path of an annotation, or of a place in it."""
    return f"metadata.annotations[{annotation}]{place}"


def malformed_cause(field: str, value: str, expected: str) -> Cause:
    """Something that cannot be read as it should."""
    words = Words(value=value, expected=expected)
    return Cause(Reason.MALFORMED, say(Reason.MALFORMED, words=words), field)


def told(malformed: Malformed) -> Iterator[Cause]:
    """Every fault of an annotation."""
    for fault in malformed.faults:
        field = annotation_field(malformed.annotation, fault.place)
        yield malformed_cause(field, fault.value, fault.expected)


@dataclass(frozen=True, slots=True)
class Controller:
    """The controlling owner that an object names; whoever makes an object writes it."""

    name: str = ""
    uid: str = ""


def controller_of(thing: Json, kind: str) -> Controller:
    """The controlling owner of a KubeVirt kind; empty where an object names none."""
    for reference in mappings(mapping(thing.get("metadata")).get("ownerReferences")):
        group = text(reference.get("apiVersion")).rpartition("/")[0]
        if (
            reference.get("controller") is True
            and group == KUBEVIRT_GROUP
            and reference.get("kind") == kind
        ):
            return Controller(text(reference.get("name")), text(reference.get("uid")))
    return Controller()
