"""What an admitted VM gets: one entry under `gpus` per unit, and the record (rule 6.1.3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from admission.devices import device_list
from shared.core.annotations import ClassEntry, in_order
from shared.core.coverage import resource_of
from shared.core.model import Claim, GpuClass, RecordEntry
from shared.fields import Json, mapping


def record_of(
    claims: Sequence[Claim], entries: Sequence[ClassEntry], classes: Mapping[str, GpuClass]
) -> tuple[RecordEntry, ...]:
    """The record of a VM with these claims and class entries, in its order.

    A claim that is bound keeps the resource it was bound with. What names no class that exists
    is left out.
    """
    record = [
        RecordEntry(
            claim=claim.name,
            class_name=claim.class_name,
            resource_name=resource_of(claim, classes),
            count=claim.count,
        )
        for claim in claims
    ]
    record += [
        RecordEntry(
            entry=index,
            class_name=entry.class_name,
            resource_name=classes[entry.class_name].resource_name,
            count=entry.count,
        )
        for index, entry in enumerate(entries)
        if entry.class_name in classes
    ]
    return in_order([entry for entry in record if entry.resource_name])


def units(record: Sequence[RecordEntry], taken: Collection[str]) -> list[dict[str, object]]:
    """The entries for a record: in its order, a unit each.

    The names say which claim or class entry a unit is of, and which of its units. They are
    part of libvirt's aliases, so that they hold neither dots nor slashes, and they differ from
    all names that are taken.
    """
    made: list[dict[str, object]] = []
    claims = 0
    for entry in record:
        if entry.claim:
            prefix = f"claim-{claims}"
            claims += 1
        else:
            prefix = f"class-{entry.entry}"
        for unit in range(entry.count):
            name = f"{prefix}-{unit}"
            while name in taken:
                name += "x"
            made.append({"name": name, "deviceName": entry.resource_name})
    return made


def are(vmi: Json, expected: Sequence[Json]) -> bool:
    """Whether the entries under `gpus` are exactly these, whatever else is said of each.

    An entry that asks by a device claim is none of ours.
    """
    found = device_list(vmi, "gpus")
    return len(found) == len(expected) and all(
        mapping(one).get("name") == other["name"]
        and mapping(one).get("deviceName") == other["deviceName"]
        and not mapping(one).get("claimName")
        and not mapping(one).get("requestName")
        for one, other in zip(found, expected, strict=True)
    )
