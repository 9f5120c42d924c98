"""How large a world is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class Size:
    """How many of each kind; VMs, their pods and what follows are shares of these.

    Attributes:
        nodes: each with 8 units of a device, every fourth with a second kind of device.
        pods: launchers of VMs with and without devices, pods that name devices, ordinary ones.
        claims: orders and template claims, most of them bound and in use.
        tenants: namespaces in a tree of up to five levels.
        quotas: budgets for devices and classes, and ordinary quotas.
        classes: one resource name each.
    """

    nodes: int
    pods: int
    claims: int
    tenants: int
    quotas: int
    classes: int

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("tenants", 1), ("classes", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)}, expected at least {least}")

    @classmethod
    def of_nodes(cls, nodes: int, classes: int) -> Self:
        """A world in which everything grows with the nodes: as dense at every size."""
        return cls(
            nodes=nodes,
            pods=nodes * 5,
            claims=nodes,
            tenants=max(1, nodes // 20),
            quotas=max(2, nodes // 10),
            classes=classes,
        )

    @override
    def __str__(self) -> str:
        return (
            f"{self.nodes} nodes, {self.pods} pods, {self.claims} claims, {self.tenants} tenants, "
            f"{self.quotas} quotas, {self.classes} classes"
        )


FULL = Size(nodes=5000, pods=100_000, claims=20_000, tenants=1000, quotas=2000, classes=50)
"""The size of rule 11."""
