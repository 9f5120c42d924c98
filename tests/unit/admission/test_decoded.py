"""Lists that are read again and again: only what has changed is decoded, and nothing is missed."""

from __future__ import annotations

import json

import pytest

from admission.decoded import Listed
from shared.fields import Json
from tests.unit.scripted_api import Raw


class Reading:
    """Reads the word of an object, "bad" is none; remembers which it was given."""

    def __init__(self) -> None:
        self.given: list[object] = []

    def __call__(self, raw: Json) -> str | None:
        word = raw["word"]
        self.given.append(word)
        return None if word == "bad" else str(word)


def thing(word: str, uid: str, version: int = 1) -> Raw:
    return {"metadata": {"uid": uid, "resourceVersion": f"{version}"}, "word": word}


def listed(*things: Raw, version: int = 10) -> bytes:
    """A list of custom resources, with its keys in kube-apiserver's order."""
    metadata = {"continue": "", "resourceVersion": f"{version}"}
    made = {"apiVersion": "v1", "items": things, "kind": "L", "metadata": metadata}
    return json.dumps(made, separators=(",", ":")).encode() + b"\n"


def test_a_list_is_decoded_once_for_as_long_as_its_objects_stay_whatever_else_is_written() -> None:
    reading = Reading()
    words = Listed(reading)
    for version in (10, 11, 12):
        assert words.of(listed(thing("a", "1"), thing("b", "2"), version=version)) == ["a", "b"]
    assert reading.given == ["a", "b"]


def test_of_a_list_that_changed_what_changed_is_decoded() -> None:
    reading = Reading()
    words = Listed(reading)
    words.of(listed(thing("a", "1"), thing("b", "2"), thing("c", "3")))
    changed = listed(thing("b", "2"), thing("C", "3", version=11), thing("d", "4"), version=11)
    assert words.of(changed) == ["b", "C", "d"]
    assert reading.given == ["a", "b", "c", "C", "d"]


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(thing("new", "2", version=5), id="deleted and made anew"),
        pytest.param(thing("new", "1", version=5), id="changed"),
        pytest.param(thing("new", "1"), id="served in another form under the same version"),
    ],
)
def test_an_object_that_is_not_as_it_was_never_keeps_its_value(again: Raw) -> None:
    words = Listed(Reading())
    assert words.of(listed(thing("old", "1"))) == ["old"]
    assert words.of(listed(again)) == ["new"]


def test_what_cannot_be_decoded_is_left_out_until_it_can() -> None:
    words = Listed(Reading())
    assert words.of(listed(thing("a", "1"), thing("bad", "2"))) == ["a"]
    assert words.of(listed(thing("bad", "1", version=2), thing("bad", "2"), version=11)) == []
    assert words.of(listed(thing("a", "1"), thing("b", "2", version=3), version=12)) == ["a", "b"]


def test_no_more_is_kept_than_the_last_list_had() -> None:
    reading = Reading()
    words = Listed(reading)
    words.of(listed(thing("a", "1"), thing("b", "2")))
    words.of(listed(thing("b", "2"), version=11))
    words.of(listed(thing("a", "1"), thing("b", "2"), version=12))
    assert reading.given == ["a", "b", "a"]


def test_objects_without_a_uid_are_told_apart_all_the_same() -> None:
    words = Listed(Reading())
    assert words.of(listed({"word": "a"}, {"word": "b"})) == ["a", "b"]
    assert words.of(listed({"word": "b"}, {"word": "c"}, {"word": "b"})) == ["b", "c", "b"]


@pytest.mark.parametrize(
    "form",
    [
        pytest.param('{{"items":[{{"word":"{}"}}]}}', id="no metadata"),
        pytest.param(
            '{{"metadata":{{"resourceVersion":"1"}},"items":[{{"word":"{}"}}]}}', id="first"
        ),
        pytest.param(
            '{{"items":[{{"metadata":{{"resourceVersion":"1"}},"word":"{}"}}]}}', id="of an object"
        ),
        pytest.param(
            '{{"items":[{{"metadata":{{"resourceVersion":"1"}}}},{{"word":"{}"}}]}}',
            id="of another object",
        ),
        pytest.param(
            '{{"metadata": {{"resourceVersion":"1"}}, "items": [ {{"word" : "{}"}} ]}}', id="spaced"
        ),
    ],
)
def test_a_list_of_any_form_is_read_as_it_is(form: str) -> None:
    words = Listed(lambda raw: raw.get("word"))
    for word in ("a", "b"):
        assert words.of(form.format(word).encode()) == [word]


def test_a_list_that_begins_as_the_last_one_and_goes_on_differently_is_read() -> None:
    words = Listed(Reading())
    body = listed(thing("a", "1"))
    assert words.of(body) == ["a"]
    begin = body[: body.rindex(b'"metadata"')]
    assert words.of(begin + b'"items":[{"word":"b"}]}') == ["b"]


def test_a_list_that_is_empty_has_nothing_and_what_is_no_json_is_an_error() -> None:
    words = Listed(Reading())
    words.of(listed(thing("a", "1")))
    assert words.of(listed(version=11)) == []
    assert words.of(b"{}") == []
    with pytest.raises(ValueError, match=r"unexpected character"):
        words.of(b"<html>")
