"""CEL rules that the API server itself holds stored objects to (x-kubernetes-validations).

They hold while our webhooks are down. Two things to know when adding one: a rule that compares
with `oldSelf` is passed by removing the field and adding it again, so such a field must be
required; and the API server estimates the cost beforehand from the bounds of strings and lists,
so everything needs a bound. What is used here is in Kubernetes 1.31 and later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from shared.vocabulary import CLASS_KEY_SUFFIX

VALIDATIONS: Final = "x-kubernetes-validations"

Rule = Mapping[str, str]
"""One item of x-kubernetes-validations."""

Extra = dict[str, Any]
"""Further members of a JSON schema."""


def rule(expression: str, *, value: str = "self", wrong: str, field: str = "") -> Rule:
    """One rule.

    Args:
        expression: CEL over `self` (and `oldSelf`); true where all is well.
        value: CEL for the value that is judged, a string.
        wrong: what is wrong with it, and what would be right; follows the value in quotes.
        field: path of the field that is at fault, from the place of the rule, such as `.key`.
    """
    made: dict[str, str] = {
        "rule": expression,
        # The API server names the field, but before Kubernetes 1.34 of the value only its type.
        "messageExpression": f"""'"' + {value} + '" ' + {_literal(wrong)}""",
        # Instead of the former where a value has a line break in it.
        "message": wrong,
    }
    return made | {"fieldPath": field} if field else made


def immutable(advice: str) -> Rule:
    """A field that keeps its first value; `advice` says what to do instead."""
    return {"rule": "self == oldSelf", "message": f"is immutable: {advice}"}


def only_name(kind: str, name: str) -> Rule:
    """A kind of which there is one object, with this name."""
    return rule(
        f"self.metadata.name == '{name}'",
        value="self.metadata.name",
        wrong=f"is no name for a {kind}: there is one, with the metadata.name {name}",
    )


def held_to(*rules: Rule) -> Extra:
    """The schema members for a field (or a whole model) with these rules."""
    return {VALIDATIONS: [dict(r) for r in rules]}


def keyed_by(key: str) -> Extra:
    """A list whose items differ in this member; writers may each own some of them."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


def _literal(text: str) -> str:
    """A text as CEL writes it."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


ATOMIC: Final[Extra] = {"x-kubernetes-list-type": "atomic"}
"""A list that is written as a whole."""

SET: Final[Extra] = {"x-kubernetes-list-type": "set"}
"""A list of scalars without duplicates."""

_SUCH_AS: Final = "the extended resource that the device plugin advertises on nodes, such as"
_NAME_PART: Final = (
    'at most 63 letters, digits, "-", "_" or "." that begin and end with a letter or digit'
)
_CLASS_NAME: Final = (
    'is no name of a GPUClass: give at most 63 lower-case letters, digits or "-" that begin and'
    " end with a letter or digit, such as a100-80g"
)

RESOURCE_NAME: Final = (
    rule(
        "self.contains('/')",
        wrong=f"has no domain: give {_SUCH_AS} nvidia.com/GA102GL_A10",
    ),
    rule(
        "!self.contains('kubernetes.io/')",
        wrong=f"belongs to Kubernetes itself: give {_SUCH_AS} nvidia.com/GA102GL_A10",
    ),
    rule(
        "!self.startsWith('requests.') && !self.startsWith('limits.')"
        f" && !self.endsWith('{CLASS_KEY_SUFFIX}')",
        wrong=f"is the key of a quota: give {_SUCH_AS} nvidia.com/GA102GL_A10",
    ),
    rule(
        "!self.contains('/') || !format.qualifiedName().validate('requests.' + self).hasValue()",
        wrong="is no name of an extended resource: give a domain of at most 244 lower-case letters,"
        f' digits, "-" or ".", a slash, and {_NAME_PART}, such as nvidia.com/GA102GL_A10',
    ),
)
"""An extended resource as Kubernetes takes it in pods and, after `requests.`, in quotas: pinned
to `IsExtendedResourceName` of Kubernetes by tests. Budget keys of classes look like one too."""

# An exponent of many digits would cost the API server minutes in isQuantity.
POSITIVE_QUANTITY: Final = (
    rule(
        "self.matches('^[0-9.]+([KMGTPE]i|[kMGTPEmun]|[eE][0-9]{1,2})?$')"
        " && isQuantity(self) && quantity(self).isGreaterThan(quantity('0'))",
        wrong="is no positive quantity: give the bytes of one unit, such as 24Gi",
    ),
)

CLASS_REFERENCE: Final = (
    rule("!format.dns1123Label().validate(self).hasValue()", wrong=_CLASS_NAME),
)

# A name is a DNS subdomain already; to hold it to a label's format again would cost too much,
# since a CRD cannot say how long it is at most.
CLASS_NAME: Final = (
    rule(
        "self.metadata.name.size() <= 63 && !self.metadata.name.contains('.')",
        value="self.metadata.name",
        wrong=f"as metadata.name {_CLASS_NAME}",
    ),
)

SECRET_NAME: Final = (
    rule(
        "!format.dns1123Subdomain().validate(self).hasValue()",
        wrong="is no name of a Secret: give at most 253 lower-case letters, digits,"
        ' "-" or "." that begin and end with a letter or digit, such as nvidia-license',
    ),
)

TOLERATION: Final = (
    rule(
        "!has(self.key) || self.key == '' || !format.qualifiedName().validate(self.key).hasValue()",
        value="self.key",
        wrong=f"is no key of a taint: give {_NAME_PART}, after a domain and a slash if there is"
        " one, such as nvidia.com/gpu",
        field=".key",
    ),
    rule(
        "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
        value="(has(self.operator) ? self.operator : '')",
        wrong="must be Exists where key is empty, which tolerates every taint",
        field=".operator",
    ),
    rule(
        "!has(self.value) || !has(self.operator) || self.operator != 'Exists' || self.value == ''",
        value="self.value",
        wrong="must be empty where operator is Exists, which tolerates every value",
        field=".value",
    ),
    rule(
        "!has(self.value) || !format.labelValue().validate(self.value).hasValue()",
        value="self.value",
        wrong=f"is no value of a taint: give {_NAME_PART}",
        field=".value",
    ),
    rule(
        "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
        value="(has(self.effect) ? self.effect : '')",
        wrong="must be NoExecute where tolerationSeconds is set",
        field=".effect",
    ),
)
"""A toleration as Kubernetes takes it in a pod."""
