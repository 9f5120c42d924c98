"""A source of options that is a table: what a test puts in is what is served."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from shared.core.cluster import Touched
from shared.core.model import GpuClass
from shared.core.options import Availability, Budget, Option
from shared.core.tenants import is_within
from shared.core.terms import BudgetState, Grant, Level, Truth
from shared.reasons import Reason


def a_class(name: str, **changes: object) -> GpuClass:
    """A class; state only what matters."""
    plain = GpuClass(
        name=name,
        resource_name=f"example.org/{name}",
        uid=f"uid-of-{name}",
        created="2026-01-02T03:04:05Z",
        memory="80Gi",
        vendor="NVIDIA",
    )
    return replace(plain, **changes)  # type: ignore[arg-type] # fields by name


class Table:
    """Classes, namespaces, and how many units of a class each namespace may order."""

    def __init__(self, *namespaces: str) -> None:
        self.known = set(namespaces)
        self.classes: dict[str, GpuClass] = {}
        self.units: dict[tuple[str, str], int] = {}
        self.computed = 0
        self.broken = False

    def put(self, gpu_class: GpuClass) -> Touched:
        """Add or change a class."""
        self.classes[gpu_class.name] = gpu_class
        return Touched(classes=frozenset({gpu_class.name}))

    def remove(self, class_name: str) -> Touched:
        """Remove a class."""
        del self.classes[class_name]
        return Touched(classes=frozenset({class_name}))

    def allow(self, namespace: str, class_name: str, units: int) -> Touched:
        """Set how many units a namespace may order."""
        self.units[namespace, class_name] = units
        return Touched(budgets=frozenset({(class_name, namespace)}))

    def add_namespace(self, namespace: str) -> Touched:
        """Add a namespace."""
        self.known.add(namespace)
        return Touched(namespaces=frozenset({namespace}))

    def remove_namespace(self, namespace: str) -> Touched:
        """Remove a namespace."""
        self.known.remove(namespace)
        return Touched(namespaces=frozenset({namespace}))

    # As `OptionSource` says.

    def namespaces(self) -> Collection[str]:
        return self.known

    def class_names(self) -> Collection[str]:
        return self.classes.keys()

    def option(self, namespace: str, class_name: str) -> Option | None:
        self.computed += 1
        if self.broken:
            raise RuntimeError("the secret thing that broke")
        gpu_class = self.classes.get(class_name)
        if gpu_class is None or namespace not in self.known:
            return None
        units = self.units.get((namespace, class_name), 4)
        return Option(
            namespace=namespace,
            gpu_class=gpu_class,
            orderable=units,
            limited_by=(Reason.NO_CAPACITY,),
            availability=Availability(
                level=Level.HIGH, free=units, total=8, unavailable=0, largest_set=units
            ),
            budget=Budget(BudgetState.UNLIMITED),
            entitlement=Grant.NOT_REQUIRED,
            selectable=Truth.TRUE if units else Truth.FALSE,
            reason=Reason.AVAILABLE if units else Reason.NO_CAPACITY,
            message=f"up to {units}",
            label=class_name,
            text=f"up to {units}",
        )

    def is_within(self, namespace: str, top: str) -> bool:
        return is_within(namespace, top)
