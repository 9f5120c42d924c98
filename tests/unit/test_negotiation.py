"""What the client accepts (checks 75 and 77 to 80)."""

import pytest

from apiserver.forms import Form, Include, Shape
from apiserver.negotiation import (
    Accepted,
    Endpoint,
    Media,
    accepted,
    accepts_gzip,
    clauses,
    negotiate,
)
from shared.errors import BadRequest, NotAcceptable

PLAIN = Form()
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TABLE_BETA = "application/json;as=Table;v=v1beta1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize(
    ("header", "form", "media"),
    [
        ("", PLAIN, Media.JSON),
        ("*/*", PLAIN, Media.JSON),
        ("application/*", PLAIN, Media.JSON),
        ("application/json", PLAIN, Media.JSON),
        ("APPLICATION/JSON", PLAIN, Media.JSON),
        ("application/json; charset=utf-8", PLAIN, Media.JSON),
        ("application/yaml", PLAIN, Media.YAML),
        ("application/yaml;q=0.5, application/json;q=0.4", PLAIN, Media.YAML),
        ("application/yaml;q=0.4, application/json", PLAIN, Media.JSON),
        ("application/json;q=0, application/yaml", PLAIN, Media.YAML),
        (f"{PROTOBUF},application/json", PLAIN, Media.JSON),
        (TABLE, Form(Shape.TABLE, "v1"), Media.JSON),
        (TABLE_BETA, Form(Shape.TABLE, "v1beta1"), Media.JSON),
        (f"{TABLE},{TABLE_BETA},application/json", Form(Shape.TABLE, "v1"), Media.JSON),
        (
            "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
            PLAIN,
            Media.JSON,
        ),
        ("application/json;as=Table;v=v1;g=other,application/yaml", PLAIN, Media.YAML),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Form(Shape.TABLE, "v1"), Media.YAML),
        (PARTIAL_LIST, Form(Shape.PARTIAL, "v1"), Media.JSON),
        (f"{PARTIAL},{PARTIAL_LIST}", Form(Shape.PARTIAL, "v1"), Media.JSON),
        ('application/json;as="Table";v="v1";g="meta.k8s.io"', Form(Shape.TABLE, "v1"), Media.JSON),
    ],
)
def test_check_77_a_list_is_served_in_the_first_form_that_there_is(
    header: str, form: Form, media: Media
) -> None:
    assert negotiate(header, Endpoint.LIST) == Accepted(form, media)


@pytest.mark.parametrize(
    ("header", "endpoint"),
    [
        pytest.param(PROTOBUF, Endpoint.LIST, id="check 78: protobuf only"),
        pytest.param("application/cbor", Endpoint.LIST, id="check 78: CBOR only"),
        pytest.param("text/html", Endpoint.OBJECT, id="HTML"),
        pytest.param(PARTIAL, Endpoint.LIST, id="check 80: metadata of one, of a list"),
        pytest.param(PARTIAL_LIST, Endpoint.OBJECT, id="check 80: metadata of a list, of one"),
        pytest.param(PARTIAL_LIST, Endpoint.WATCH, id="check 80: metadata of a list, of a watch"),
        pytest.param("application/yaml", Endpoint.WATCH, id="a watch in YAML"),
        pytest.param("application/json;stream=watch", Endpoint.LIST, id="a list as a stream"),
        pytest.param("application/json;sv=v1", Endpoint.LIST, id="a server version"),
        pytest.param("application/json;q=0", Endpoint.LIST, id="all refused"),
    ],
)
def test_what_cannot_be_served_is_not_acceptable(header: str, endpoint: Endpoint) -> None:
    with pytest.raises(NotAcceptable, match="only the following media types are accepted"):
        negotiate(header, endpoint)


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("application/json;stream=watch", PLAIN),
        (PARTIAL, Form(Shape.PARTIAL, "v1")),
        (TABLE, Form(Shape.TABLE, "v1")),
    ],
)
def test_a_watch_is_served_as_plain_objects_metadata_and_tables(header: str, form: Form) -> None:
    assert negotiate(header, Endpoint.WATCH) == Accepted(form, Media.JSON)


@pytest.mark.parametrize(
    ("asked", "include"),
    [("", Include.METADATA), ("Metadata", Include.METADATA), ("None", Include.NONE)],
)
def test_check_79_what_a_row_carries_can_be_chosen(asked: str, include: Include) -> None:
    got = accepted(TABLE, Endpoint.LIST, {"includeObject": asked}, "")

    assert got.form == Form(Shape.TABLE, "v1", include)


def test_check_79_an_unknown_choice_is_a_bad_request_only_where_it_matters() -> None:
    with pytest.raises(BadRequest, match="includeObject"):
        accepted(TABLE, Endpoint.LIST, {"includeObject": "Some"}, "")
    assert accepted("", Endpoint.LIST, {"includeObject": "Some"}, "").form == PLAIN


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ({}, "kubectl/v1.36", False),
        ({}, "curl/8.0", True),
        ({}, "Wget/1", True),
        ({}, "Mozilla/5.0 (X11)", True),
        ({"pretty": "true"}, "", True),
        ({"pretty": "1"}, "", True),
        ({"pretty": "false"}, "curl/8.0", False),
        ({"pretty": ""}, "", False),
    ],
)
def test_check_75_people_get_it_indented(query: dict[str, str], agent: str, pretty: bool) -> None:
    assert accepted("", Endpoint.LIST, query, agent).pretty is pretty


def test_indentation_can_be_asked_for_in_the_media_type() -> None:
    assert negotiate("application/json;pretty=1", Endpoint.LIST).pretty


@pytest.mark.parametrize(
    ("header", "wanted"),
    [("gzip", True), ("deflate, gzip;q=0.5", True), ("gzip;q=0", False), ("identity", False)],
)
def test_gzip_is_used_where_it_is_taken(header: str, wanted: bool) -> None:
    assert accepts_gzip(header) is wanted
    assert not accepts_gzip("")


def test_only_short_headers_are_kept_in_memory() -> None:
    common = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

    assert clauses(common) is clauses(common)
    assert clauses("a," * 200) is not clauses("a," * 200)
