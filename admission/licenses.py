"""The licence of a class, attached to its VM as a disk that never boots (rule 6.1.6).

Which disk a VM boots is decided by three programs in turn. KubeVirt hands on the order of
`disks`, after adding a disk for each volume that none is listed for. libvirt takes the devices
with a boot order if there is any; else it marks the first hard disk of its own list, in which
disks of one bus stand together, and nothing else boots (`-boot strict=on`). Only where there is
no hard disk either does the firmware look for itself, CD-ROMs included. So a disk of ours has no
boot order, comes last, and must not be the first hard disk of that list:

- where the VM lists a hard disk that is there at the start, ours is a hard disk on the same bus,
  for which the guest has a driver, since it boots from there; on another bus libvirt could put
  it before that disk;
- else ours is a CD-ROM, which libvirt never marks. Its image has no boot record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from admission.devices import DEVICES, device_list, mappings_of
from admission.review import Patch
from shared.core.model import GpuClass
from shared.fields import Json, elements, mapping, mappings, text
from shared.vocabulary import LICENSE_LABEL, LICENSE_PREFIX

DISKS: Final = (*DEVICES, "disks")
VOLUMES: Final = ("spec", "volumes")
NAME: Final = "gpu-license"

_HARD_DISK_BUSES: Final = frozenset({"virtio", "sata", "scsi", "usb"})
_CDROM_BUSES: Final = frozenset({"sata", "scsi", "usb"})  # KubeVirt: no CD-ROM on virtio


def licensed(classes: Iterable[GpuClass]) -> tuple[str, ...]:
    """The Secrets that a VM with these classes needs, each once, in the order of the classes.

    Classes that share a licence share the disk.
    """
    secrets: dict[str, str] = {}
    for gpu_class in classes:
        if gpu_class.license_secret:
            secrets.setdefault(gpu_class.license_secret, f"{LICENSE_PREFIX}{gpu_class.name}")
    return tuple(secrets.values())


def attach(patch: Patch, secrets: Iterable[str]) -> None:
    """Have a volume and a disk for each Secret, at the end of the lists.

    One that is there already, from an earlier call, stays as it is.

    Raises:
        Misshapen: `disks` or `volumes` is no list, or a parent of them no object.
    """
    missing = [secret for secret in secrets if not _is_attached(patch.document, secret)]
    if not missing:
        return
    target = _target(patch.document)
    names = _unused_names(patch.document)
    volumes: list[object] = []
    disks: list[object] = []
    for secret, name in zip(missing, names, strict=False):
        source = {"secretName": secret, "volumeLabel": LICENSE_LABEL}
        volumes.append({"name": name, "secret": source})
        disks.append({"name": name, "serial": LICENSE_LABEL, **target})
    patch.append(VOLUMES, volumes)
    patch.append(DISKS, disks)


@dataclass(frozen=True, slots=True)
class _Disk:
    """A listed disk: `kind` is disk, lun or cdrom, `bus` empty where KubeVirt chooses it."""

    kind: str
    bus: str


def _is_attached(vmi: Json, secret: str) -> bool:
    listed = {text(disk.get("name")) for disk in mappings_of(vmi, "disks")}
    wanted = {"secretName": secret, "volumeLabel": LICENSE_LABEL}
    return any(
        volume.get("secret") == wanted and text(volume.get("name")) in listed
        for volume in mappings(_volumes(vmi))
    )


def _volumes(vmi: Json) -> list[object]:
    return elements(mapping(vmi.get("spec")).get("volumes"))


def _unused_names(vmi: Json) -> Iterator[str]:
    """Names that no volume, disk or file system has: `gpu-license`, then with a number."""
    used = {text(volume.get("name")) for volume in mappings(_volumes(vmi))}
    for kind in ("disks", "filesystems"):
        used |= {text(device.get("name")) for device in mappings_of(vmi, kind)}
    # One more than are used suffices for the first, and each that is taken is not used before.
    for number in range(1, 2 * len(used) + 66):
        name = NAME if number == 1 else f"{NAME}-{number}"
        if name not in used:
            yield name


def _target(vmi: Json) -> dict[str, object]:
    """How the disk is attached, as a member of its entry (see above)."""
    disks = list(_present_at_start(vmi))
    hard = next((disk for disk in disks if disk.kind != "cdrom"), None)
    architecture = text(mapping(vmi.get("spec")).get("architecture"))
    if hard is not None:
        # Where no bus is stated KubeVirt takes sata on amd64 and virtio elsewhere. An unknown
        # architecture may become any: virtio works on all, if with a driver.
        usual = "sata" if architecture == "amd64" else "virtio"
        bus = hard.bus if hard.bus in _HARD_DISK_BUSES else usual
        # KubeVirt refuses hard disks on sata that are read-only: AHCI knows none.
        return {"disk": {"bus": bus} | ({} if bus == "sata" else {"readonly": True})}
    first = next((disk.bus for disk in disks if disk.bus in _CDROM_BUSES), "")
    usual = "sata" if architecture == "amd64" else "scsi"
    return {"cdrom": {"bus": first or usual, "readonly": True}}


def _present_at_start(vmi: Json) -> Iterator[_Disk]:
    """The listed disks that the VM has when it boots: those of hotplugged volumes come later."""
    later = {
        text(volume.get("name"))
        for volume in mappings(_volumes(vmi))
        if any(mapping(source).get("hotpluggable") is True for source in volume.values())
    }
    for disk in device_list(vmi, "disks"):
        entry = mapping(disk)
        if text(entry.get("name")) in later:
            continue
        kinds = (kind for kind in ("disk", "lun", "cdrom") if isinstance(entry.get(kind), dict))
        kind = next(kinds, "disk")
        yield _Disk(kind, text(mapping(entry.get(kind)).get("bus")))
