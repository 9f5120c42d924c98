"""docs/api.md: every kind with its fields, from the models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.api import gpuclaim, gpuclass, gpuclassoption, gpusystem
from shared.api.conditions import Condition
from shared.api.schema import kind_schema, schema_of
from shared.reasons import Reason
from shared.vocabulary import (
    CATALOG_GROUP_VERSION,
    CATEGORY,
    GROUP_VERSION,
    KIND_CLAIM,
    KIND_CLASS,
    KIND_OPTION,
    KIND_SYSTEM,
    RESOURCE_CLAIMS,
    RESOURCE_CLASSES,
    RESOURCE_OPTIONS,
    RESOURCE_SYSTEMS,
    SHORT_CLAIMS,
    SHORT_CLASSES,
    SHORT_OPTIONS,
    SHORT_SYSTEMS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shared.api.base import Model
    from shared.api.columns import Column

CONDITION: Final = schema_of(Condition)

CONDITIONS: Final = """\
## Conditions

The standard conditions of Kubernetes (`metav1.Condition`), one of each type: `kubectl wait
--for=condition=Bound gpuclaim/NAME` works.

"""

INTRODUCTION: Final = f"""\
<!-- Generated from shared/api by `make generate`. Do not edit. -->

# API reference

All kinds are in the category `{CATEGORY}`: `kubectl get {CATEGORY} -A` lists them all. `kubectl
explain` tells of each field what this page tells. A field is optional unless it says "required".
Times are RFC 3339, memory is a Kubernetes quantity, counts are whole units. A figure that is not
known, or not shown, is absent: no number stands for it.

"""

HEAD: Final = ("Field", "Type", "Description")

REASONS: Final = """\
## Reasons

Conditions, refusals, events, metrics and `limitedBy` use one list of reasons. Where several hold,
the first in this order is named. [reasons.md](reasons.md) says what each means and what to do.

"""


@dataclass(frozen=True, slots=True)
class Documented:
    """A kind with what is said of it beside its fields."""

    model: type[Model]
    columns: tuple[Column, ...]
    api_version: str
    kind: str
    plural: str
    short: str
    scope: str
    written: str


DOCUMENTED: Final = (
    Documented(
        gpuclassoption.GPUClassOption,
        gpuclassoption.COLUMNS,
        CATALOG_GROUP_VERSION,
        KIND_OPTION,
        RESOURCE_OPTIONS,
        SHORT_OPTIONS,
        "namespaced",
        "nobody: computed, read-only",
    ),
    Documented(
        gpuclaim.GPUClaim,
        gpuclaim.COLUMNS,
        GROUP_VERSION,
        KIND_CLAIM,
        RESOURCE_CLAIMS,
        SHORT_CLAIMS,
        "namespaced",
        "tenants (spec), binder (status)",
    ),
    Documented(
        gpuclass.GPUClass,
        gpuclass.COLUMNS,
        GROUP_VERSION,
        KIND_CLASS,
        RESOURCE_CLASSES,
        SHORT_CLASSES,
        "cluster",
        "hosters (spec), binder (status)",
    ),
    Documented(
        gpusystem.GPUSystem,
        gpusystem.COLUMNS,
        GROUP_VERSION,
        KIND_SYSTEM,
        RESOURCE_SYSTEMS,
        SHORT_SYSTEMS,
        "cluster",
        "binder",
    ),
)


def document() -> str:
    """The text of docs/api.md."""
    kinds = "".join(_section(d) for d in DOCUMENTED)
    return INTRODUCTION + _overview() + kinds + _conditions() + _reasons()


def _overview() -> str:
    rows = [
        (
            f"[{d.kind}](#{d.kind.lower()})",
            f"`{d.api_version}`",
            f"`{d.plural}`",
            f"`{d.short}`",
            d.scope,
            d.written,
        )
        for d in DOCUMENTED
    ]
    return _table(("Kind", "apiVersion", "Resource", "Short", "Scope", "Written by"), rows) + "\n"


def _section(documented: Documented) -> str:
    schema = kind_schema(
        documented.model,
        metadata={"type": "object", "description": _metadata(documented.model)},
    )
    return (
        f"## {documented.kind}\n\n{schema['description']}\n\n"
        f"`kubectl get {documented.plural}` shows {_names(documented.columns, 0)}; `-o wide` adds"
        f" {_names(documented.columns, 1)}.\n\n" + _table(HEAD, _fields(schema, "")) + "\n"
    )


def _metadata(model: type[Model]) -> str:
    return model.model_fields["metadata"].description or ""


def _names(columns: Iterable[Column], priority: int) -> str:
    names = [column.name.upper() for column in columns if column.priority == priority]
    if priority == 0 and "NAME" not in names:
        names.insert(0, "NAME")  # kubectl's own, before the columns of a CRD
    return ", ".join(f"`{name}`" for name in names)


def _fields(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """Each field below, depth first: path, type with its bounds, description."""
    for name, value in schema["properties"].items():
        here = f"{path}{name}"
        required = name in schema.get("required", ())
        yield f"`{here}`", _type(value, required=required), value.get("description", "")
        if "properties" in value:
            yield from _fields(value, f"{here}.")
        elif value.get("items") == CONDITION:
            continue
        elif "properties" in value.get("items", {}):
            yield from _fields(value["items"], f"{here}[].")


def _type(schema: Mapping[str, Any], *, required: bool) -> str:
    default = schema.get("default", {})  # a whole object is no matter for a cell
    return "; ".join(
        part
        for part in (
            _plain(schema),
            _bounds(schema),
            "" if isinstance(default, dict) else f"default `{default}`",
            "required" if required else "",
        )
        if part
    )


def _plain(schema: Mapping[str, Any]) -> str:
    if schema.get("enum") == [r.value for r in Reason]:
        return "[reason](#reasons)"
    if "enum" in schema:
        return " or ".join(f"`{value}`" if value else "empty" for value in schema["enum"])
    if schema == CONDITION:
        return "[condition](#conditions)"
    if schema["type"] == "array":
        return f"list of {_plain(schema['items'])}"
    return str({"date-time": "time"}.get(schema.get("format", ""), schema["type"]))


def _bounds(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"minimum": low, "maximum": high} if high < 2**31 - 1:
            return f"{low} to {high}"
        case {"maxItems": most}:
            return f"at most {most}"
        case {"format": "date-time"}:
            return ""  # as long as it is
        case {"maxLength": most}:
            return f"at most {most} characters"
        case _:
            return ""


def _conditions() -> str:
    return CONDITIONS + _table(HEAD, _fields(CONDITION, "")) + "\n"


def _reasons() -> str:
    return REASONS + "\n".join(f"{n}. `{reason}`" for n, reason in enumerate(Reason, 1)) + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
