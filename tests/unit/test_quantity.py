"""Quantities are Kubernetes' own, exact and cheap (rule 4.5)."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.quantity import (
    NANO,
    QuantityError,
    ceil_units,
    counted_parts,
    floor_units,
    parse,
    whole_units,
)

ANSWERS: list[tuple[str, str | None]] = [
    (text, answer)
    for text, answer in json.loads(
        (Path(__file__).parents[1] / "data/quantities.json").read_text()
    )["answers"]
]
LARGEST = 9223372036854775807
MILLI = 10**6


@pytest.mark.parametrize(
    ("text", "floor", "ceil"),
    [
        ("0", 0, 0),
        ("4", 4, 4),
        ("004", 4, 4),
        ("+4", 4, 4),
        ("4.0", 4, 4),
        ("1k", 1000, 1000),
        ("1Ki", 1024, 1024),
        ("1M", 1_000_000, 1_000_000),
        ("1Mi", 1_048_576, 1_048_576),
        ("1E", 10**18, 10**18),
        ("1Ei", 1_152_921_504_606_846_976, 1_152_921_504_606_846_976),
        ("1e3", 1000, 1000),
        ("1E3", 1000, 1000),
        ("1e+3", 1000, 1000),
        ("129e6", 129_000_000, 129_000_000),
        ("12e0", 12, 12),
        (".5Ki", 512, 512),
        ("5.", 5, 5),
        ("2000m", 2, 2),
        ("1500m", 1, 2),
        ("500m", 0, 1),
        ("1n", 0, 1),
        ("1e-400", 0, 1),
        ("1.0000000001", 1, 2),
        ("0.9999999", 0, 1),
        ("63500m", 63, 64),
        ("1e12", 10**12, 10**12),
        ("9223372036854775807", LARGEST, LARGEST),
        ("9223372036854775808", LARGEST, LARGEST),
        ("9223372036854775806.5", LARGEST - 1, LARGEST),
        ("1e400", LARGEST, LARGEST),
        ("8Ei", LARGEST, LARGEST),
        ("-1", 0, 0),
        ("-500m", 0, 0),
        ("-1e400", 0, 0),
        ("k", 0, 0),
        ("1e4294967299", 1000, 1000),
    ],
)
def test_whole_units_round_down_for_what_is_granted_and_up_for_what_is_taken(
    text: str, floor: int, ceil: int
) -> None:
    assert (floor_units(text), ceil_units(text)) == (floor, ceil)


@pytest.mark.parametrize(
    ("text", "floor", "ceil"),
    [("2", 2000, 2000), ("63500m", 63500, 63500), ("1500u", 1, 2), ("-1", 0, 0), ("0.0001", 0, 1)],
)
def test_cpu_is_counted_in_thousandths_and_nothing_else_is(
    text: str, floor: int, ceil: int
) -> None:
    parts = counted_parts("cpu")
    assert (floor_units(text, parts), whole_units(parse(text), parts)) == (floor, ceil)
    for other in ("memory", "pods", "hugepages-2Mi", "example.com/cpu"):
        assert counted_parts(other) == 1


@pytest.mark.parametrize(("text", "answer"), ANSWERS, ids=[repr(text) for text, _ in ANSWERS])
def test_a_text_is_taken_or_refused_as_kubernetes_did(text: str, answer: str | None) -> None:
    if answer is None:
        with pytest.raises(QuantityError):
            parse(text)
        return
    nano = parse(text)
    # The API server's defaulting rounds what a quota says away from zero to thousandths.
    rounded = -(-abs(nano) // MILLI) * MILLI
    assert min(rounded, LARGEST * NANO) * (1 if nano >= 0 else -1) == parse(answer)


@pytest.mark.parametrize(
    "value",
    [None, True, False, [], {}, ["1"], float("nan"), float("inf"), b"1", "true", "null"],
    ids=repr,
)
def test_what_is_neither_text_nor_number_is_no_quantity(value: object) -> None:
    with pytest.raises(QuantityError):
        parse(value)


@pytest.mark.parametrize(
    ("number", "units"),
    [(4, 4), (4.0, 4), (1e3, 1000), (-2, 0), (10**30, LARGEST), (1e30, LARGEST)],
)
def test_a_json_number_counts_as_its_text(number: float, units: int) -> None:
    assert floor_units(number) == units


def test_the_error_names_the_value_and_what_was_expected() -> None:
    with pytest.raises(QuantityError, match=r"'4 units' is not a quantity: expected a number"):
        floor_units("4 units")


LONG = 1_000_000


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        pytest.param("9" * LONG, LARGEST * NANO, id="a million nines"),
        pytest.param("0" * LONG + "1", NANO, id="a million zeros first"),
        pytest.param("1." + "0" * LONG + "1", NANO + 1, id="a decimal far behind the point"),
        pytest.param("0." + "0" * LONG + "1Ei", 1, id="next to nothing of an exbi"),
        pytest.param("1" * LONG + "e-999999", 1_111_111_112, id="digits that the exponent undoes"),
        pytest.param("1e" + "0" * LONG + "3", 1000 * NANO, id="an exponent of a million zeros"),
        pytest.param("1e999999999", LARGEST * NANO, id="a large exponent"),
        pytest.param("1e-999999999", 1, id="a small exponent"),
        pytest.param("1e2147483647", LARGEST * NANO, id="one that hangs kube-apiserver"),
    ],
)
def test_a_hostile_text_is_worth_what_it_says_and_costs_nothing(text: str, nano: int) -> None:
    assert parse(text) == nano


@pytest.mark.parametrize(
    "text", ["1e" + "9" * LONG, "1" + "k" * LONG, "0" * LONG + "x", " " * LONG, "1" + ".1" * LONG]
)
def test_a_hostile_text_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert len(str(caught.value)) < 200


SUFFIXES: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
    "e-12": Fraction(1, 10**12),
    "E+2": Fraction(100),
    "e20": Fraction(10**20),
}


@given(
    sign=st.sampled_from(["", "+", "-"]),
    whole=st.integers(0, 10**30),
    decimals=st.from_regex(r"[0-9]{0,90}", fullmatch=True),
    suffix=st.sampled_from(sorted(SUFFIXES)),
)
def test_any_number_with_any_suffix_is_its_exact_value_rounded_up_to_nano(
    sign: str, whole: int, decimals: str, suffix: str
) -> None:
    exact = Fraction(int(f"{whole}{decimals}"), 10 ** len(decimals)) * SUFFIXES[suffix] * NANO
    want = min(-(-exact.numerator // exact.denominator), LARGEST * NANO)
    assert parse(f"{sign}{whole}.{decimals}{suffix}") == (-want if sign == "-" else want)


@given(value=st.one_of(st.text(), st.floats(), st.integers(), st.none()))
def test_anything_is_a_quantity_or_a_quantity_error(value: object) -> None:
    try:
        got = parse(value)
    except QuantityError:
        return
    assert abs(got) <= LARGEST * NANO


@given(parts=st.lists(st.integers(0, 10**18), max_size=5))
def test_parts_are_added_before_they_are_rounded(parts: list[int]) -> None:
    assert whole_units(sum(parts)) == -(-sum(parts) // NANO)
