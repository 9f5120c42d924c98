"""Kubernetes quantities: exact, in integers, at a bounded cost whatever the text.

Which texts are quantities and what they are worth was learned from kube-apiserver 1.36 (its
answers are the table in `tests/kube/quantities.py`), oddities included: a text without any digit,
such as `k`, is zero, and an exponent counts modulo 2**32. Rule 4.5.

Kubernetes stores larger values than it can compute with (adding to `1e400` is slow, and
`1e2147483647` hangs the API server). Here the largest value is 2**63-1 units, which is the bound
that Kubernetes' documentation gives and that it applies to binary suffixes.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

NANO: Final = 10**9
"""Parts of a unit that `parse` counts in; finer values round up, as in Kubernetes."""

UNITS_MAX: Final = 2**63 - 1
"""The largest value, in units."""

CPU_PARTS: Final = 1000
"""Parts of a CPU that Kubernetes counts in; of every other resource it counts whole units."""

_NANO_MAX: Final = UNITS_MAX * NANO

_QUANTITY: Final = re.compile(
    # Possessive, so that a long text is read once.
    r"([+-]?)([0-9]*+)(?:\.([0-9]*+))?+(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]++))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

# A value of more digits before the point than 2**63-1 has is capped, whatever the digits are.
_DIGITS_MAX: Final = 19
# Decimals that can decide a value: 9, and one more for each doubling of the largest suffix. What
# comes after them matters only by being there, when the rest is a whole number of nano-units.
_DECIMALS_MAX: Final = 9 + 60
_STEP: Final = 10**60
_FINEST: Final = -9
_EXPONENT_DIGITS_MAX: Final = 19

_PLAIN_LENGTH_MAX: Final = 18
_CACHED_LENGTH_MAX: Final = 40
_SHOWN_LENGTH_MAX: Final = 60


class QuantityError(ValueError):
    """A value is not a quantity; `value` shows it, cut to a bound."""

    def __init__(self, given: object) -> None:
        shown = repr(given)
        self.value = shown if len(shown) <= _SHOWN_LENGTH_MAX else f"{shown[:_SHOWN_LENGTH_MAX]}…"
        super().__init__(
            f"{self.value} is not a quantity: expected a number with an optional suffix, "
            "such as 4, 500m, 1k, 2Gi or 1e3"
        )


def counted_parts(resource: str) -> int:
    """Into how many parts of a unit kube-scheduler counts a resource (MilliValue, or Value)."""
    return CPU_PARTS if resource == "cpu" else 1


def floor_units(value: object, parts: int = 1) -> int:
    """Return the whole units in a quantity, rounded down: what an allocatable or a limit grants.

    Never negative: less than nothing grants nothing (`500m` buys none, `-2` buys none).

    Args:
        value: as `parse`.
        parts: count in so many parts of a unit instead.

    Raises:
        QuantityError: as `parse`.
    """
    if isinstance(value, str) and len(value) <= _PLAIN_LENGTH_MAX and _is_plain(value):
        return int(value) * parts
    return max(parse(value) * parts // NANO, 0)


def ceil_units(value: object) -> int:
    """Return the whole units that hold a quantity, rounded up: what a request takes.

    Never negative: a negative request frees nothing.

    Raises:
        QuantityError: as `parse`.
    """
    return whole_units(parse(value))


def whole_units(nano: int, parts: int = 1) -> int:
    """Return the whole units that hold this many nano-units, at least 0 and at most UNITS_MAX.

    Counted in so many `parts` of a unit, where there are more than one.
    """
    return min(max(-(-nano * parts // NANO), 0), UNITS_MAX)


def parse(value: object) -> int:
    """Return a quantity in nano-units, rounded away from zero, within ±UNITS_MAX units.

    Args:
        value: text, or a number as JSON has it (an int or a float, never a bool).

    Raises:
        QuantityError: it is neither, or Kubernetes refuses the text.
    """
    match value:
        case str():
            return _parse_cached(value) if len(value) <= _CACHED_LENGTH_MAX else _parse(value)
        case bool():
            raise QuantityError(value)
        case int():
            return max(-_NANO_MAX, min(value * NANO, _NANO_MAX))
        case float() if math.isfinite(value):
            return _parse(repr(value))
        case _:
            raise QuantityError(value)


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _parse(text: str) -> int:
    found = _QUANTITY.fullmatch(text.strip(" "))
    if found is None or not found[0]:
        raise QuantityError(text)
    sign, whole, decimals, suffix, power = found.groups(default="")
    exponent = _exponent(power, text) if power else _DECIMAL.get(suffix, 0)
    significant = (whole + decimals).lstrip("0")
    if significant:
        # The value is 0.<significant> times ten to the power of `point`, times 2**bits.
        point = len(significant) - len(decimals) + exponent
        nano = _nano(significant, point, _BINARY.get(suffix, 0))
    elif whole or decimals or exponent >= _FINEST:
        nano = 0
    else:
        raise QuantityError(text)  # no digits at all are zero only where nothing is rounded
    return -nano if sign == "-" else nano


_parse_cached = lru_cache(maxsize=4096)(_parse)


def _exponent(text: str, quantity: str) -> int:
    """Read a decimal exponent as Kubernetes does: an int64, of which the lower 32 bits count."""
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _EXPONENT_DIGITS_MAX:
        raise QuantityError(quantity)
    value = -int(digits or "0") if text.startswith("-") else int(digits or "0")
    if not -(2**63) <= value < 2**63:
        raise QuantityError(quantity)
    return (value + 2**31) % 2**32 - 2**31


def _nano(significant: str, point: int, bits: int) -> int:
    if point > _DIGITS_MAX:
        return _NANO_MAX
    kept_length = point + _DECIMALS_MAX
    if kept_length <= 0:
        return 1  # more than nothing, less than one
    kept, rest = significant[:kept_length], significant[kept_length:]
    scaled: int = int(kept) * 10 ** (kept_length - len(kept)) << bits
    nano, remainder = divmod(scaled, _STEP)
    if remainder or rest.strip("0"):
        nano += 1
    return min(nano, _NANO_MAX)
