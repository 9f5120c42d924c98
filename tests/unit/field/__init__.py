"""Troubles that others reported from the field, on raw objects (docs/design.md, section 12)."""
