"""Envelopes around options: list, table, metadata only, events and bookmarks."""

import orjson
import pytest

from apiserver.entry import Entry, freshness
from apiserver.forms import PLAIN, Encoded, Form, Include, Shape, bookmark, event, many, one
from tests.api.pki import NOW
from tests.api.served import Json
from tests.api.source import Table, a_class

TABLE = Form(Shape.TABLE, "v1")
PARTIAL = Form(Shape.PARTIAL, "v1")


def encoded(name: str = "a100", version: int = 7) -> Encoded:
    table = Table("tenant-a")
    table.put(a_class(name, labels={"tier": "big"}))
    option = table.option("tenant-a", name)
    assert option is not None
    return Entry(option, version, version, version, version, freshness(None, NOW)).encoded


def read(body: bytes) -> Json:
    return orjson.loads(body)


def test_the_object_is_the_kind_itself() -> None:
    thing = read(one(encoded(), PLAIN, 7))

    assert (thing["kind"], thing["apiVersion"]) == (
        "GPUClassOption",
        "catalog.gpu.cozystack.io/v1alpha1",
    )
    assert thing["metadata"]["name"] == "a100"
    assert thing["metadata"]["namespace"] == "tenant-a"
    assert thing["metadata"]["resourceVersion"] == "7"
    assert thing["metadata"]["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert thing["metadata"]["labels"] == {"tier": "big"}


def test_check_71_the_uid_follows_from_class_and_namespace() -> None:
    assert read(one(encoded(), PLAIN, 7)) == read(one(encoded(), PLAIN, 7))
    uids = {read(encoded(name).metadata)["uid"] for name in ("a100", "l4")}
    assert len(uids) == 2


def test_check_61_the_kind_of_a_list_ends_with_list_and_items_are_never_null() -> None:
    assert read(many([], PLAIN, 9)) == {
        "kind": "GPUClassOptionList",
        "apiVersion": "catalog.gpu.cozystack.io/v1alpha1",
        "metadata": {"resourceVersion": "9"},
        "items": [],
    }
    two = read(many([encoded("a"), encoded("b")], PLAIN, 9))
    assert [item["metadata"]["name"] for item in two["items"]] == ["a", "b"]
    assert all(item["kind"] == "GPUClassOption" for item in two["items"])


def test_check_80_metadata_only_of_one_and_of_a_list() -> None:
    single = read(one(encoded(), PARTIAL, 7))
    assert (single["kind"], single["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert set(single) == {"kind", "apiVersion", "metadata"}
    assert single["metadata"] == read(encoded().object)["metadata"]

    both = read(many([encoded("a"), encoded("b")], PARTIAL, 9))
    assert (both["kind"], both["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert both["metadata"] == {"resourceVersion": "9"}
    assert [item["kind"] for item in both["items"]] == ["PartialObjectMetadata"] * 2


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_check_79_a_table_has_columns_rows_and_a_version(version: str) -> None:
    table = read(many([encoded("a"), encoded("b")], Form(Shape.TABLE, version), 9))

    assert (table["kind"], table["apiVersion"]) == ("Table", f"meta.k8s.io/{version}")
    assert table["metadata"] == {"resourceVersion": "9"}
    name, *rest = table["columnDefinitions"]
    assert name == {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": name["description"],
        "priority": 0,
    }
    assert [column["name"] for column in rest if column["priority"] == 0] == [
        "Mode",
        "Memory",
        "Free",
        "Largest",
        "Budget",
        "Orderable",
        "Selectable",
        "Reason",
    ]
    assert [row["cells"][0] for row in table["rows"]] == ["a", "b"]
    assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])
    assert table["rows"][0]["cells"][3] == 4  # a number, not a text


@pytest.mark.parametrize(
    ("include", "kind"),
    [
        (Include.METADATA, "PartialObjectMetadata"),
        (Include.OBJECT, "GPUClassOption"),
        (Include.NONE, None),
    ],
)
def test_check_79_a_row_carries_what_was_asked_for(include: Include, kind: str | None) -> None:
    table = read(one(encoded(), Form(Shape.TABLE, "v1", include), 7))

    carried = table["rows"][0]["object"]
    assert (carried and carried["kind"]) == kind
    if carried:
        assert carried["metadata"]["name"] == "a100"


def test_check_81_only_the_first_table_of_a_stream_defines_its_columns() -> None:
    first = read(event(b"ADDED", encoded(), TABLE, 7, first=True))
    second = read(event(b"MODIFIED", encoded(), TABLE, 8, first=False))

    assert (first["type"], second["type"]) == ("ADDED", "MODIFIED")
    assert len(first["object"]["columnDefinitions"]) == 14
    assert second["object"]["columnDefinitions"] is None
    assert len(second["object"]["rows"]) == 1


def test_an_event_is_one_line() -> None:
    line = event(b"DELETED", encoded(), PLAIN, 7, first=False)

    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert read(line)["object"] == read(encoded().object)


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        (PLAIN, "GPUClassOption"),
        (PARTIAL, "PartialObjectMetadata"),
    ],
)
def test_check_88_a_bookmark_says_how_far_and_nothing_else(form: Form, kind: str) -> None:
    told = read(bookmark(form, 9, first=False))

    assert told["type"] == "BOOKMARK"
    assert told["object"]["kind"] == kind
    assert told["object"]["metadata"] == {"resourceVersion": "9"}


def test_check_81_the_row_of_a_bookmark_has_metadata_even_where_none_is_wanted() -> None:
    told = read(bookmark(Form(Shape.TABLE, "v1", Include.NONE), 9, first=False))

    (row,) = told["object"]["rows"]
    assert row["object"]["metadata"] == {"resourceVersion": "9"}
    assert len(row["cells"]) == 14
