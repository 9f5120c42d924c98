"""What the API server does with an object of a custom kind: prune, default, validate.

Done is what the schemas at hand use, in the API server's own words; a schema that asks for more
fails when it is loaded, so that nothing is passed over in silence.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from tests.simulation.causes import Cause, Unsimulated

Json = Any
"""Any JSON value."""

Raw = dict[str, Json]
Schema = Mapping[str, Any]

_RULES: Final = "x-kubernetes-validations"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NOT_CHECKED: Final = Cause(
    "Invalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation",
)
_BLOCKING: Final = frozenset({"NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"})

_IMMUTABLE: Final = "self == oldSelf"
_JUDGED: Final[Mapping[str, Callable[[Json], bool]]] = {
    "!format.dns1123Label().validate(self).hasValue()": lambda v: bool(_LABEL.fullmatch(v)),
    "self.metadata.name == 'default'": lambda v: v["metadata"]["name"] == "default",
    "self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')": lambda v: (
        len(v["metadata"]["name"]) <= 63 and "." not in v["metadata"]["name"]
    ),
}
_HOSTERS: Final = frozenset({"resourceName", "memory", "tolerations", "secretName"})
"""Fields of a class whose own rules are left to the real API server: only hosters write them."""

_KNOWN: Final = frozenset(
    {
        *("type", "description", "format", "enum", "default", "minimum", "maximum", "pattern"),
        *("minLength", "maxLength", "maxItems", "required", "properties", "items"),
        *("additionalProperties", _RULES, _OPEN, "x-kubernetes-int-or-string"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
    }
)
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def examine(schema: Schema, name: str = "") -> None:
    """Make sure that all of a schema is understood here.

    Raises:
        Unsimulated: it is not; the message says what is missing.
    """
    unknown = schema.keys() - _KNOWN
    if unknown:
        raise Unsimulated(f"schema of {name}: {sorted(unknown)} is not done here")
    for rule in schema.get(_RULES, ()):
        text = " ".join(rule["rule"].split())
        if text != _IMMUTABLE and text not in _JUDGED and name not in _HOSTERS:
            raise Unsimulated(f"schema of {name}: the rule {text} is not known here")
    for key, inner in schema.get("properties", {}).items():
        examine(inner, key)
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, Mapping):
            examine(inner, name)


def shaped(value: Json, schema: Schema) -> Json:
    """A value without what its schema does not know, and with its defaults; the same if it is so.

    What is `metadata` at the top is not the schema's business.
    """
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        more = schema.get("additionalProperties")
        is_open = schema.get(_OPEN) or more is True
        made: Raw = {}
        for key, inner in value.items():
            if key in properties:
                if inner is None:
                    continue  # nothing here is nullable: null is as good as absent
                made[key] = shaped(inner, properties[key])
            elif isinstance(more, Mapping):
                made[key] = shaped(inner, more)
            elif is_open:
                made[key] = inner
        for key, inner in properties.items():
            if key not in made and "default" in inner:
                made[key] = inner["default"]
        return made
    if isinstance(value, list) and "items" in schema:
        return [shaped(each, schema["items"]) for each in value]
    return value


def unknown_fields(value: Json, schema: Schema, path: str = "") -> Iterator[str]:
    """The paths of what pruning would take away."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        more = schema.get("additionalProperties")
        for key, inner in value.items():
            below = f"{path}.{key}" if path else key
            if key in properties:
                yield from unknown_fields(inner, properties[key], below)
            elif isinstance(more, Mapping):
                yield from unknown_fields(inner, more, below)
            elif not (schema.get(_OPEN) or more is True):
                yield below
    elif isinstance(value, list) and "items" in schema:
        for place, each in enumerate(value):
            yield from unknown_fields(each, schema["items"], f"{path}[{place}]")


def wrongs(
    value: Json, old: Json, schema: Schema, path: str = "", *, ruled: bool = False
) -> list[Cause]:
    """What is wrong with an object, or with its status by itself.

    Args:
        value: as `shaped` left it.
        old: what is stored; None for a creation.
        schema: of the value.
        path: of the value in the object.
        ruled: whether the kind has rules beyond its schema, somewhere.
    """
    if value == old:
        return []
    found = [*_against_schema(value, schema, path, "")]
    duplicates = [*_duplicates(value, schema, path)]
    if any(cause.kind in _BLOCKING for cause in found):
        return [*found, *duplicates, *([_NOT_CHECKED] if ruled else ())]
    return [*found, *duplicates, *_against_rules(value, old, schema, path)]


def _against_schema(value: Json, schema: Schema, path: str, name: str) -> Iterator[Cause]:
    wanted = schema.get("type")
    if wanted is not None and not _is_a(value, wanted):
        given = _type_of(value)
        told = f'Invalid value: "{given}": {name} in body must be of type {wanted}: "{given}"'
        yield Cause("TypeInvalid", path, told)
        return
    shown = orjson.dumps(value).decode() if isinstance(value, str | int) else ""
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{each}"' for each in schema["enum"])
        yield Cause(
            "NotSupported", path, f"Unsupported value: {shown}: supported values: {supported}"
        )
    if isinstance(value, str):
        if len(value) > schema.get("maxLength", len(value)):
            told = f"Too long: may not be more than {schema['maxLength']} bytes"
            yield Cause("TooLong", path, told)
        if len(value) < schema.get("minLength", 0):
            told = f"{name} in body should be at least {schema['minLength']} chars long"
            yield Cause("Invalid", path, f"Invalid value: {shown}: {told}")
        elif "pattern" in schema and not _pattern(schema["pattern"]).search(value):
            told = f"{name} in body should match '{schema['pattern']}'"
            yield Cause("Invalid", path, f"Invalid value: {shown}: {told}")
        if schema.get("format") == "date-time" and not _is_time(value):
            told = f"Invalid value: {shown}: {name} in body must be of type date-time: {shown}"
            yield Cause("TypeInvalid", path, told)
    elif isinstance(value, int):
        if value < schema.get("minimum", value):
            told = f"{name} in body should be greater than or equal to {schema['minimum']}"
            yield Cause("Invalid", path, f"Invalid value: {shown}: {told}")
        if value > schema.get("maximum", value):
            told = f"{name} in body should be less than or equal to {schema['maximum']}"
            yield Cause("Invalid", path, f"Invalid value: {shown}: {told}")
    elif isinstance(value, dict):
        for key in schema.get("required", ()):
            if key not in value:
                yield Cause("Required", _below(path, key), "Required value")
        more = schema.get("additionalProperties")
        for key, inner in value.items():
            of = schema.get("properties", {}).get(key, more)
            if isinstance(of, Mapping):
                yield from _against_schema(inner, of, _below(path, key), _below(name, key))
    elif isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            told = f"Too many: {len(value)}: must have at most {schema['maxItems']} items"
            yield Cause("TooMany", path, told)
        for place, each in enumerate(value):
            here = f"[{place}]"
            yield from _against_schema(each, schema.get("items", {}), path + here, name + here)


def _duplicates(value: Json, schema: Schema, path: str) -> Iterator[Cause]:
    """Items of a keyed list, or of a set, that are there twice."""
    if isinstance(value, dict):
        for key, inner in value.items():
            of = schema.get("properties", {}).get(key)
            if of is not None:
                yield from _duplicates(inner, of, _below(path, key))
    elif isinstance(value, list):
        keys = schema.get("x-kubernetes-list-map-keys")
        is_set = schema.get("x-kubernetes-list-type") == "set"
        seen = set()
        for place, each in enumerate(value):
            if keys and isinstance(each, dict):
                mark = orjson.dumps({key: each.get(key) for key in keys}).decode()
            elif is_set:
                mark = orjson.dumps(each).decode()
            else:
                continue
            if mark in seen:
                yield Cause("Duplicate", f"{path}[{place}]", f"Duplicate value: {mark}")
            seen.add(mark)


def _against_rules(value: Json, old: Json, schema: Schema, path: str) -> Iterator[Cause]:
    """CEL rules; one that compares needs a value to compare with."""
    for rule in schema.get(_RULES, ()):
        text = " ".join(rule["rule"].split())
        if text == _IMMUTABLE:
            is_right = old is None or value == old
        else:
            is_right = _JUDGED.get(text, lambda _: True)(value)
        if not is_right:
            told = rule["message"]
            judged = value["metadata"]["name"] if isinstance(value, dict) else value
            if "messageExpression" in rule:
                told = f'"{judged}" {told}'
            shown = "" if isinstance(value, dict) else f"{orjson.dumps(value).decode()}: "
            yield Cause("Invalid", path or "<nil>", f"Invalid value: {shown}{told}")
    if isinstance(value, dict):
        for key, inner in value.items():
            of = schema.get("properties", {}).get(key)
            if of is not None and inner is not None:
                before = old.get(key) if isinstance(old, dict) else None
                yield from _against_rules(inner, before, of, _below(path, key))


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def has_rules(schema: Schema) -> bool:
    """Whether a kind has rules beyond its schema, somewhere."""
    inner = [*schema.get("properties", {}).values()]
    inner += [each for each in (schema.get("items"),) if each]
    return _RULES in schema or any(has_rules(each) for each in inner)


def _is_a(value: Json, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted])


def _type_of(value: Json) -> str:
    if value is None:
        return "null"
    return next(name for name in ("boolean", *_TYPES) if _is_a(value, name))


def _is_time(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return "T" in text.upper()


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
