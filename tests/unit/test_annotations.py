"""The annotations by which a VM asks, and the record: one reading or none (rule 6.1)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.annotations import (
    LENGTH_MAX,
    ClassEntry,
    Malformed,
    in_order,
    parse_claims,
    parse_classes,
    parse_record,
    render_record,
)
from shared.core.model import RecordEntry

CLASSES = "metadata.annotations[gpu.cozystack.io/classes]"
CLAIMS = "metadata.annotations[gpu.cozystack.io/claims]"
RECORD = "metadata.annotations[gpu.cozystack.io/attachments]"

AN_ARRAY = 'a JSON array such as [{"className": "a100", "count": 2}]'
A_COUNT = "a whole number from 1 to 1024"
A_CLASS = 'the name of a class: at most 63 lower-case letters, digits or "-", such as "a100-80g"'
TWO_KEYS = "an object with the keys className, count, each once"


def of(count: str) -> str:
    return f'[{{"className": "l40s", "count": {count}}}]'


def called(name: str) -> str:
    return f'[{{"className": {name}, "count": 1}}]'


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param('[{"className":"l40s","count":1}]', [("l40s", 1)], id="one entry"),
        pytest.param(
            '[{"count":2,"className":"l40s"},{"className":"h100","count":2},'
            '{"className":"l40s","count":1}]',
            [("l40s", 2), ("h100", 2), ("l40s", 1)],
            id="entries stay in order, and a class may stand twice",
        ),
        pytest.param(' \t[ {"className" : "l40s" , "count" : 1} ]\n', [("l40s", 1)], id="blanks"),
        pytest.param(called(r'"l4\u0030s"'), [("l40s", 1)], id="JSON's own escapes"),
        pytest.param(called(f'"{"a" * 63}"'), [("a" * 63, 1)], id="the longest name"),
        pytest.param(of("1024"), [("l40s", 1024)], id="the most units"),
        # Another question, with another reason: see the rules of 6.1.
        pytest.param(of("1025"), [("l40s", 1025)], id="more units than a VM may have"),
    ],
)
def test_class_entries_are_read_in_their_order(value: str, want: list[tuple[str, int]]) -> None:
    assert parse_classes(value) == tuple(ClassEntry(*entry) for entry in want)


@pytest.mark.parametrize(
    ("value", "place", "told"),
    [
        # Trouble 20: what Python's parser takes and others do not, or the other way round.
        pytest.param(
            '[{"className":"l40s","count":1,"count":1000}]',
            "[0]",
            f'the key "count" twice, expected {TWO_KEYS}',
            id="count twice",
        ),
        pytest.param(
            '[{"className":"l40s","className":"h100","count":1}]',
            "[0]",
            f'the key "className" twice, expected {TWO_KEYS}',
            id="class twice",
        ),
        pytest.param(of("NaN"), "[0].count", f"NaN, expected {A_COUNT}", id="NaN"),
        pytest.param(of("Infinity"), "[0].count", f"Infinity, expected {A_COUNT}", id="infinity"),
        pytest.param(
            of("-Infinity"), "[0].count", f"-Infinity, expected {A_COUNT}", id="minus infinity"
        ),
        pytest.param(of("1e0"), "[0].count", f"1e0, expected {A_COUNT}", id="exponent"),
        pytest.param(of("1E2"), "[0].count", f"1E2, expected {A_COUNT}", id="large exponent"),
        pytest.param(of("2.0"), "[0].count", f"2.0, expected {A_COUNT}", id="fraction of nought"),
        pytest.param(of("1.5"), "[0].count", f"1.5, expected {A_COUNT}", id="fraction"),
        pytest.param(of("true"), "[0].count", f"true, expected {A_COUNT}", id="true"),
        pytest.param(of("false"), "[0].count", f"false, expected {A_COUNT}", id="false"),
        pytest.param(of('"2"'), "[0].count", f'"2", expected {A_COUNT}', id="text"),
        pytest.param(of("null"), "[0].count", f"null, expected {A_COUNT}", id="null"),
        pytest.param(of("[1]"), "[0].count", f"an array, expected {A_COUNT}", id="array"),
        pytest.param(of("{}"), "[0].count", f"an object, expected {A_COUNT}", id="object"),
        pytest.param(of("0"), "[0].count", f"0, expected {A_COUNT}", id="nought"),
        pytest.param(of("-0"), "[0].count", f"0, expected {A_COUNT}", id="minus nought"),
        pytest.param(of("-1"), "[0].count", f"-1, expected {A_COUNT}", id="negative"),
        pytest.param(
            of("9" * 400), "[0].count", f"{'9' * 60}..., expected {A_COUNT}", id="400 digits"
        ),
        pytest.param(
            '[{"className":"l40s","Count":2}]',
            "[0]",
            f'the key "Count", no key "count", expected {TWO_KEYS}',
            id="case of a key",
        ),
        pytest.param(
            '[{"className":"l40s","count":1,"extra":1}]',
            "[0]",
            f'the key "extra", expected {TWO_KEYS}',
            id="unknown key",
        ),
        pytest.param(
            '[{"className":"l40s"}]', "[0]", f'no key "count", expected {TWO_KEYS}', id="no count"
        ),
        pytest.param("[{}]", "[0]", f'no key "className", no key "count", expected {TWO_KEYS}'),
        pytest.param("[[]]", "[0]", f"an array, expected {TWO_KEYS}", id="array in the array"),
        pytest.param('["l40s"]', "[0]", f'"l40s", expected {TWO_KEYS}', id="a name alone"),
        pytest.param("[null]", "[0]", f"null, expected {TWO_KEYS}", id="null in the array"),
        pytest.param(
            '[{"className":"l40s","count":1},{"className":"h100","count":0}]',
            "[1].count",
            f"0, expected {A_COUNT}",
            id="the second entry",
        ),
        pytest.param(
            '{"className":"l40s","count":1}', "", f"an object, expected {AN_ARRAY}", id="no array"
        ),
        pytest.param("null", "", f"null, expected {AN_ARRAY}", id="null alone"),
        pytest.param("1", "", f"1, expected {AN_ARRAY}", id="a number alone"),
        pytest.param(
            "[]",
            "",
            f"an empty array, expected {AN_ARRAY}, or no such annotation",
            id="empty array",
        ),
        pytest.param(
            "", "", f'"" (Expecting value at character 0), expected {AN_ARRAY}', id="empty text"
        ),
        pytest.param(
            "train-a100",
            "",
            f'"train-a100" (Expecting value at character 0), expected {AN_ARRAY}',
            id="no JSON",
        ),
        pytest.param(
            f"{of('1')} []",
            "",
            '"[{\\"className\\": \\"l40s\\", \\"count\\": 1}] []" (Extra data at character 36), '
            f"expected {AN_ARRAY}",
            id="more after the end",
        ),
        # Trouble 21: digits that are not ASCII, and other things int() takes.
        pytest.param(of('"\uff12"'), "[0].count", f'"\\uff12", expected {A_COUNT}', id="fullwidth"),
        pytest.param(of('"1_000"'), "[0].count", f'"1_000", expected {A_COUNT}', id="underscore"),
        # Names: a DNS label, byte for byte.
        pytest.param(
            called('"L40S"'), "[0].className", f'"L40S", expected {A_CLASS}', id="capital"
        ),
        pytest.param(
            called('"l40\uff53"'), "[0].className", f'"l40\\uff53", expected {A_CLASS}', id="wide s"
        ),
        pytest.param(
            called('"\u217040s"'),
            "[0].className",
            f'"\\u217040s", expected {A_CLASS}',
            id="roman i",
        ),
        pytest.param(
            called(r'"l40s\u0000"'), "[0].className", f'"l40s\\u0000", expected {A_CLASS}', id="NUL"
        ),
        pytest.param(
            called(r'"\ud800"'), "[0].className", f'"\\ud800", expected {A_CLASS}', id="surrogate"
        ),
        pytest.param(
            called('"l40s "'), "[0].className", f'"l40s ", expected {A_CLASS}', id="blank"
        ),
        pytest.param(
            called(r'"l40s\n"'), "[0].className", f'"l40s\\n", expected {A_CLASS}', id="line break"
        ),
        pytest.param(
            called('"../l40s"'), "[0].className", f'"../l40s", expected {A_CLASS}', id="path"
        ),
        pytest.param(called('""'), "[0].className", f'"", expected {A_CLASS}', id="empty name"),
        pytest.param(called('"-a"'), "[0].className", f'"-a", expected {A_CLASS}', id="dash first"),
        pytest.param(
            called(f'"{"a" * 64}"'),
            "[0].className",
            f'"{"a" * 59}..., expected {A_CLASS}',
            id="name of 64",
        ),
        pytest.param(called("1"), "[0].className", f"1, expected {A_CLASS}", id="number as a name"),
    ],
)
def test_class_entries_that_can_be_read_otherwise_are_refused_with_place_value_and_remedy(
    value: str, place: str, told: str
) -> None:
    with pytest.raises(Malformed) as refused:
        parse_classes(value)
    assert str(refused.value) == f"{CLASSES}{place}: {told}"


@pytest.mark.parametrize(
    "count",
    # As numbers, outside of quotes, none of these is JSON.
    ["\uff12", "\u00b2", "\u0663", "1_000", "+2", "0x2", "02", "2\u200b", ".5", "1.", "--1"],
)
def test_other_digits_than_those_of_json_are_no_json(count: str) -> None:
    with pytest.raises(Malformed, match=r"classes\]: .* at character \d+\), expected a JSON array"):
        parse_classes(of(count))


def test_a_byte_order_mark_is_no_json() -> None:
    with pytest.raises(Malformed, match=r'classes\]: "\\ufeff\[.*, expected a JSON array'):
        parse_classes("\ufeff" + of("1"))


@pytest.mark.parametrize("value", [None, 1, ["x"], {"className": "l40s"}])
def test_an_annotation_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(Malformed, match=r"classes\]: .*, expected a JSON array"):
        parse_classes(value)


def test_every_fault_is_told_but_not_more_than_eight() -> None:
    with pytest.raises(Malformed) as refused:
        parse_classes(json.dumps([{"className": "l40s", "count": 0}] * 20))
    assert [fault.place for fault in refused.value.faults] == [f"[{n}].count" for n in range(8)]


def test_what_is_too_long_is_refused_before_it_is_parsed() -> None:
    fits = of("1").ljust(LENGTH_MAX)
    assert parse_classes(fits)
    with pytest.raises(Malformed) as refused:
        parse_classes(fits + " ")
    assert str(refused.value) == f"{CLASSES}: 16385 characters, expected at most 16384"
    with pytest.raises(Malformed, match="16385 characters"):
        parse_classes("x" * 16385)  # no JSON either, which nobody looked at


@pytest.mark.parametrize("value", ["[" * 16_000, "[" * 8_000 + "]" * 8_000, '{"a":' * 3_000])
def test_what_is_nested_without_end_is_refused(value: str) -> None:
    with pytest.raises(Malformed) as refused:
        parse_classes(value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param('["train-1"]', ("train-1",), id="one"),
        pytest.param('["b", "a.b"]', ("b", "a.b"), id="two, in their order"),
        pytest.param(f'["{"a" * 253}"]', ("a" * 253,), id="the longest name"),
    ],
)
def test_claims_are_read_in_their_order(value: str, want: tuple[str, ...]) -> None:
    assert parse_claims(value) == want


A_CLAIM = (
    'the name of a claim: at most 253 lower-case letters, digits, "-" or ".", such as "train-1"'
)
NAMES = 'a JSON array of names of claims such as ["train-1"]'


@pytest.mark.parametrize(
    ("value", "place", "told"),
    [
        pytest.param('["a","b","a"]', "[2]", '"a", expected each claim once', id="one claim twice"),
        pytest.param('[{"name":"a"}]', "[0]", f"an object, expected {A_CLAIM}", id="an object"),
        pytest.param("[1]", "[0]", f"1, expected {A_CLAIM}", id="a number"),
        pytest.param('[""]', "[0]", f'"", expected {A_CLAIM}', id="empty"),
        pytest.param('["a/b"]', "[0]", f'"a/b", expected {A_CLAIM}', id="a path"),
        pytest.param('["A"]', "[0]", f'"A", expected {A_CLAIM}', id="capital"),
        pytest.param('["a."]', "[0]", f'"a.", expected {A_CLAIM}', id="a dot at the end"),
        pytest.param(f'["{"a" * 254}"]', "[0]", f'"{"a" * 59}..., expected {A_CLAIM}', id="254"),
        pytest.param('"a"', "", f'"a", expected {NAMES}', id="a name alone"),
        pytest.param("train", "", f'"train" (Expecting value at character 0), expected {NAMES}'),
        pytest.param("[]", "", f"an empty array, expected {NAMES}, or no such annotation"),
    ],
)
def test_claims_that_can_be_read_otherwise_are_refused_with_place_value_and_remedy(
    value: str, place: str, told: str
) -> None:
    with pytest.raises(Malformed) as refused:
        parse_claims(value)
    assert str(refused.value) == f"{CLAIMS}{place}: {told}"


TWO = (
    RecordEntry(claim="train", class_name="a100", resource_name="nvidia.com/GA100", count=2),
    RecordEntry(entry=0, class_name="t4", resource_name="nvidia.com/T4", count=1),
)
TWO_WRITTEN = (
    '[{"claim":"train","className":"a100","resourceName":"nvidia.com/GA100","count":2},'
    '{"entry":0,"className":"t4","resourceName":"nvidia.com/T4","count":1}]'
)


def test_a_record_has_one_form_whatever_the_order_of_its_entries() -> None:
    assert render_record(TWO) == TWO_WRITTEN
    assert render_record(TWO[::-1]) == TWO_WRITTEN
    assert parse_record(TWO_WRITTEN) == TWO


def test_a_record_has_claims_by_name_then_entries_by_index() -> None:
    def claim(name: str) -> RecordEntry:
        return RecordEntry(claim=name, class_name="a", resource_name="n/a", count=1)

    def entry(index: int) -> RecordEntry:
        return RecordEntry(entry=index, class_name="a", resource_name="n/a", count=1)

    mixed = [entry(10), claim("b"), entry(2), claim("a")]
    assert in_order(mixed) == (claim("a"), claim("b"), entry(2), entry(10))


names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)


@st.composite
def records(draw: st.DrawFn) -> tuple[RecordEntry, ...]:
    def entry(claim: str = "", index: int = -1) -> RecordEntry:
        return RecordEntry(claim, index, draw(names), f"n/{draw(names)}", draw(st.integers(1, 16)))

    claims = [entry(claim=name) for name in sorted(draw(st.sets(names, max_size=32)))]
    entries = [entry(index=index) for index in range(draw(st.integers(0, 32)))]
    return tuple(claims + entries) or (entry(index=0),)


@given(records())
def test_every_record_is_read_as_it_was_written(record: tuple[RecordEntry, ...]) -> None:
    assert parse_record(render_record(record)) == record


def record_with(**members: object) -> str:
    entry = {"entry": 0, "className": "a", "resourceName": "n/a", "count": 1} | members
    return json.dumps([{key: value for key, value in entry.items() if value is not ...}])


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(record_with(entry=-1), id="index below 0"),
        pytest.param(record_with(entry=True), id="index true"),
        pytest.param(record_with(entry=...), id="neither claim nor entry"),
        pytest.param(record_with(claim="c"), id="claim and entry"),
        pytest.param(record_with(entry=..., claim=""), id="empty claim"),
        pytest.param(record_with(count=0), id="no units"),
        pytest.param(record_with(count=1025), id="too many units"),
        pytest.param(record_with(resourceName=""), id="no resource"),
        pytest.param(record_with(className=...), id="no class"),
        pytest.param(record_with(more=1), id="unknown key"),
        pytest.param(f"[{TWO_WRITTEN[1:-1]},{TWO_WRITTEN[1:-1]}]", id="everything twice"),
        pytest.param(json.dumps(json.loads(TWO_WRITTEN)[::-1]), id="entries before claims"),
        pytest.param(
            json.dumps([json.loads(record_with(entry=n, count=1024))[0] for n in (0, 1)]),
            id="2048 units in all",
        ),
        pytest.param("[]", id="empty"),
        pytest.param("x", id="no JSON"),
    ],
)
def test_a_record_that_admission_did_not_write_is_refused(value: str) -> None:
    with pytest.raises(Malformed) as refused:
        parse_record(value)
    assert str(refused.value).startswith(RECORD)


texts = st.text(max_size=40) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
).map(json.dumps)


@given(texts)
def test_whatever_stands_there_is_read_or_refused_in_ascii(value: str) -> None:
    told = []
    for parse in (parse_classes, parse_claims, parse_record):
        try:
            parse(value)
        except Malformed as refused:
            told.append(str(refused))
    assert [text for text in told if not (text.isascii() and text.isprintable())] == []
