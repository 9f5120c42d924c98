"""Which device a VM boots, as KubeVirt, libvirt and the firmware decide it one after the other.

Written from their sources and documents, not from ours: KubeVirt's defaults for volumes without
a disk and its device names (pkg/storage/vmispec, pkg/virt-launcher/virtwrap/converter), libvirt's
list of disks, in which those of one bus stand together by their target name, and its default
`<boot dev='hd'/>` (virDomainDiskInsert, virDomainDefBootOrderPostParse), QEMU's docs/bootindex
and `-boot strict=on`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.scripted_api import Raw


@dataclass(frozen=True)
class Disk:
    """A disk as KubeVirt hands it to libvirt."""

    name: str
    kind: str
    bus: str
    order: int | None
    target: str


def boot(vmi: Raw, *, usual_bus: str, by_bus: bool) -> tuple[str, tuple[str, ...]]:
    """What is tried, in order, and who says so.

    Args:
        vmi: before KubeVirt's own webhook.
        usual_bus: what KubeVirt takes where no bus is stated.
        by_bus: whether libvirt sorts its list by bus, as it does, or keeps it.
    """
    disks = _disks(vmi, usual_bus)
    interfaces = vmi["spec"]["domain"]["devices"].get("interfaces") or []
    ordered = [(disk.order, disk.name) for disk in disks if disk.order is not None]
    ordered += [(each["bootOrder"], each["name"]) for each in interfaces if "bootOrder" in each]
    if ordered:
        return "boot order", tuple(name for _, name in sorted(ordered))
    listed = _by_bus(disks) if by_bus else disks
    hard = [disk.name for disk in listed if disk.kind in {"disk", "lun"}]
    if hard:
        return "libvirt", (hard[0],)
    images = _without_boot_record(vmi)
    return "firmware", tuple(disk.name for disk in listed if disk.name not in images)


def _disks(vmi: Raw, usual_bus: str) -> list[Disk]:
    devices, volumes = vmi["spec"]["domain"]["devices"], vmi["spec"].get("volumes") or []
    listed = list(devices.get("disks") or [])
    named = {entry["name"] for entry in listed + (devices.get("filesystems") or [])}
    listed += [{"name": each["name"]} for each in volumes if each["name"] not in named]
    later = {
        each["name"]
        for each in volumes
        for source in each.values()
        if isinstance(source, dict) and source.get("hotpluggable")
    }
    counts: dict[str, int] = {}
    found = []
    for entry in listed:
        kinds = [kind for kind in ("disk", "lun", "cdrom") if entry.get(kind) is not None]
        kind = kinds[0] if kinds else "disk"
        bus = (entry.get(kind) or {}).get("bus") or usual_bus
        prefix = "vd" if bus == "virtio" else "sd"
        counts[prefix] = counts.get(prefix, 0) + 1
        # Up to 26 of a kind, so that letters compare as numbers do.
        target = f"{prefix}{chr(ord('a') + counts[prefix] - 1)}"
        if entry["name"] not in later:
            found.append(Disk(entry["name"], kind, bus, entry.get("bootOrder"), target))
    return found


def _by_bus(disks: list[Disk]) -> list[Disk]:
    made: list[Disk] = []
    for disk in disks:
        same = [place for place, other in enumerate(made) if other.bus == disk.bus]
        after = [place for place in same if made[place].target > disk.target]
        made.insert(after[0] if after else same[-1] + 1 if same else len(made), disk)
    return made


def _without_boot_record(vmi: Raw) -> set[str]:
    """Names of volumes that KubeVirt makes plain images of."""
    return {each["name"] for each in vmi["spec"].get("volumes") or [] if "secret" in each}
