"""KubeVirt's admission webhooks, as far as they stand in our way or we in theirs.

Each function takes an AdmissionRequest and gives an AdmissionResponse; `webhooks` serves them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.defaults import with_defaults
from tests.kubevirt.objects import items, labels_of, status_of

Decide = Callable[[Object], Object]
"""From an AdmissionRequest to an AdmissionResponse without its uid; a patch is a list."""

ALLOWED: Object = {"allowed": True}


@dataclass(frozen=True, slots=True)
class VirtApi:
    """The decisions of virt-api of a KubeVirt in `namespace`.

    `host_devices` is whether its gate HostDevices is on.
    """

    namespace: str
    host_devices: bool = True

    def mutate_instance(self, request: Object) -> Object:
        """Fill in what a new instance lacks; take back a status that somebody else wrote.

        The answer replaces spec, metadata and status as wholes. A foreign status is taken back
        without a word (KubeVirt observed 18).
        """
        obj = request["object"]
        if request["operation"] == "CREATE":
            made = with_defaults(obj)
            parts = ("spec", "metadata", "status")
            patch = [{"op": "add", "path": f"/{part}", "value": made[part]} for part in parts]
            return {"allowed": True, "patch": patch}
        old = status_of(request["oldObject"])
        if self._is_own(request) or status_of(obj) == old:
            return ALLOWED
        return {"allowed": True, "patch": [{"op": "add", "path": "/status", "value": old}]}

    def validate_instance(self, request: Object) -> Object:
        """Refuse specs that cannot be run, changes of a spec, and labels that are KubeVirt's."""
        obj = request["object"]
        if request["operation"] == "CREATE":
            problems = [*self.problems("spec", obj["spec"])]
            before: Mapping[str, str] = {}
        else:
            old = request["oldObject"]
            before = labels_of(old)
            changed = obj["spec"] != old["spec"] and not self._is_own(request)
            problems = ["update of VMI object is restricted"] if changed else []
        if not self._is_own(request):
            problems += [
                f"creation of the following reserved kubevirt.io/ labels on a VMI object is"
                f" prohibited: {label}"
                for label in sorted(w.RESERVED_LABELS)
                if labels_of(obj).get(label) != before.get(label)
            ]
        return _verdict(problems)

    def validate_machine(self, request: Object) -> Object:
        """The same checks on a machine's template."""
        template = request["object"]["spec"]["template"]
        return _verdict([*self.problems("spec.template.spec", template["spec"])])

    def problems(self, path: str, spec: Object) -> Iterator[str]:
        """What keeps a spec from being run; counts and the table of devices are not looked at."""
        devices = f"{path}.domain.devices"
        if items(spec, "domain", "devices", "hostDevices") and not self.host_devices:
            yield "Host Devices feature gate is not enabled in kubevirt-config"
        for listed, what in (("gpus", "GPUs"), ("hostDevices", "HostDevices")):
            entries = items(spec, "domain", "devices", listed)
            claimed = [bool(entry.get("claimName")) for entry in entries]
            named = [bool(entry.get("deviceName")) for entry in entries]
            if any(not one and not other for one, other in zip(claimed, named, strict=True)):
                yield f"{devices}.{listed} contains {what} without deviceName or claimRequest"
            if any(claimed) and any(named):
                yield f"{devices}.{listed} contains {what} with deviceName and with claimRequest"
        disks = [disk["name"] for disk in items(spec, "domain", "devices", "disks")]
        volumes = [volume["name"] for volume in items(spec, "volumes")]
        for field, names in ((f"{devices}.disks", disks), (f"{path}.volumes", volumes)):
            for name, times in Counter(names).items():
                if times > 1:
                    yield f"{field} has more than one entry of the name '{name}'"
        for name in disks:
            if name not in volumes:
                yield f"{devices}.disks: no matching volume with name '{name}' found"

    def _is_own(self, request: Object) -> bool:
        """Whether one of KubeVirt's own accounts asks."""
        prefix = f"system:serviceaccount:{self.namespace}:"
        user = request["userInfo"]["username"]
        return user.startswith(prefix) and user.removeprefix(prefix) in w.ACCOUNTS


def _verdict(problems: list[str]) -> Object:
    if not problems:
        return ALLOWED
    message = "; ".join(problems)
    return {"allowed": False, "status": {"code": 422, "reason": "Invalid", "message": message}}
