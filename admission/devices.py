"""What devices a VMI asks for besides our entries, and where (rule 6.1.4).

KubeVirt makes the launcher's requests of several places: entries under `gpus` and `hostDevices`,
the guest's own resource list, which replaces the count of the entries, and claims of dynamic
resource allocation (DRA), which count nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final

from shared.core.annotations import shown
from shared.fields import Json, elements, mapping, mappings, text

DEVICES: Final = ("spec", "domain", "devices")


@dataclass(frozen=True, slots=True)
class Found:
    """A request in another way: the path of the field, and what it asks for in words."""

    field: str
    what: str


def device_list(vmi: Json, name: str) -> list[object]:
    """One of the lists under `spec.domain.devices`, such as `disks`; what is no list is empty."""
    place: object = vmi
    for key in (*DEVICES, name):
        place = mapping(place).get(key)
    return elements(place)


def host_device_names(vmi: Json) -> frozenset[str]:
    """Names of the entries under `hostDevices`: those of our entries differ from them."""
    return frozenset(text(device.get("name")) for device in mappings_of(vmi, "hostDevices"))


def mappings_of(vmi: Json, name: str) -> Iterator[Json]:
    """As `device_list`, the elements that are objects."""
    return mappings(device_list(vmi, name))


def raw_gpus(vmi: Json) -> Iterator[Found]:
    """Every entry under `gpus`: a GPU by its place, whatever its name (rule 4.2)."""
    for index, device in enumerate(device_list(vmi, "gpus")):
        name = mapping(device).get("deviceName")
        what = f"the entry asks for {shown(name)}" if name else "the entry asks for a GPU"
        yield Found(f"spec.domain.devices.gpus[{index}]", what)


def hidden_gpus(vmi: Json, gpu_names: Callable[[], Collection[str]]) -> Iterator[Found]:
    """GPUs that are asked for anywhere but under `gpus`.

    `gpu_names` is called where there is a name to look for: few VMIs have one. A device claim of
    DRA does not say what it is for: it counts as a GPU unless a network of the VMI uses it.
    """
    for index, device in enumerate(device_list(vmi, "hostDevices")):
        name = text(mapping(device).get("deviceName"))
        field = f"spec.domain.devices.hostDevices[{index}]"
        if name in gpu_names():
            yield Found(field, f"the entry asks for the GPU {shown(name)}")
        elif mapping(device).get("claimName"):
            yield Found(field, "the entry asks by a device claim for what may be a GPU")
    spec = mapping(vmi.get("spec"))
    resources = mapping(mapping(spec.get("domain")).get("resources"))
    for kind in ("requests", "limits"):
        for name in mapping(resources.get(kind)):
            if name in gpu_names():
                yield Found(
                    f"spec.domain.resources.{kind}[{name}]", f"this asks for the GPU {shown(name)}"
                )
    for_networks = {
        text(mapping(network.get("resourceClaim")).get("claimName"))
        for network in mappings(spec.get("networks"))
    }
    for index, claim in enumerate(elements(spec.get("resourceClaims"))):
        if text(mapping(claim).get("name")) not in for_networks - {""}:
            yield Found(
                f"spec.resourceClaims[{index}]", "this device claim asks for what may be a GPU"
            )
