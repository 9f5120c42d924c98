"""The table as values: each case with the object to post, and what must become of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.unit.scripted_api import Raw

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """A VMI to be let in (`stored` is what is stored then) or refused (`reason`, `message`)."""

    name: str
    namespace: str
    vmi: Raw
    settings: dict[str, str]
    stored: Raw | None = None
    warnings: tuple[str, ...] = ()
    reason: str = ""
    message: str = ""
    unknown: set[str] = field(default_factory=set)


def world() -> list[Raw]:
    """What is there when the cases are posted."""
    text = (FOLDER / "world.yaml").read_text()
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each is not None]


def cases() -> list[Case]:
    """All of the table, those to be let in first."""
    return [
        _case(dict(raw))
        for name in ("admitted", "refused")
        for raw in yaml.load((FOLDER / f"{name}.yaml").read_text(), yaml.CSafeLoader)
    ]


def _case(raw: Raw) -> Case:
    vmi = _vmi(raw)
    stored = None
    if "record" in raw:
        stored = copy.deepcopy(vmi)
        stored["metadata"]["annotations"]["gpu.cozystack.io/attachments"] = raw.pop("record")
        devices = stored["spec"]["domain"]["devices"]
        devices["gpus"] = [
            {"name": name, "deviceName": device} for name, device in raw.pop("gpus").items()
        ]
        for place, name in ((stored["spec"], "volumes"), (devices, "disks")):
            if name in raw:
                place[name] = (place.get(name) or []) + raw.pop(name)
    return Case(
        name=raw.pop("case"),
        namespace=vmi["metadata"]["namespace"],
        vmi=vmi,
        settings=raw.pop("settings", {}),
        stored=stored,
        warnings=tuple(raw.pop("warnings", ())),
        reason=raw.pop("reason", ""),
        message=raw.pop("message", ""),
        unknown=set(raw),
    )


def _vmi(raw: Raw) -> Raw:
    name = raw.pop("name", "vm1")
    metadata: dict[str, Any] = {"name": name} if name else {"generateName": "rs1"}
    metadata["namespace"] = raw.pop("namespace", "tenant-acme")
    metadata["annotations"] = {
        f"gpu.cozystack.io/{key}": value for key, value in raw.pop("annotations").items()
    }
    if "vm" in raw:
        uid = raw.pop("vm")
        metadata["ownerReferences"] = [
            {
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachine",
                "name": uid.removeprefix("vm-"),
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    domain = {"memory": {"guest": "8Gi"}, "devices": raw.pop("devices", {})}
    if "resources" in raw:
        domain["resources"] = raw.pop("resources")
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": metadata,
        "spec": {"domain": domain, **raw.pop("spec", {})},
    }
