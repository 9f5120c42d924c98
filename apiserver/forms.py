"""The forms in which options are served: object, metadata only, and row of a table; as bytes.

Each option is encoded once per version; what a request adds is an envelope around ready bytes.
Shapes: "Receiving resources as Tables" and "Metadata-only fetches" (Kubernetes API concepts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from shared.api.gpuclassoption import COLUMNS, from_option, row
from shared.vocabulary import CATALOG_GROUP_VERSION, KIND_OPTION

if TYPE_CHECKING:
    from shared.api.conditions import Condition
    from shared.core.options import Option

META_GROUP: Final = "meta.k8s.io"
KIND_LIST: Final = f"{KIND_OPTION}List"


class Shape(StrEnum):
    """What is made of an object or a list."""

    PLAIN = "plain"
    TABLE = "Table"
    PARTIAL = "PartialObjectMetadata"


class Include(StrEnum):
    """What a table's row carries of its object (`?includeObject=`)."""

    METADATA = "Metadata"
    NONE = "None"
    OBJECT = "Object"


@dataclass(frozen=True, slots=True)
class Form:
    """A shape; `version` is that of the group meta.k8s.io, and empty for the plain object."""

    shape: Shape = Shape.PLAIN
    version: str = ""
    include: Include = Include.METADATA


PLAIN: Final = Form()


class Encoded(NamedTuple):
    """One option at one version: JSON of the object, of its metadata and of its row's cells."""

    object: bytes
    metadata: bytes
    cells: bytes


def encode(
    option: Option, *, version: int, observed_time: str, since: str, fresh: Condition
) -> Encoded:
    """Encode one option; the arguments are those of `from_option`."""
    served = from_option(
        option,
        resource_version=str(version),
        observed_time=observed_time,
        last_transition_time=since,
        fresh=fresh,
    )
    return Encoded(
        served.model_dump_json(exclude_none=True).encode(),
        served.metadata.model_dump_json(exclude_none=True).encode(),
        orjson.dumps(row(served)),
    )


def one(encoded: Encoded, form: Form, version: int) -> bytes:
    """A single object in a form."""
    match form.shape:
        case Shape.PLAIN:
            return encoded.object
        case Shape.PARTIAL:
            return _partial(encoded, form)
        case Shape.TABLE:
            return _table([encoded], form, version, columns=_COLUMNS)


def many(encoded: Iterable[Encoded], form: Form, version: int) -> bytes:
    """A list in a form; `version` is the list's own."""
    match form.shape:
        case Shape.PLAIN:
            items = b",".join([each.object for each in encoded])
            return b"%s%d%s%s%s" % (_LIST_HEAD, version, _LIST_MIDDLE, items, b"]}")
        case Shape.PARTIAL:
            items = b",".join([_partial(each, form) for each in encoded])
            head = _envelope("PartialObjectMetadataList", form.version)
            return b"%s%d%s%s%s" % (head, version, _LIST_MIDDLE, items, b"]}")
        case Shape.TABLE:
            return _table(encoded, form, version, columns=_COLUMNS)


def event(kind: bytes, encoded: Encoded, form: Form, version: int, *, first: bool) -> bytes:
    """One line of a watch. Only the first table of a stream defines its columns."""
    if form.shape is Shape.TABLE:
        thing = _table([encoded], form, version, columns=_COLUMNS if first else b"null")
    else:
        thing = one(encoded, form, version)
    return b'{"type":"%s","object":%s}\n' % (kind, thing)


def bookmark(form: Form, version: int, *, first: bool) -> bytes:
    """A line that says only how far the watch has come; in a table its row has metadata too."""
    return b'{"type":"BOOKMARK","object":%s}\n' % _mark(form, version, first=first)


def error(status: Mapping[str, object]) -> bytes:
    """A line that says why the watch ends: a Status, whatever form its events have."""
    return b'{"type":"ERROR","object":%s}\n' % orjson.dumps(status)


def _mark(form: Form, version: int, *, first: bool) -> bytes:
    metadata = b'{"resourceVersion":"%d"}' % version
    match form.shape:
        case Shape.PLAIN:
            return b'{"kind":"%s","apiVersion":"%s","metadata":%s}' % (
                KIND_OPTION.encode(),
                CATALOG_GROUP_VERSION.encode(),
                metadata,
            )
        case Shape.PARTIAL:
            return _partial(Encoded(b"", metadata, b""), form)
        case Shape.TABLE:
            carrier = Form(form.shape, form.version, Include.METADATA)
            blank = Encoded(b"", metadata, _BLANK_CELLS)
            columns = _COLUMNS if first else b"null"
            return _table([blank], carrier, version, columns=columns)


def _envelope(kind: str, version: str) -> bytes:
    return (
        f'{{"kind":"{kind}","apiVersion":"{META_GROUP}/{version}","metadata":{{"resourceVersion":"'
    ).encode()


_LIST_HEAD: Final = (
    f'{{"kind":"{KIND_LIST}","apiVersion":"{CATALOG_GROUP_VERSION}",'
    '"metadata":{"resourceVersion":"'
).encode()
_LIST_MIDDLE: Final = b'"},"items":['

_COLUMNS: Final = orjson.dumps(
    [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in COLUMNS
    ]
)

_BLANK_CELLS: Final = orjson.dumps([""] * len(COLUMNS))


def _partial(encoded: Encoded, form: Form) -> bytes:
    return b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":%s}' % (
        form.version.encode(),
        encoded.metadata,
    )


def _table(encoded: Iterable[Encoded], form: Form, version: int, *, columns: bytes) -> bytes:
    rows = b",".join([_row(each, form) for each in encoded])
    return b'%s%d"},"columnDefinitions":%s,"rows":[%s]}' % (
        _envelope("Table", form.version),
        version,
        columns,
        rows,
    )


def _row(encoded: Encoded, form: Form) -> bytes:
    return b'{"cells":%s,"object":%s}' % (encoded.cells, _carried(encoded, form))


def _carried(encoded: Encoded, form: Form) -> bytes:
    match form.include:
        case Include.METADATA:
            return _partial(encoded, form)
        case Include.OBJECT:
            return encoded.object
        case Include.NONE:
            return b"null"
