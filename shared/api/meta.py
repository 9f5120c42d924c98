"""Metadata of objects and lists: what our kinds carry of metav1.ObjectMeta and ListMeta."""

from __future__ import annotations

from pydantic import Field

from shared.api.base import Generation, Model, Name, Time, Uid


class ObjectMeta(Model):
    """Standard object metadata, as far as we write or read it."""

    name: Name | None = None
    """Name, unique in its namespace, or in the cluster where the kind has no namespace."""

    namespace: Name | None = None
    """Namespace; absent where the kind has none."""

    uid: Uid | None = None
    """Identity of this object: another object of the same name has another."""

    resource_version: str | None = None
    """Version of this object, to be compared by clients of the same resource."""

    generation: Generation | None = None
    """Number of the present spec, raised by each change of it."""

    creation_timestamp: Time | None = None
    """When the object was made."""

    deletion_timestamp: Time | None = None
    """When its deletion was asked for; it is gone once its finalizers are."""

    labels: dict[str, str] | None = None
    """Labels, to select by."""

    annotations: dict[str, str] | None = None
    """Annotations, not to select by."""

    finalizers: list[str] | None = None
    """Who must still let go before a deleted object is gone."""


class ListMeta(Model):
    """Standard list metadata."""

    resource_version: str | None = None
    """Version of the collection: a watch from here sees all that changed since."""

    continue_: str | None = Field(default=None, alias="continue")
    """Token for the next part, where the list was cut."""

    remaining_item_count: int | None = None
    """How many objects follow after this part, where known."""
