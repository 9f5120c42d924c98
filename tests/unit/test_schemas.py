"""What a model becomes in a CRD or in OpenAPI: a structural schema, as Kubernetes takes it."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from shared.api.base import Count, Model
from shared.api.meta import ObjectMeta
from shared.api.rules import held_to, immutable, rule
from shared.api.schema import kind_schema, schema_of
from shared.core.model import Lifecycle

NOT_EMPTY = rule("has(self.size)", value="'size'", wrong="is missing")


class Part(Model):
    """A part."""

    model_config = ConfigDict(json_schema_extra=held_to(NOT_EMPTY))

    size: Count | None = None
    """How large
    it is."""


class Whole(Model):
    """A whole."""

    api_version: str = "v1"
    """The version."""

    kind: str = "Whole"
    """The kind."""

    metadata: ObjectMeta
    """Metadata."""

    main_part: Annotated[Part, Field(json_schema_extra=held_to(immutable("make another")))]
    """The main part."""

    others: list[Part] | None = None
    """The others."""

    named: dict[str, Part] | None = None
    """Those with a name."""

    lifecycle: Lifecycle = Lifecycle.ACTIVE
    """What is left of it."""


SIZE = {"description": "How large it is.", "type": "integer", "format": "int32"} | {
    "minimum": 0,
    "maximum": 2147483647,
}
HAS_SIZE = {
    "rule": "has(self.size)",
    "messageExpression": "'\"' + 'size' + '\" ' + 'is missing'",
    "message": "is missing",
}
A_PART = {"description": "A part.", "type": "object", "properties": {"size": SIZE}}
RULES = "x-kubernetes-validations"


def test_what_a_model_refers_to_is_written_out_and_its_field_describes_it() -> None:
    got = kind_schema(Whole, metadata={"type": "object"})["properties"]

    assert got["others"] == {
        "description": "The others.",
        "type": "array",
        "items": A_PART | {RULES: [HAS_SIZE]},
    }
    assert got["named"] == {
        "description": "Those with a name.",
        "type": "object",
        "additionalProperties": A_PART | {RULES: [HAS_SIZE]},
    }
    assert got["lifecycle"] == {
        "description": "What is left of it.",
        "type": "string",
        "enum": ["Active", "Deprecated", "Closed"],
        "default": "Active",
    }


def test_the_rules_of_a_field_come_beside_those_of_its_type() -> None:
    part = kind_schema(Whole, metadata={"type": "object"})["properties"]["mainPart"]

    assert part == A_PART | {
        "description": "The main part.",
        RULES: [HAS_SIZE, {"rule": "self == oldSelf", "message": "is immutable: make another"}],
    }


def test_a_kind_has_the_metadata_it_is_given_and_need_not_name_itself() -> None:
    got = kind_schema(Whole, metadata={"type": "object"})

    assert got["required"] == ["mainPart"]
    assert got["properties"]["metadata"] == {"type": "object"}
    assert got["properties"]["kind"] == {"description": "The kind.", "type": "string"}
    assert got["properties"]["apiVersion"] == {"description": "The version.", "type": "string"}


def test_what_is_served_and_never_written_needs_no_rules() -> None:
    assert schema_of(Part, rules=False) == A_PART
    assert RULES not in str(kind_schema(Whole, metadata={"type": "object"}, rules=False))


def test_a_rule_quotes_what_cel_would_take_for_the_end_of_a_text() -> None:
    got = rule("true", wrong="is not the owner's: use a \\ instead")

    assert got["messageExpression"] == (
        r"""'"' + self + '" ' + 'is not the owner\'s: use a \\ instead'"""
    )


def test_a_rule_names_the_field_at_fault_where_that_is_not_its_place() -> None:
    assert "fieldPath" not in rule("true", wrong="is wrong")
    assert rule("true", wrong="is wrong", field=".key")["fieldPath"] == ".key"
