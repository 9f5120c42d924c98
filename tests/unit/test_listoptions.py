"""The query of lists and watches: the matrix of the API concepts (checks 66 to 68 and 76)."""

import pytest

from apiserver.listoptions import ListOptions, check_name, list_options
from apiserver.requestinfo import RequestInfo
from apiserver.selectors import selector
from apiserver.versions import parse_version
from shared.errors import BadRequest, Expired, Invalid

NOT_OLDER = {"resourceVersionMatch": "NotOlderThan"}
EXACT = {"resourceVersionMatch": "Exact"}


def asked(verb: str, query: dict[str, str]) -> ListOptions:
    info = RequestInfo(
        verb,
        "/",
        resource="gpuclassoptions",
        field_selector=query.get("fieldSelector", ""),
        label_selector=query.get("labelSelector", ""),
    )
    return list_options(info, query)


@pytest.mark.parametrize(
    ("verb", "query", "wanted"),
    [
        ("list", {}, ListOptions()),
        ("list", {"limit": "500"}, ListOptions()),
        ("list", {"resourceVersion": ""}, ListOptions()),
        ("list", {"resourceVersion": "0"}, ListOptions(version=0)),
        ("list", {"resourceVersion": "7"} | NOT_OLDER, ListOptions(version=7)),
        ("list", {"resourceVersion": "0"} | NOT_OLDER, ListOptions(version=0)),
        ("list", {"resourceVersion": "7"} | EXACT, ListOptions(version=7, exact=True)),
        ("watch", {"resourceVersion": "7"}, ListOptions(version=7)),
        ("watch", {"timeoutSeconds": "30"}, ListOptions(seconds=30)),
        ("watch", {"timeoutSeconds": "0"}, ListOptions()),
        ("watch", {"allowWatchBookmarks": "true"}, ListOptions(bookmarks=True)),
        ("list", {"unknown": "x", "export": "false"}, ListOptions()),
        ("list", {"labelSelector": "a=b"}, ListOptions(selector=selector("", "a=b"))),
    ],
)
def test_what_may_be_asked(verb: str, query: dict[str, str], wanted: ListOptions) -> None:
    assert asked(verb, query) == wanted


@pytest.mark.parametrize(
    ("verb", "query", "fields"),
    [
        ("list", NOT_OLDER, ["resourceVersionMatch"]),
        ("list", {"resourceVersion": "7", "continue": "x"} | EXACT, ["resourceVersionMatch"]),
        ("list", {"resourceVersion": "0"} | EXACT, ["resourceVersionMatch"]),
        (
            "list",
            {"resourceVersion": "7", "resourceVersionMatch": "Newest"},
            ["resourceVersionMatch"],
        ),
        ("list", {"sendInitialEvents": "true"}, ["sendInitialEvents"]),
        ("list", {"sendInitialEvents": "false"}, ["sendInitialEvents"]),
        ("watch", {"resourceVersion": "7"} | NOT_OLDER, ["resourceVersionMatch"]),
        ("watch", {"resourceVersion": "7"} | EXACT, ["resourceVersionMatch"] * 2),
        ("watch", {"sendInitialEvents": "true"}, ["resourceVersionMatch", "sendInitialEvents"]),
        ("watch", {"sendInitialEvents": "true"} | NOT_OLDER, ["sendInitialEvents"]),
        (
            "watch",
            {"sendInitialEvents": "true", "continue": "x"} | NOT_OLDER,
            ["sendInitialEvents", "resourceVersionMatch"],
        ),
    ],
)
def test_check_66_what_contradicts_itself_is_invalid_with_the_fields_at_fault(
    verb: str, query: dict[str, str], fields: list[str]
) -> None:
    with pytest.raises(Invalid, match=r"^ListOptions.meta.k8s.io \"\" is invalid: ") as caught:
        asked(verb, query)

    assert [cause.field for cause in caught.value.causes] == fields


def test_check_66_the_causes_are_worded_as_in_kubernetes() -> None:
    with pytest.raises(Invalid) as caught:
        asked("list", NOT_OLDER)

    assert caught.value.to_status()["details"] == {
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [
            {
                "reason": "FieldValueForbidden",
                "message": "Forbidden: resourceVersionMatch is forbidden unless resourceVersion "
                "is provided",
                "field": "resourceVersionMatch",
            }
        ],
    }


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "abc"},
        {"limit": ""},
        {"timeoutSeconds": "1.5"},
        {"timeoutSeconds": "१"},
        {"resourceVersion": "abc"},
        {"resourceVersion": "-1"},
        {"resourceVersion": "007"},
        {"resourceVersion": "७"},
        {"fieldSelector": "spec.mode=x"},
        {"labelSelector": "a=b=c"},
        {"export": "true"},
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", ["list", "watch"])
def test_check_66_what_cannot_be_read_is_a_bad_request(verb: str, query: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        asked(verb, query)


def test_check_67_a_token_to_continue_with_is_expired() -> None:
    with pytest.raises(Expired):
        asked("list", {"continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ", "limit": "500"})


def test_a_version_of_any_length_can_be_read() -> None:
    assert parse_version("1" * 5000) > 10**18  # type: ignore[operator] # not None here
    assert parse_version("") is None
    assert parse_version("0") == 0


@pytest.mark.parametrize(
    ("field_selector", "fine"),
    [
        ("", True),
        ("metadata.name=a100", True),
        ("metadata.name=other", False),
        ("metadata.name!=a100", False),
        ("metadata.namespace=any", True),
    ],
)
def test_a_selected_name_must_be_the_one_in_the_path(field_selector: str, fine: bool) -> None:
    info = RequestInfo("get", "/", name="a100", path_name="a100")

    if fine:
        check_name(info, field_selector)
    else:
        with pytest.raises(BadRequest):
            check_name(info, field_selector)
