"""The metadata of objects, with the bookkeeping of who wrote which field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from zlib import crc32

Field = dict[str, object]


def metadata(
    name: str,
    namespace: str = "",
    *,
    uid: str = "",
    created: str = "2026-03-01T10:00:00Z",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: Sequence[Field] = (),
    finalizers: Sequence[str] = (),
    fields: Sequence[Field] = (),
) -> Field:
    """An object's metadata; a uid is made from the name where none is given."""
    made: Field = {
        "name": name,
        "uid": uid or f"{crc32(f'{namespace}/{name}'.encode()):08x}-0000-4000-8000-000000000000",
        "resourceVersion": "1000",
        "generation": 1,
        "creationTimestamp": created,
        "managedFields": list(fields),
    }
    if namespace:
        made["namespace"] = namespace
    if labels:
        made["labels"] = labels
    if annotations:
        made["annotations"] = annotations
    if owners:
        made["ownerReferences"] = list(owners)
    if finalizers:
        made["finalizers"] = list(finalizers)
    return made


def owner(group_version: str, kind: str, name: str, uid: str) -> Field:
    """A reference to a controlling owner."""
    return {
        "apiVersion": group_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def written_by(manager: str, part: str, *names: str, rows: int = 3) -> list[Field]:
    """An entry of managedFields: for each name a few rows of fields below it."""
    below: Field = {
        f"f:{name}": {f"f:{name}-field-{row}": {".": {}, "f:name": {}} for row in range(rows)}
        for name in names
    }
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-03-01T10:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {f"f:{part}": below},
        }
    ]
