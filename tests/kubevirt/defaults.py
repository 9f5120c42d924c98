"""What KubeVirt's mutating webhook makes of an instance that is created."""

from __future__ import annotations

import copy
from typing import Final

from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.objects import finalizers_of, phase_of

_BINARY: Final = ("Ki", "Mi", "Gi", "Ti")
_GROWS_TO: Final = 4
"""Memory hotplug lets a guest grow to so many times what it starts with."""


def with_defaults(vmi: Object) -> Object:
    """A copy with everything filled in that was left out.

    Disks matter to us: a volume without a disk gets one of its name, at the end, and a disk
    without a target becomes a SATA disk. So a disk that another webhook adds, which comes first
    by its name, must say its bus itself.
    """
    made = copy.deepcopy(vmi)
    metadata = made["metadata"]
    finalizers = finalizers_of(made)
    if w.FINALIZER_VMI not in finalizers:
        metadata["finalizers"] = [*finalizers, w.FINALIZER_VMI]
    annotations = metadata.setdefault("annotations", {}) or {}
    metadata["annotations"] = annotations | {
        w.ANNOTATION_API_VERSION: "v1",
        w.ANNOTATION_STORED_VERSION: "v1",
    }
    spec = made["spec"]
    spec.setdefault("architecture", "amd64")
    spec.setdefault("evictionStrategy", "LiveMigrateIfPossible")
    _fill_domain(spec["domain"])
    _fill_disks(spec)
    for volume in spec.get("volumes") or ():
        if "containerDisk" in volume:
            volume["containerDisk"].setdefault("imagePullPolicy", "IfNotPresent")
    made["status"] = {**(made.get("status") or {}), "phase": phase_of(made) or w.PENDING}
    return made


def _fill_domain(domain: Object) -> None:
    domain.setdefault("machine", {}).setdefault("type", "q35")
    domain.setdefault("cpu", {"cores": 1, "sockets": 1, "threads": 1}).setdefault(
        "model", "host-model"
    )
    domain.setdefault("features", {}).setdefault("acpi", {"enabled": True})
    domain.setdefault("resources", {})
    memory = domain.setdefault("memory", {})
    requested = (domain["resources"].get("requests") or {}).get("memory")
    if requested is not None:
        memory.setdefault("guest", requested)
    guest = str(memory.get("guest", ""))
    if guest[:-2].isdecimal() and guest.endswith(_BINARY):
        memory.setdefault("maxGuest", f"{int(guest[:-2]) * _GROWS_TO}{guest[-2:]}")


def _fill_disks(spec: Object) -> None:
    """Give each volume a disk, and each disk a target."""
    devices = spec["domain"].setdefault("devices", {})
    disks = list(devices.get("disks") or ())
    shown = {each["name"] for each in (*disks, *(devices.get("filesystems") or ()))}
    disks += [
        {"name": volume["name"]}
        for volume in spec.get("volumes") or ()
        if volume["name"] not in shown and "memoryDump" not in volume
    ]
    for disk in disks:
        kind = next((each for each in ("cdrom", "lun") if disk.get(each) is not None), "disk")
        disk[kind] = {"bus": "sata", **(disk.get(kind) or {})}
    if disks:
        devices["disks"] = disks
