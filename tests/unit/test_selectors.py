"""Selectors (checks 64 and 65): what is meant, and what cannot be read."""

import pytest

from apiserver.selectors import (
    EVERYTHING,
    TERMS_MAX,
    VALUES_MAX,
    Operator,
    Requirement,
    exact_name,
    parse_fields,
    parse_labels,
    selector,
)
from shared.errors import BadRequest

LABELS = {"tier": "big", "maker": "nvidia", "example.org/n": "7", "empty": ""}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", True),
        ("tier=big", True),
        ("tier==big", True),
        ("tier=small", False),
        ("tier!=small", True),
        ("tier!=big", False),
        ("absent!=big", True),
        ("tier", True),
        ("absent", False),
        ("!absent", True),
        ("!tier", False),
        ("! absent", True),
        ("tier in (big, small)", True),
        ("tier in (small)", False),
        ("tier notin (small,other)", True),
        ("tier notin (big)", False),
        ("absent notin (big)", True),
        ("absent in (big)", False),
        ("tier=big,maker=nvidia", True),
        ("tier=big,maker=amd", False),
        (" tier = big , !absent ", True),
        ("example.org/n=7", True),
        ("example.org/n>6", True),
        ("example.org/n>7", False),
        ("example.org/n<8", True),
        ("tier>1", False),
        ("empty=", True),
        ("tier=", False),
        ("empty in (,x)", True),
        ("in=x", False),
        ("tier in (big),maker notin (amd),!absent", True),
    ],
)
def test_check_65_labels_are_matched_by_the_whole_grammar(text: str, wanted: bool) -> None:
    assert selector("", text).matches("ns", "name", LABELS) is wanted


@pytest.mark.parametrize(
    "text",
    [
        "a,,b",
        ",a",
        "a,",
        "a=b=c",
        "a in b",
        "a in (b",
        "a in b)",
        "a notin",
        "!",
        "a>x",
        "a>",
        "=b",
        "-a=b",
        "a=b c",
        "a=-b",
        "x/y/z=1",
        "UPPER.org/a=1",
        "a" * 64,
        f"a={'b' * 64}",
        "a!b",
        "a ! = b",
        "é=1",
    ],
)
def test_check_65_bad_label_selectors_are_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest, match="label selector"):
        parse_labels(text)


def test_a_label_selector_becomes_requirements_as_authorizers_read_them() -> None:
    assert parse_labels("a=b,c notin (e,d),f,!g") == (
        Requirement("a", Operator.IN, ("b",)),
        Requirement("c", Operator.NOT_IN, ("d", "e")),
        Requirement("f", Operator.EXISTS),
        Requirement("g", Operator.DOES_NOT_EXIST),
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", True),
        ("metadata.name=a100", True),
        ("metadata.name==a100", True),
        ("metadata.name=other", False),
        ("metadata.name!=a100", False),
        ("metadata.name!=other", True),
        ("metadata.namespace=tenant-a", True),
        ("metadata.namespace!=tenant-a", False),
        ("metadata.name=a100,metadata.namespace=tenant-a", True),
        ("metadata.name=a100,metadata.namespace=tenant-b", False),
        (",metadata.name=a100,", True),
    ],
)
def test_check_64_name_and_namespace_can_be_selected(text: str, wanted: bool) -> None:
    assert selector(text, "").matches("tenant-a", "a100", {}) is wanted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("spec.mode=x", "field label not supported: spec.mode"),
        ("metadata.labels.a=b", "field label not supported"),
        ("metadata.name", "is not key=value"),
        ("metadata.name=a=b", "bad value"),
        (r"metadata.name=a\b", "bad value"),
        ("=x", "field label not supported"),
    ],
)
def test_check_64_other_fields_and_bad_grammar_are_a_bad_request(text: str, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        selector(text, "")


def test_commas_and_equals_signs_can_be_escaped_in_a_field_selector() -> None:
    assert parse_fields(r"metadata.name=a\,b\=c\\d") == (
        Requirement("metadata.name", Operator.IN, (r"a,b=c\d",)),
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("metadata.name=a100", "a100"),
        ("metadata.namespace=x,metadata.name==a100", "a100"),
        ("metadata.name!=a100", ""),
        ("metadata.name=a/b", ""),
        ("metadata.name=..", ""),
        ("nonsense", ""),
        ("", ""),
    ],
)
def test_the_one_name_that_a_selector_asks_for_is_found(text: str, name: str) -> None:
    assert exact_name(text) == name


def test_a_long_selector_asks_for_no_one_name_before_it_is_known_who_asks() -> None:
    assert exact_name("metadata.name=a100" + ",a=b" * 300) == ""
    escaped = "\\\\" * 253
    assert exact_name(f"metadata.name={escaped},metadata.namespace={'n' * 63}") == "\\" * 253


@pytest.mark.parametrize("text", ["a=b," * 33_000, "a" * 1000, "a=b,=" + "c" * 1000])
def test_what_is_wrong_with_a_long_selector_is_told_briefly(text: str) -> None:
    for parse in (parse_labels, lambda text: selector(text, "")):
        with pytest.raises(BadRequest, match=r"selector|field") as caught:
            parse(text)
        assert len(str(caught.value)) < 600


def test_everything_means_everything() -> None:
    assert EVERYTHING.matches("any", "thing", {})


def test_means_looks_at_fields_and_not_at_labels() -> None:
    chosen = selector("metadata.name=a", "tier=big")

    assert chosen.means("ns", "a")
    assert not chosen.means("ns", "b")
    assert not chosen.matches("ns", "a", {"tier": "small"})


def test_a_hostile_selector_costs_no_more_than_its_length() -> None:
    """A pattern that backtracks would hang here until the test's time is over."""
    with pytest.raises(BadRequest):
        parse_labels("a" * 100_000 + "=")
    with pytest.raises(BadRequest):
        parse_labels("a." * 50_000 + "/x")
    with pytest.raises(BadRequest):
        parse_fields("\\" * 99_999)


SOME = ",".join(f"key-{number}" for number in range(TERMS_MAX))
NAMES = ",".join(f"metadata.name!=class-{number}" for number in range(TERMS_MAX))


def test_as_many_terms_are_read_as_anybody_needs() -> None:
    assert TERMS_MAX == len(parse_labels(SOME)) == len(parse_fields(NAMES))


@pytest.mark.parametrize(
    ("of", "fields", "labels"),
    [
        ("label", "", f"{SOME},one-more"),
        ("label", "", ",".join(["a"] * 50_000)),
        ("field", f"{NAMES},metadata.name!=one-more", ""),
        ("field", ",".join(["="] * 50_000), ""),
    ],
)
def test_more_terms_than_that_are_refused_before_they_are_read(
    of: str, fields: str, labels: str
) -> None:
    """Each object of a list would be held against each of them."""
    with pytest.raises(BadRequest, match=f"^{of} selector .* more than the 64 terms that are read"):
        selector(fields, labels)


def test_values_are_as_many_as_a_long_url_holds_and_no_more() -> None:
    many = ",".join(f"v{number}" for number in range(VALUES_MAX))
    (one,) = parse_labels(f"tier in ({many})")
    assert len(one.values) == VALUES_MAX
    assert one.holds({"tier": "v9999"})
    assert not one.holds({"tier": "v10000"})
    for text in (f"tier in ({many},more)", f"tier notin ({many}),more=x"):
        with pytest.raises(BadRequest, match="more than the 10000 values that are read"):
            parse_labels(text)
