"""CEL rules that the API server itself holds stored objects to (x-kubernetes-validations).

They hold while our webhooks are down. Two things to know when adding one: a rule that compares
with `oldSelf` is passed by removing the field and adding it again, so such a field must be
required; and the API server estimates the cost beforehand from the bounds of strings and lists,
so everything needs a bound. What is used here exists in Kubernetes 1.31 and later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

VALIDATIONS: Final = "x-kubernetes-validations"

Extra = dict[str, Any]
"""Further members of a JSON schema."""


def rule(expression: str, says: str) -> Mapping[str, str]:
    """One rule.

    Args:
        expression: CEL over `self` (and `oldSelf`); true where all is well.
        says: CEL for the message: what is wrong with which value, and what would be right. The
            API server puts the path of the field before it, but of the value often only the type.
    """
    return {"rule": expression, "messageExpression": says}


def immutable(advice: str) -> Mapping[str, str]:
    """A field that keeps its first value; `advice` says what to do instead."""
    return {"rule": "self == oldSelf", "message": f"is immutable: {advice}"}


def held_to(*rules: Mapping[str, str]) -> Extra:
    """The schema members for a field (or a whole model) with these rules."""
    return {VALIDATIONS: [dict(r) for r in rules]}


def keyed_by(key: str) -> Extra:
    """A list whose items differ in this member; writers may each own some of them."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


ATOMIC: Final[Extra] = {"x-kubernetes-list-type": "atomic"}
"""A list that is written as a whole."""

SET: Final[Extra] = {"x-kubernetes-list-type": "set"}
"""A list of scalars without duplicates."""

RESOURCE_NAME: Final = (
    rule(
        "self.contains('/')",
        "'\"' + self + '\" has no domain: give the extended resource that the device plugin"
        " advertises on nodes, such as nvidia.com/GA102GL_A10'",
    ),
    rule(
        "!self.contains('kubernetes.io/')",
        "'\"' + self + '\" is a resource of Kubernetes itself: give the extended resource that the"
        " device plugin advertises on nodes, such as nvidia.com/GA102GL_A10'",
    ),
    rule(
        "!self.startsWith('requests.') && !self.startsWith('limits.')"
        " && !self.endsWith('.gpuclass.gpu.cozystack.io/units')",
        "'\"' + self + '\" is a key of a quota: give the resource itself, without requests. or"
        " limits., such as nvidia.com/GA102GL_A10'",
    ),
    rule(
        "!self.contains('/') || !format.qualifiedName().validate('requests.' + self).hasValue()",
        "'\"' + self + '\" is no name of an extended resource: give a domain in lower case of at"
        ' most 244 characters, a slash, and at most 63 letters, digits, "-", "_" or "." that'
        " begin and end with a letter or digit, such as nvidia.com/GA102GL_A10'",
    ),
)
"""An extended resource as Kubernetes takes it in pods and, after `requests.`, in quotas."""

POSITIVE_QUANTITY: Final = (
    rule(
        "isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",
        "'\"' + self + '\" is no positive quantity: give the bytes of one unit, such as 24Gi'",
    ),
)

DNS_LABEL: Final = (
    rule(
        "!format.dns1123Label().validate(self).hasValue()",
        "'\"' + self + '\" is no name of a class: give at most 63 lower-case letters, digits or"
        ' "-" that begin and end with a letter or digit, such as a100-80g\'',
    ),
)

CLASS_NAME: Final = (
    rule(
        "!format.dns1123Label().validate(self.metadata.name).hasValue()",
        "'metadata.name \"' + self.metadata.name + '\" is no name of a class: give at most 63"
        ' lower-case letters, digits or "-" that begin and end with a letter or digit, such as'
        " a100-80g'",
    ),
)

SECRET_NAME: Final = (
    rule(
        "!format.dns1123Subdomain().validate(self).hasValue()",
        "'\"' + self + '\" is no name of a Secret: give at most 253 lower-case letters, digits,"
        ' "-" or ".", such as nvidia-license\'',
    ),
)

TOLERATION: Final = (
    rule(
        "!has(self.key) || self.key == '' || !format.qualifiedName().validate(self.key).hasValue()",
        "'key \"' + self.key + '\" is no key of a taint: give an optional domain and a slash, and"
        ' at most 63 letters, digits, "-", "_" or ".", such as nvidia.com/gpu\'',
    ),
    rule(
        "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
        "'operator must be Exists where key is empty, which tolerates every taint'",
    ),
    rule(
        "!has(self.value) || !has(self.operator) || self.operator != 'Exists' || self.value == ''",
        "'value \"' + self.value + '\" must be empty where operator is Exists'",
    ),
    rule(
        "!has(self.value) || !format.labelValue().validate(self.value).hasValue()",
        "'value \"' + self.value + '\" is no value of a taint: give at most 63 letters, digits,"
        ' "-", "_" or "." that begin and end with a letter or digit\'',
    ),
    rule(
        "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        "'effect must be NoExecute where tolerationSeconds is set'",
    ),
)
"""As Kubernetes validates a pod's toleration."""

ONLY_NAME: Final = "self.metadata.name == '{name}'"
