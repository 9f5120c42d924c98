"""What the container that runs a guest asks for."""

from __future__ import annotations

from collections import Counter
from typing import Final

from shared.quantity import ceil_units
from tests.cluster.api import Object
from tests.kubevirt.objects import items

MIB: Final = 1024**2

DEVICES: Final = (
    "devices.kubevirt.io/kvm",
    "devices.kubevirt.io/tun",
    "devices.kubevirt.io/vhost-net",
)
"""Every launcher takes one of each; KubeVirt's own device plugin offers them on each node."""

# Memory beside the guest's own, fitted to what was seen (KubeVirt observed 3): 276 MiB for 2 GiB
# and 2 CPUs, 1 GiB more with any device, 100 MiB more with CPUs of its own.
_ALWAYS_MIB: Final = 256
_PER_CPU_MIB: Final = 8
_PAGE_TABLES: Final = 512
_DEVICES_MIB: Final = 1024
_DEDICATED_MIB: Final = 100
_DEFAULT_GUEST: Final = "1Gi"


def compute(spec: Object) -> Object:
    """`resources` of the container `compute`, from an instance's spec.

    A GPU or other host device is one of its resource, in requests and in limits; the pod does not
    show which of the two lists it comes from (KubeVirt observed 2). What the user writes into
    `domain.resources` takes the place of what was counted (KubeVirt observed 2).
    """
    domain = spec["domain"]
    given = domain.get("resources") or {}
    extra = overhead_bytes(spec)
    counted = devices(spec)
    cpus = cpu_count(domain)
    memory = _mebibytes(guest_bytes(domain) + extra)
    requests: Object = {
        "memory": memory,
        "cpu": f"{cpus * 100}m",
        "ephemeral-storage": "50M",
        **dict.fromkeys(DEVICES, "1"),
        **counted,
    }
    limits: Object = {**dict.fromkeys(DEVICES, "1"), **counted}
    if _is_dedicated(domain):
        whole = {"cpu": str(cpus), "memory": memory}
        requests |= whole
        limits |= whole
    asked: Object = {
        "requests": requests | _given(given.get("requests"), extra),
        "limits": limits | _given(given.get("limits"), extra),
    }
    if claims := _claims(spec):
        asked["claims"] = claims
    return asked


def devices(spec: Object) -> dict[str, str]:
    """How many of each device's resource are named, in `gpus` and `hostDevices` together.

    An entry without `deviceName` takes its device from a claim of dynamic resource allocation and
    is no extended resource.
    """
    named = Counter(
        entry["deviceName"]
        for listed in ("gpus", "hostDevices")
        for entry in items(spec, "domain", "devices", listed)
        if entry.get("deviceName")
    )
    return {resource: str(count) for resource, count in named.items()}


def _claims(spec: Object) -> list[dict[str, str]]:
    """What comes from claims of dynamic resource allocation."""
    return [
        {"name": entry["claimName"], "request": entry["requestName"]}
        for listed in ("gpus", "hostDevices")
        for entry in items(spec, "domain", "devices", listed)
        if entry.get("claimName") and entry.get("requestName")
    ]


def overhead_bytes(spec: Object) -> int:
    """Memory that the guest's surroundings take, in bytes."""
    domain = spec["domain"]
    mebibytes = (
        _ALWAYS_MIB
        + guest_bytes(domain) // _PAGE_TABLES // MIB
        + _PER_CPU_MIB * cpu_count(domain)
        + (_DEVICES_MIB if devices(spec) else 0)
        + (_DEDICATED_MIB if _is_dedicated(domain) else 0)
    )
    return mebibytes * MIB


def guest_bytes(domain: Object) -> int:
    """The guest's memory: what it is given, else what is requested for it, else a default."""
    guest = (domain.get("memory") or {}).get("guest")
    requested = ((domain.get("resources") or {}).get("requests") or {}).get("memory")
    return ceil_units(guest or requested or _DEFAULT_GUEST)


def cpu_count(domain: Object) -> int:
    """The guest's CPUs."""
    cpu = domain.get("cpu") or {}
    return int((cpu.get("cores") or 1) * (cpu.get("sockets") or 1) * (cpu.get("threads") or 1))


def _is_dedicated(domain: Object) -> bool:
    return bool((domain.get("cpu") or {}).get("dedicatedCpuPlacement"))


def _given(amounts: Object | None, extra: int) -> Object:
    """The user's own amounts; to memory the surroundings' is added."""
    given = dict(amounts or {})
    if "memory" in given:
        given["memory"] = _mebibytes(ceil_units(given["memory"]) + extra)
    return given


def _mebibytes(amount: int) -> str:
    return f"{-(-amount // MIB)}Mi"
