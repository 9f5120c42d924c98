"""From a model to the OpenAPI schema that Kubernetes takes: structural, with nothing to resolve.

CRDs (apiextensions.k8s.io/v1) and our own OpenAPI documents are made with it. What pydantic
writes and Kubernetes refuses or shows to nobody is taken away: `$ref`, `title`, `anyOf` with
null, defaults of null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from shared.api.rules import VALIDATIONS

if TYPE_CHECKING:
    from shared.api.base import Model

Schema = dict[str, Any]
"""An OpenAPI v3.0 schema object."""

_DEFINITIONS: Final = "#/$defs/"

_ORDER: Final = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "minimum",
    "maximum",
    "pattern",
    "minLength",
    "maxLength",
    "maxItems",
    "required",
    "properties",
    "items",
    "additionalProperties",
)
"""In which order members are written, for people; others follow."""


def schema_of(model: type[Model], *, rules: bool = True) -> Schema:
    """The schema of a model, all that it refers to written out in place.

    Args:
        model: may not contain itself.
        rules: with the CEL rules; what is served and never written has no use for them.
    """
    raw = model.model_json_schema(by_alias=True)
    return _resolve(raw, raw.get("$defs", {}), rules=rules)


def kind_schema(model: type[Model], *, metadata: Schema, rules: bool = True) -> Schema:
    """The schema of a kind: `metadata` as given, apiVersion and kind as plain strings."""
    schema = schema_of(model, rules=rules)
    properties = schema["properties"]
    for name in ("apiVersion", "kind"):
        properties[name].pop("default", None)
    properties["metadata"] = metadata
    schema["required"] = [n for n in schema.get("required", ()) if n != "metadata"]
    if not schema["required"]:
        del schema["required"]
    return schema


def _resolve(raw: Mapping[str, Any], defs: Mapping[str, Any], *, rules: bool) -> Schema:
    """One schema, its references and its alternatives with null replaced by what they mean."""
    own = {k: v for k, v in raw.items() if k not in {"$defs", "$ref", "anyOf", "title"}}
    inner = _meant(raw, defs, rules=rules)
    schema = inner | own
    if both := inner.get(VALIDATIONS, []) + own.get(VALIDATIONS, []):
        schema[VALIDATIONS] = both
    if not rules:
        schema.pop(VALIDATIONS, None)
    if schema.get("default", ...) is None:
        del schema["default"]
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    if "items" in own:
        schema["items"] = _resolve(own["items"], defs, rules=rules)
    if isinstance(own.get("additionalProperties"), Mapping):
        schema["additionalProperties"] = _resolve(own["additionalProperties"], defs, rules=rules)
    if "properties" in own:
        schema["properties"] = {
            name: _resolve(value, defs, rules=rules) for name, value in own["properties"].items()
        }
    ranks = {name: rank for rank, name in enumerate(_ORDER)}
    return dict(sorted(schema.items(), key=lambda item: ranks.get(item[0], len(ranks))))


def _meant(raw: Mapping[str, Any], defs: Mapping[str, Any], *, rules: bool) -> Schema:
    """What a reference or an alternative with null stands for; empty where there is neither."""
    if "$ref" in raw:
        return _resolve(defs[raw["$ref"].removeprefix(_DEFINITIONS)], defs, rules=rules)
    if "anyOf" in raw:
        (only,) = (part for part in raw["anyOf"] if part != {"type": "null"})
        return _resolve(only, defs, rules=rules)
    return {}
