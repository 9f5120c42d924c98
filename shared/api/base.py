"""What every model of the API has in common.

Field names are Python's inside and camelCase on the wire. The docstring under a field is its
description in CRDs, in OpenAPI (so in `kubectl explain`) and in docs/api.md: write it for users.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictInt
from pydantic.alias_generators import to_camel

from shared.vocabulary import EPOCH_MAX, INT32_MAX, LIMIT_UNITS

NAME_LENGTH: Final = 253
"""The longest name of an object (DNS subdomain)."""

LABEL_LENGTH: Final = 63
"""The longest DNS label, label value, and name part of a qualified name."""

QUALIFIED_LENGTH: Final = NAME_LENGTH + 1 + LABEL_LENGTH
"""The longest qualified name: a DNS subdomain, a slash, a name."""

RESOURCE_LENGTH: Final = QUALIFIED_LENGTH - len("requests.")
"""The longest name of an extended resource: `requests.` goes before it in quotas."""

MESSAGE_LENGTH: Final = 32768
"""The longest message of a condition (metav1.Condition)."""

UID_LENGTH: Final = 128
"""Longer than any uid that an API server makes (36)."""

Count = Annotated[StrictInt, Field(ge=0, le=INT32_MAX, json_schema_extra={"format": "int32"})]
"""A number of units. `"1"`, `1.0` and `true` are refused, as the API server refuses them."""

Units = Annotated[StrictInt, Field(ge=1, le=LIMIT_UNITS, json_schema_extra={"format": "int32"})]
"""A number of units that is asked for."""

Generation = Annotated[StrictInt, Field(ge=0, json_schema_extra={"format": "int64"})]
"""A metadata.generation, or a number that only grows."""

Epoch = Annotated[StrictInt, Field(ge=0, le=EPOCH_MAX, json_schema_extra={"format": "int64"})]
"""The number of a binder's term of office."""

Time = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
"""A point in time, RFC 3339, as written."""

Name = Annotated[str, Field(max_length=NAME_LENGTH)]
"""The name of an object."""

Uid = Annotated[str, Field(max_length=UID_LENGTH)]
"""A uid: opaque."""


class Model(BaseModel):
    """A JSON object; members that it does not know are ignored, absent ones stay absent."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
    )
