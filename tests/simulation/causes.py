"""What is wrong with one field of an object."""

from __future__ import annotations

from dataclasses import dataclass


class Unsimulated(Exception):
    """What the real one answers is not known here; the message says to what. Never a guess."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong with one field; `kind` is the last word of the wire's reason."""

    kind: str
    field: str
    message: str

    def to_json(self) -> dict[str, str]:
        """As it stands in `details.causes`."""
        return {
            "reason": f"FieldValue{self.kind}",
            "message": self.message,
            "field": self.field,
        }
