"""How a VM asks for GPUs, and the record of what was admitted (rules 6.1.1 and 6.1.3).

The two annotations are written by tenants: anything that two readers could read differently is
refused, so that a VM never starts with other GPUs than its owner meant. The record is written by
our webhook alone; it is parsed as strictly, and has one form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from shared.core.model import RecordEntry
from shared.fields import name, text, whole
from shared.vocabulary import (
    ANNOTATION_ATTACHMENTS,
    ANNOTATION_CLAIMS,
    ANNOTATION_CLASSES,
    LIMIT_UNITS,
)

LENGTH_MAX: Final = 16 * 1024
"""Characters of an annotation that asks. 32 names of the longest sort fit more than once."""

RECORD_LENGTH_MAX: Final = 256 * 1024
"""All annotations of an object together may be no longer (apimachinery, validation)."""

FAULTS_MAX: Final = 8
"""So many faults are told at once."""

T = TypeVar("T")

_SHOWN_MAX: Final = 60
_DIGITS_MAX: Final = 18
_CLASS_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CLAIM_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)

_A_COUNT: Final = f"a whole number from 1 to {LIMIT_UNITS}"
_A_CLASS: Final = (
    'the name of a class: at most 63 lower-case letters, digits or "-", such as "a100-80g"'
)
_A_CLAIM: Final = (
    'the name of a claim: at most 253 lower-case letters, digits, "-" or ".", such as "train-1"'
)
_CLASSES: Final = 'a JSON array such as [{"className": "a100", "count": 2}]'
_CLAIMS: Final = 'a JSON array of names of claims such as ["train-1"]'
_RECORD: Final = "a JSON array as admission writes it"


@dataclass(frozen=True, slots=True)
class ClassEntry:
    """So many units of a class, on one VM. Its index is its place in the annotation."""

    class_name: str
    count: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in one place of an annotation.

    `place` is a path from the annotation's value, such as `[0].count`, empty for the whole of
    it; `value` is what stands there, escaped and cut.
    """

    place: str
    value: str
    expected: str


class Malformed(Exception):
    """An annotation that cannot be read in one way only. `faults` are at most FAULTS_MAX."""

    def __init__(self, annotation: str, faults: Sequence[Fault]) -> None:
        self.annotation = annotation
        self.faults = tuple(faults[:FAULTS_MAX])
        super().__init__(
            "; ".join(
                f"metadata.annotations[{annotation}]{fault.place}: {fault.value}, "
                f"expected {fault.expected}"
                for fault in self.faults
            )
        )


def parse_classes(value: object) -> tuple[ClassEntry, ...]:
    """The class entries of a VM, in the order of the annotation.

    One class may stand in several entries. How many units and entries there may be is another
    question (rule 6.1.1, reason TooManyUnits).

    Raises:
        Malformed: it is anything but a non-empty array of `{"className": name, "count": n}`.
    """
    return _read(value, ANNOTATION_CLASSES, _CLASSES, _class_entry, LENGTH_MAX)


def parse_claims(value: object) -> tuple[str, ...]:
    """The names of the claims that a VM uses, in the order of the annotation.

    Raises:
        Malformed: it is anything but a non-empty array of different names.
    """
    names: set[str] = set()

    def claim(element: object, place: str) -> str | list[Fault]:
        if not isinstance(element, str) or not _CLAIM_NAME.fullmatch(element):
            return [Fault(place, shown(element), _A_CLAIM)]
        if element in names:
            return [Fault(place, shown(element), "each claim once")]
        names.add(element)
        return element

    return _read(value, ANNOTATION_CLAIMS, _CLAIMS, claim, LENGTH_MAX)


def parse_record(value: object) -> tuple[RecordEntry, ...]:
    """The record of admission, as `render_record` writes it.

    Raises:
        Malformed: it is anything else. Nobody but our webhook writes one, so that anything
            unusual is a forgery.
    """
    entries = _read(value, ANNOTATION_ATTACHMENTS, _RECORD, _record_entry, RECORD_LENGTH_MAX)
    keys = [_order(entry) for entry in entries]
    units = sum(entry.count for entry in entries)
    if keys != sorted(set(keys)) or units > LIMIT_UNITS:
        expected = (
            f"claims by name, then entries by index, each once, at most {LIMIT_UNITS} units in all"
        )
        raise Malformed(ANNOTATION_ATTACHMENTS, [Fault("", shown(value), expected)])
    return entries


def render_record(entries: Sequence[RecordEntry]) -> str:
    """The one text that stands for these entries, in whatever order they come."""
    return _ENCODER.encode(
        [
            ({"claim": entry.claim} if entry.claim else {"entry": entry.entry})
            | {
                "className": entry.class_name,
                "resourceName": entry.resource_name,
                "count": entry.count,
            }
            for entry in in_order(entries)
        ]
    )


def in_order(entries: Sequence[RecordEntry]) -> tuple[RecordEntry, ...]:
    """Entries as a record has them: claims by name, then class entries by index."""
    return tuple(sorted(entries, key=_order))


def _order(entry: RecordEntry) -> tuple[bool, str, int]:
    return (not entry.claim, entry.claim, entry.entry)


@dataclass(frozen=True, slots=True)
class _NoInteger:
    """A number in JSON that is no integer of bearable length; `text` as it stands there."""

    text: str


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A JSON object in which a key stands twice: readers differ on which value counts."""

    key: str


def _read(
    value: object,
    annotation: str,
    expected: str,
    element: Callable[[object, str], T | list[Fault]],
    length_max: int,
) -> tuple[T, ...]:
    """The elements of an array, each read by `element`; raises Malformed with every fault."""
    faults: list[Fault] = []
    found: list[T] = []
    for index, each in enumerate(_array(value, annotation, expected, length_max)):
        outcome = element(each, f"[{index}]")
        if isinstance(outcome, list):
            faults += outcome
        else:
            found.append(outcome)
    if faults:
        raise Malformed(annotation, faults)
    return tuple(found)


def _array(value: object, annotation: str, expected: str, length_max: int) -> list[object]:
    if not isinstance(value, str):
        raise Malformed(annotation, [Fault("", shown(value), expected)])
    # Before it is parsed: what is too long is not worth the time.
    if len(value) > length_max:
        told = Fault("", f"{len(value)} characters", f"at most {length_max}")
        raise Malformed(annotation, [told])
    try:
        parsed: object = _DECODER.decode(value)
    except json.JSONDecodeError as error:
        told = Fault("", f"{shown(value)} ({error.msg} at character {error.pos})", expected)
        raise Malformed(annotation, [told]) from None
    except RecursionError:
        told = Fault("", f"{shown(value)} (nested too deeply)", expected)
        raise Malformed(annotation, [told]) from None
    if not isinstance(parsed, list):
        raise Malformed(annotation, [Fault("", shown(parsed), expected)])
    if not parsed:
        told = Fault("", "an empty array", f"{expected}, or no such annotation")
        raise Malformed(annotation, [told])
    return parsed


def _object(pairs: list[tuple[str, object]]) -> object:
    made: dict[str, object] = {}
    for key, value in pairs:
        if key in made:
            return _Repeated(key)
        made[key] = value
    return made


def _integer(text: str) -> object:
    # Python's integers have no end, and those of many digits take their time.
    return int(text) if len(text) <= _DIGITS_MAX else _NoInteger(text)


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_NoInteger,
    parse_constant=_NoInteger,
)


def _class_entry(element: object, place: str) -> ClassEntry | list[Fault]:
    members = _members(element, place, ("className", "count"))
    if isinstance(members, list):
        return members
    class_name, count = members["className"], members["count"]
    faults = []
    if not isinstance(class_name, str) or not _CLASS_NAME.fullmatch(class_name):
        faults.append(Fault(f"{place}.className", shown(class_name), _A_CLASS))
    units = whole(count)
    if units is None or units < 1:
        faults.append(Fault(f"{place}.count", shown(count), _A_COUNT))
    return faults or ClassEntry(text(class_name), units or 0)


def _record_entry(element: object, place: str) -> RecordEntry | list[Fault]:
    kind = "claim" if isinstance(element, dict) and "claim" in element else "entry"
    members = _members(element, place, (kind, "className", "resourceName", "count"))
    if isinstance(members, list):
        return members
    index, units = whole(members.get("entry")), whole(members["count"])
    entry = RecordEntry(
        claim=text(members.get("claim")),
        entry=-1 if index is None else index,
        class_name=name(members["className"]),
        resource_name=name(members["resourceName"]),
        count=units or 0,
    )
    named = bool(entry.claim) if kind == "claim" else entry.entry >= 0
    checks = (
        (kind, named, "the name of a claim" if kind == "claim" else "an index from 0"),
        ("className", entry.class_name, _A_CLASS),
        ("resourceName", entry.resource_name, "the name of a resource"),
        ("count", 1 <= entry.count <= LIMIT_UNITS, _A_COUNT),
    )
    faults = [
        Fault(f"{place}.{key}", shown(members[key]), expected)
        for key, holds, expected in checks
        if not holds
    ]
    return faults or entry


def _members(
    element: object, place: str, keys: tuple[str, ...]
) -> Mapping[str, object] | list[Fault]:
    """The members of an object that has each of these keys, once, and no other."""
    expected = f"an object with the keys {', '.join(keys)}, each once"
    if isinstance(element, _Repeated):
        return [Fault(place, f"the key {shown(element.key)} twice", expected)]
    if not isinstance(element, dict):
        return [Fault(place, shown(element), expected)]
    wrong = [f"the key {shown(key)}" for key in sorted(element.keys() - keys)]
    wrong += [f"no key {shown(key)}" for key in keys if key not in element]
    if wrong:
        return [Fault(place, ", ".join(wrong[:FAULTS_MAX]), expected)]
    return element


def shown(value: object) -> str:
    """A value for people: ASCII whatever it holds, so that nothing in it hides, and cut."""
    match value:
        case _NoInteger():
            told = value.text
        case dict() | _Repeated():
            return "an object"
        case list():
            return "an array"
        case _:
            told = json.dumps(value)
    return told if len(told) <= _SHOWN_MAX else f"{told[:_SHOWN_MAX]}..."
