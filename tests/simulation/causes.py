"""What is wrong with one field of an object."""

from __future__ import annotations

from dataclasses import dataclass


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
