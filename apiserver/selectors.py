"""Field and label selectors: one grammar for list, watch and authorization.

Labels: the whole grammar of "Labels and Selectors" (Kubernetes documentation): `=`, `==`, `!=`,
`in`, `notin`, `key`, `!key`, and `>`, `<` on whole numbers, joined by commas. Fields:
`metadata.name` and `metadata.namespace` with `=`, `==` and `!=`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeGuard

from shared.errors import BadRequest

FIELD_NAME: Final = "metadata.name"
FIELD_NAMESPACE: Final = "metadata.namespace"

SELECTOR_LENGTH_MAX: Final = 128 * 1024
"""Characters of one selector; the values of thousands of objects fit in."""

NAME_SELECTOR_LENGTH_MAX: Final = 1024
"""Characters of a field selector in which a name is looked for before it is known who asks.
The longest that names one object, with its namespace and as often escaped as can be, is shorter."""

TERMS_MAX: Final = 64
"""Terms of one selector. Each object of a list, and each event of a watch, is held against every
one; people and controllers write a handful."""

VALUES_MAX: Final = 10_000
"""Values in all terms of one selector: as many as a URL of 64 KiB has room for, and more."""

_SHOWN_LENGTH_MAX: Final = 128

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_KEY: Final = re.compile(rf"(?:(?=[^/]{{1,253}}/){_SUBDOMAIN}/)?{_NAME}")
_VALUE: Final = re.compile(rf"(?:{_NAME})?")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_TOKEN: Final = re.compile(r"\s*(==|!=|[=!,()]|[^\s=!,()<>]+|[<>]|$)")


class Operator(StrEnum):
    """How a requirement relates a key to its values, as LabelSelectorRequirement spells it."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GREATER = "Gt"
    LESS = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition; `values` is empty for the two that ask for existence only."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    _among: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_among", frozenset(self.values))

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it. A missing key meets NotIn (labels documentation)."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self._among
            case Operator.NOT_IN:
                return value not in self._among
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER:
                return _is_number(value) and int(value) > int(self.values[0])
            case Operator.LESS:
                return _is_number(value) and int(value) < int(self.values[0])


def _is_number(text: str | None) -> TypeGuard[str]:
    return text is not None and _NUMBER.fullmatch(text) is not None


Requirements = tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Selector:
    """Which objects a request is about; without requirements, all."""

    fields: Requirements = ()
    labels: Requirements = ()

    def means(self, namespace: str, name: str) -> bool:
        """Whether the fields of an object are right, whatever its labels."""
        if not self.fields:
            return True
        fields = {FIELD_NAME: name, FIELD_NAMESPACE: namespace}
        return all(requirement.holds(fields) for requirement in self.fields)

    def matches(self, namespace: str, name: str, labels: Mapping[str, str]) -> bool:
        """Whether an object is meant."""
        return self.means(namespace, name) and all(
            requirement.holds(labels) for requirement in self.labels
        )


EVERYTHING: Final = Selector()
"""The selector that means every object."""


def selector(field_selector: str, label_selector: str) -> Selector:
    """Parse both selectors of a request.

    Raises:
        BadRequest: bad grammar, or a field that cannot be selected by.
    """
    fields = parse_fields(field_selector)
    for requirement in fields:
        if requirement.key not in {FIELD_NAME, FIELD_NAMESPACE}:
            raise BadRequest(
                f"field label not supported: {requirement.key[:_SHOWN_LENGTH_MAX]} "
                f"(supported: {FIELD_NAME}, {FIELD_NAMESPACE})"
            )
    return Selector(fields, parse_labels(label_selector))


def exact_name(field_selector: str) -> str:
    """The one name that a field selector asks for, empty where it asks for none.

    Authorization treats such a list as one of that name; a selector that cannot be parsed
    names nothing here and is refused by the handler. Nor does one that is longer than
    `NAME_SELECTOR_LENGTH_MAX`: it takes the right to the whole collection.
    """
    if len(field_selector) > NAME_SELECTOR_LENGTH_MAX:
        return ""
    try:
        fields = parse_fields(field_selector)
    except BadRequest:
        return ""
    for requirement in fields:
        if requirement.key == FIELD_NAME and requirement.operator is Operator.IN:
            name = requirement.values[0]
            return "" if name in {".", ".."} or "/" in name or "%" in name else name
    return ""


def parse_fields(text: str) -> Requirements:
    r"""Parse a field selector: terms joined by commas; `\` escapes a comma, `=` or itself.

    Raises:
        BadRequest: a term without operator, or it is too long, or has too many.
    """
    _check_length("field", text)
    requirements: list[Requirement] = []
    for match in re.finditer(r"(?:\\.?|[^,\\])+", text, re.DOTALL):
        _check_terms("field", text, len(requirements) + 1)
        term = match[0]
        found = re.fullmatch(r"((?:\\.|[^=!\\])*)(==|!=|=)(.*)", term, re.DOTALL)
        if found is None:
            raise BadRequest(
                f"unable to parse field selector {_shown(text)}: {_shown(term)} is not "
                "key=value, key==value or key!=value"
            )
        key, operator, value = found.groups()
        if not re.fullmatch(r"(?:\\[\\,=]|[^\\,=])*", value):
            raise BadRequest(
                f"unable to parse field selector {_shown(text)}: bad value {_shown(value)}"
            )
        requirements.append(
            Requirement(
                key.strip(),
                Operator.NOT_IN if operator == "!=" else Operator.IN,
                (re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL),),
            )
        )
    return tuple(requirements)


def parse_labels(text: str) -> Requirements:
    """Parse a label selector.

    Raises:
        BadRequest: bad grammar, key or value, or it is too long, or has too many terms or values.
    """
    _check_length("label", text)
    return _LabelParser(text).requirements() if text.strip() else ()


def _check_length(of: str, text: str) -> None:
    if len(text) > SELECTOR_LENGTH_MAX:
        raise BadRequest(
            f"{of} selector {_shown(text)} has {len(text)} characters, "
            f"more than the {SELECTOR_LENGTH_MAX} that are read"
        )


def _check_terms(of: str, text: str, terms: int) -> None:
    if terms > TERMS_MAX:
        raise BadRequest(
            f"{of} selector {_shown(text)} has more than the {TERMS_MAX} terms that are read"
        )


def _shown(text: str) -> str:
    """Quoted, and cut where it is long: an answer need not carry back what was sent."""
    return f"{text[:_SHOWN_LENGTH_MAX]!r}{'…' * (len(text) > _SHOWN_LENGTH_MAX)}"


class _LabelParser:
    """Recursive descent over the tokens of one label selector."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = _TOKEN.findall(text)
        self._at = 0
        self._values_left = VALUES_MAX

    def requirements(self) -> Requirements:
        """All of the text, or an error."""
        found = [self._requirement()]
        while self._peek() == ",":
            self._next()
            _check_terms("label", self._text, len(found) + 1)
            found.append(self._requirement())
        if self._peek():
            raise self._error(f"unexpected {_shown(self._peek())}")
        return tuple(found)

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._key(), Operator.DOES_NOT_EXIST)
        key = self._key()
        match self._peek():
            case "" | ",":
                return Requirement(key, Operator.EXISTS)
            case "=" | "==":
                self._next()
                return Requirement(key, Operator.IN, (self._value(),))
            case "!=":
                self._next()
                return Requirement(key, Operator.NOT_IN, (self._value(),))
            case ">":
                self._next()
                return Requirement(key, Operator.GREATER, (self._number(),))
            case "<":
                self._next()
                return Requirement(key, Operator.LESS, (self._number(),))
            case "in":
                self._next()
                return Requirement(key, Operator.IN, self._values())
            case "notin":
                self._next()
                return Requirement(key, Operator.NOT_IN, self._values())
            case other:
                raise self._error(f"unexpected {_shown(other)} after key {key!r}")

    def _values(self) -> tuple[str, ...]:
        if self._next() != "(":
            raise self._error("expected ( after in or notin")
        values = [self._value()]
        while (mark := self._next()) == ",":
            values.append(self._value())
        if mark != ")":
            raise self._error("a list of values does not end with )")
        return tuple(sorted(set(values)))

    def _key(self) -> str:
        key = self._next()
        if not _KEY.fullmatch(key):
            raise self._error(f"{_shown(key)} is no label key")
        return key

    def _value(self) -> str:
        self._values_left -= 1
        if self._values_left < 0:
            raise BadRequest(
                f"label selector {_shown(self._text)} has more than the {VALUES_MAX} values "
                "that are read"
            )
        if self._peek() in {"", ",", ")"}:
            return ""
        value = self._next()
        if not _VALUE.fullmatch(value):
            raise self._error(f"{_shown(value)} is no label value")
        return value

    def _number(self) -> str:
        value = self._next()
        if not _is_number(value):
            raise self._error(f"{_shown(value)} is no whole number")
        return value

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _error(self, what: str) -> BadRequest:
        return BadRequest(f"unable to parse label selector {_shown(self._text)}: {what}")
