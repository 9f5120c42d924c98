"""What a column of a table is: the same for kinds that are stored and for those we serve."""

from __future__ import annotations

from dataclasses import dataclass

Cell = str | int
"""One cell of a row; figures are whole numbers."""

NONE = "<none>"
"""A cell whose field is absent because there is nothing to say, as in kubectl's own tables."""

UNKNOWN = "<unknown>"
"""A cell whose field is absent because the figure is not known, or not shown to tenants."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table (metav1.TableColumnDefinition).

    `type` and `format` are OpenAPI's; `priority` 0 is always shown, 1 only by `-o wide`;
    `json_path` says where the API server finds the value in a stored object.
    """

    name: str
    type: str
    description: str
    format: str = ""
    priority: int = 0
    json_path: str = ""
