"""Names of template claims, which say for which VMI each was made (rule 3.2)."""

from __future__ import annotations

import hashlib
from typing import Final

from shared.core.model import Claim

NAME_LENGTH_MAX: Final = 253
"""The longest name of an object (RFC 1123 subdomain)."""

_HASH_LENGTH: Final = 16


def template_name(vmi_uid: str, entry: int) -> str:
    """The name of the template claim of one class entry of a VMI (rule 3.2).

    One that would be too long for a name is cut, and a hash of the whole keeps it unique.
    """
    name = f"{vmi_uid}-{entry}"
    if len(name) <= NAME_LENGTH_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    return f"{name[: NAME_LENGTH_MAX - _HASH_LENGTH - 1].rstrip('-.')}-{digest}"


def made_for(claim: Claim) -> str:
    """The uid of the VMI for whose class entry a claim was made; empty for an order.

    Its owner, or what its name begins with where the garbage collector took the owner away: the
    binder alone makes such claims. Empty too where such a name was cut.
    """
    if claim.owner or not claim.is_template:
        return claim.owner
    uid, _, entry = claim.name.rpartition("-")
    return uid if entry.isdecimal() else ""
