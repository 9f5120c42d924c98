"""What pods ask for: each shape by container as written, and what Kubernetes makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

MI = 2**20
KUBEVIRT_DEVICES = (
    "devices.kubevirt.io/kvm",
    "devices.kubevirt.io/tun",
    "devices.kubevirt.io/vhost-net",
)


@dataclass(frozen=True, eq=False)
class Shape:
    """One pod's containers: milli-CPUs and bytes each; `devices` are the first one's.

    Attributes:
        is_launcher: built as KubeVirt builds them, else as a Deployment does.
        cpus: thousandths of a CPU, by container.
        memory: bytes, by container.
        storage: bytes of the first container.
        devices: extended resources of the first container.
    """

    is_launcher: bool
    cpus: tuple[int, ...]
    memory: tuple[int, ...]
    storage: int = 0
    devices: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def total(self) -> Mapping[str, int]:
        """The sum, CPU in thousandths; all containers run side by side."""
        total = {"cpu": sum(self.cpus), "memory": sum(self.memory), **self.devices}
        if self.storage:
            total["ephemeral-storage"] = self.storage
        return dict(sorted(total.items()))

    def with_devices(self, devices: Mapping[str, int]) -> Shape:
        """The same with more devices."""
        return _with_devices(self, tuple(devices.items()))


@cache
def _with_devices(shape: Shape, devices: tuple[tuple[str, int], ...]) -> Shape:
    return replace(shape, devices={**shape.devices, **dict(devices)})


LAUNCHERS = tuple(
    Shape(
        is_launcher=True,
        cpus=(100 * cores, 5),
        memory=((1024 * gibibytes + 1348) * MI, 35_000_000),
        storage=50_000_000,
        devices=dict.fromkeys(KUBEVIRT_DEVICES, 1),
    )
    for cores, gibibytes in ((2, 2), (4, 8), (8, 32), (16, 64), (16, 128), (32, 256))
)
"""compute, and the sidecar that writes the guest's console to the log."""

ORDINARY = (
    Shape(is_launcher=False, cpus=(2000,), memory=(8192 * MI,)),
    Shape(is_launcher=False, cpus=(100,), memory=(128 * MI,)),
    Shape(is_launcher=False, cpus=(250, 10), memory=(512 * MI, 32 * MI)),
    Shape(is_launcher=False, cpus=(500, 50, 10), memory=(1024 * MI, 64 * MI, 32 * MI)),
)
