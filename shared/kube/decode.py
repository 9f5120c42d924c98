"""Objects as the API server sends them into values of `shared.core.model`.

Only the fields named here are read. What cannot be read is noted, and read so that nothing is
promised from it: an amount of a node or of a limit counts as none. Where too little is left to go
on (no name, no class, no mode) the function raises `Undecodable`; whoever keeps the values then
keeps the last good one of that object, and counts it.

Placing needs more of some kinds than the rest of us: those functions take `placing`, and leave that
part out unless it is asked for.

Built-in kinds are checked by the API server and ours by their schema, so that notes stand for a
newer version of a kind, or for an object that was stored before a check existed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NoReturn, TypeVar

from shared import vocabulary as v
from shared.api.conditions import ConditionType
from shared.core.annotations import Malformed, parse_record
from shared.core.model import (
    FINAL_PHASES,
    Attachment,
    Claim,
    Disclosure,
    Entitlement,
    GpuClass,
    KubeVirt,
    Lifecycle,
    Migration,
    Mode,
    Namespace,
    Node,
    Pod,
    Quota,
    RecordEntry,
    Secret,
    System,
    Vm,
    Vmi,
    Volume,
    VolumeClaim,
)
from shared.core.row import Row
from shared.core.scheduling import Taint
from shared.fields import Json, elements, mapping, mappings, name, text, whole
from shared.kube.affinity import names, node_terms, tolerations, zones
from shared.kube.placing import (
    claim_written,
    class_written,
    conditions,
    pod_placing,
    presence,
    vmi_placing,
)
from shared.kube.podspec import pinned_to, requests
from shared.quantity import QuantityError, counted_parts, floor_units

Note = Callable[[str], None]
"""Takes what is wrong with an object: the field, its value, and what was expected."""

E = TypeVar("E", bound=StrEnum)


class Undecodable(Exception):
    """Too little of an object can be read; the message names the field."""


def node(raw: Json, note: Note) -> Node:
    """Read a Node. An allocatable amount that is no quantity counts as none."""
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    metadata = _metadata(raw)
    ready = next(
        (each for each in mappings(status.get("conditions")) if each.get("type") == "Ready"), {}
    )
    return Node(
        name=name(metadata["name"]),
        allocatable=Row(
            _amounts(status.get("allocatable"), "status.allocatable", note, counted_parts)
        ),
        labels=Row(_labels(metadata)),
        taints=tuple(
            Taint(
                name(taint.get("key")),
                name(taint.get("effect")),
                name(taint.get("value")),
                text(taint.get("timeAdded")),
            )
            for taint in mappings(spec.get("taints"))
        ),
        unschedulable=spec.get("unschedulable") is True,
        ready=ready.get("status") == "True",
        ready_since=text(ready.get("lastTransitionTime")),
        uid=text(metadata.get("uid")),
    )


def pod(raw: Json, note: Note, *, placing: bool = False) -> Pod:
    """Read a Pod; of its spec what it requests and where it may go."""
    metadata, spec = _metadata(raw, namespaced=True), mapping(raw.get("spec"))
    status = mapping(raw.get("status"))
    annotations = mapping(metadata.get("annotations"))
    owner = _controller(metadata, v.KIND_VMI)
    uid = name(metadata.get("uid")) if owner else text(metadata.get("uid"))
    return Pod(
        namespace=name(metadata["namespace"]),
        name=text(metadata["name"]),
        uid=uid,
        node_name=name(spec.get("nodeName")),
        requests=requests(spec, status, note),
        ended=text(status.get("phase")) in FINAL_PHASES,
        owner=owner,
        launcher_mark=name(annotations.get(v.ANNOTATION_LAUNCHER)),
        pinned_to=pinned_to(spec),
        presence=presence(metadata, spec) if placing else None,
        placing=pod_placing(metadata, spec, status) if placing and owner else None,
    )


def claim(raw: Json, note: Note, *, placing: bool = False) -> Claim:
    """Read a GPUClaim.

    Raises:
        Undecodable: no name, no class, or a count that is none.
    """
    del note
    metadata = _metadata(raw, namespaced=True)
    spec, status = mapping(raw.get("spec")), mapping(raw.get("status"))
    count = whole(spec.get("count", 1))
    if count is None or not 1 <= count <= v.LIMIT_UNITS:
        _fail("spec.count", spec.get("count"), f"a whole number from 1 to {v.LIMIT_UNITS}")
    class_name = name(spec.get("className")) or _fail(
        "spec.className", spec.get("className"), "the name of a class"
    )
    labels = mapping(metadata.get("labels"))
    is_template = labels.get(v.LABEL_TEMPLATE) == "true"
    attached = mapping(status.get("attachedTo"))
    return Claim(
        namespace=name(metadata["namespace"]),
        name=text(metadata["name"]),
        class_name=class_name,
        count=count,
        uid=text(metadata.get("uid")),
        is_template=is_template,
        owner=_owner(metadata, v.KIND_VMI) if is_template else "",
        resource_name=name(status.get("resourceName")),
        node_name=name(status.get("nodeName")),
        attached_to=Attachment(
            name(attached.get("kind")), name(attached.get("name")), name(attached.get("uid"))
        )
        if attached
        else None,
        deleting="deletionTimestamp" in metadata,
        written=claim_written(metadata, status) if placing else None,
    )


def gpu_class(raw: Json, note: Note, *, placing: bool = False) -> GpuClass:
    """Read a GPUClass; what it does not say is as its schema defaults it (rule 3.1).

    Raises:
        Undecodable: no name, no resource name, or a mode, an entitlement, a lifecycle or a
            disclosure that we do not know: guessing could give away what is to be kept.
    """
    metadata, spec = _metadata(raw), mapping(raw.get("spec"))
    resource_name = name(spec.get("resourceName")) or _fail(
        "spec.resourceName", spec.get("resourceName"), "the name of an extended resource"
    )
    mode = _enum(Mode, spec.get("mode"), "spec.mode")
    usual = Entitlement.REQUIRED if mode is Mode.VIRTUAL_GPU else Entitlement.OPEN
    # What is on its way out takes nothing new, whatever it says of itself.
    deleted = text(metadata.get("deletionTimestamp"))
    lifecycle = _enum(Lifecycle, spec.get("lifecycle"), "spec.lifecycle", Lifecycle.ACTIVE)
    if deleted:
        lifecycle = Lifecycle.CLOSED
    max_count = whole(spec.get("maxCount"))
    if max_count is None and spec.get("maxCount") is not None:
        note(f"spec.maxCount: {spec.get('maxCount')!r:.60} is not a whole number, taken as absent")
    return GpuClass(
        name=text(metadata["name"]),
        resource_name=resource_name,
        mode=mode,
        uid=text(metadata.get("uid")),
        created=text(metadata.get("creationTimestamp")),
        labels=_labels(metadata),
        display_name=text(spec.get("displayName")),
        description=text(spec.get("description")),
        vendor=text(spec.get("vendor")),
        memory=_quantity_text(spec.get("memory")),
        max_count=max_count,
        entitlement=_enum(Entitlement, spec.get("entitlement"), "spec.entitlement", usual),
        lifecycle=lifecycle,
        disclosure=_enum(Disclosure, spec.get("disclosure"), "spec.disclosure", Disclosure.EXACT),
        tolerations=tolerations(spec.get("tolerations")),
        closed_since=_closed_since(mapping(raw.get("status"))) or deleted,
        license_secret=text(mapping(spec.get("guestLicense")).get("secretName")),
        written=class_written(metadata, mapping(raw.get("status"))) if placing else None,
    )


def quota(raw: Json, note: Note) -> Quota:
    """Read a ResourceQuota. A limit that is no quantity grants nothing: it reads as 0."""
    metadata, spec = _metadata(raw, namespaced=True), mapping(raw.get("spec"))
    selector = mapping(spec.get("scopeSelector"))
    return Quota(
        namespace=name(metadata["namespace"]),
        name=name(metadata["name"]),
        hard=_amounts(spec.get("hard"), "spec.hard", note),
        scoped=bool(elements(spec.get("scopes")) or elements(selector.get("matchExpressions"))),
        uid=name(metadata.get("uid")),
    )


def namespace(raw: Json, note: Note, *, placing: bool = False) -> Namespace:
    """Read a Namespace and its entitlement label."""
    del note
    metadata = _metadata(raw)
    value = mapping(metadata.get("labels")).get(v.LABEL_ENTITLEMENT)
    return Namespace(
        name(metadata["name"]),
        None if value is None else text(value),
        Row(_labels(metadata)) if placing else {},
    )


def vmi(raw: Json, note: Note, *, placing: bool = False) -> Vmi:
    """Read a VirtualMachineInstance. A record of admission that is malformed reads as none."""
    metadata, status = _metadata(raw, namespaced=True), mapping(raw.get("status"))
    record = mapping(metadata.get("annotations")).get(v.ANNOTATION_ATTACHMENTS)
    return Vmi(
        namespace=name(metadata["namespace"]),
        name=name(metadata["name"]),
        uid=name(metadata.get("uid")) or _fail("metadata.uid", metadata.get("uid"), "a uid"),
        vm=_controller(metadata, v.KIND_VM),
        active_pods=tuple(sorted(map(name, mapping(status.get("activePods"))))),
        record=() if record is None else _record(record, note),
        phase=name(status.get("phase")),
        node_name=name(status.get("nodeName")),
        placing=vmi_placing(metadata, mapping(raw.get("spec")), status) if placing else None,
    )


def vm(raw: Json, note: Note) -> Vm:
    """Read a VirtualMachine."""
    del note
    metadata = _metadata(raw, namespaced=True)
    return Vm(
        namespace=name(metadata["namespace"]),
        name=text(metadata["name"]),
        uid=text(metadata.get("uid")) or _fail("metadata.uid", metadata.get("uid"), "a uid"),
        created=text(metadata.get("creationTimestamp")),
    )


def migration(raw: Json, note: Note) -> Migration:
    """Read a VirtualMachineInstanceMigration."""
    del note
    metadata = _metadata(raw, namespaced=True)
    return Migration(
        namespace=name(metadata["namespace"]),
        name=text(metadata["name"]),
        uid=text(metadata.get("uid")),
        vmi_name=text(mapping(raw.get("spec")).get("vmiName")),
        final=text(mapping(raw.get("status")).get("phase")) in FINAL_PHASES,
    )


def kubevirt(raw: Json, note: Note) -> KubeVirt:
    """Read a KubeVirt object and its table of permitted host devices (rule 4.1).

    Names are opaque: a blank inside or lower case is the hoster's business. An entry without a
    name is noted and left out. A table that is no object permits nothing.
    """
    metadata = _metadata(raw, namespaced=True)
    configuration = mapping(mapping(raw.get("spec")).get("configuration"))
    table = configuration.get("permittedHostDevices")
    mediated = _resource_names(mapping(table), "mediatedDevices", note)
    permitted = None
    if table is not None:
        permitted = (
            mediated
            | _resource_names(mapping(table), "pciHostDevices", note)
            | _resource_names(mapping(table), "usb", note)
        )
    return KubeVirt(
        namespace=name(metadata["namespace"]),
        name=text(metadata["name"]),
        phase=text(mapping(raw.get("status")).get("phase")),
        permitted=permitted,
        mediated=mediated,
    )


def volume_claim(raw: Json, note: Note) -> VolumeClaim:
    """Read a PersistentVolumeClaim."""
    del note
    metadata = _metadata(raw, namespaced=True)
    return VolumeClaim(
        namespace=name(metadata["namespace"]),
        name=text(metadata["name"]),
        uid=text(metadata.get("uid")),
        volume=text(mapping(raw.get("spec")).get("volumeName")),
        phase=name(mapping(raw.get("status")).get("phase")),
        selected_node=name(mapping(metadata.get("annotations")).get(v.ANNOTATION_SELECTED_NODE)),
    )


def volume(raw: Json, note: Note) -> Volume:
    """Read a PersistentVolume: which nodes reach it."""
    del note
    metadata, spec = _metadata(raw), mapping(raw.get("spec"))
    return Volume(
        name=text(metadata["name"]),
        node_terms=node_terms(mapping(spec.get("nodeAffinity")).get("required")),
        zones=zones(mapping(metadata.get("labels"))),
    )


def secret(raw: Json, note: Note) -> Secret:
    """Read the metadata of a Secret; nothing else of it was asked for."""
    del note
    metadata = _metadata(raw, namespaced=True)
    return Secret(name(metadata["namespace"]), name(metadata["name"]))


def system(raw: Json, note: Note) -> System:
    """Read the GPUSystem."""
    del note
    metadata, status = _metadata(raw), mapping(raw.get("status"))
    return System(
        name=text(metadata["name"]),
        resource_version=text(metadata.get("resourceVersion")),
        generation=whole(metadata.get("generation")) or 0,
        epoch=whole(status.get("epoch")) or 0,
        resource_names=names(status.get("resourceNames")),
        settings={
            key: names(value) if isinstance(value, list) else text(value)
            for key, value in mapping(status.get("effectiveSettings")).items()
        },
        conditions=conditions(status),
    )


def _record(value: object, note: Note) -> tuple[RecordEntry, ...]:
    try:
        return parse_record(value)
    except Malformed as malformed:
        note(f"{malformed}; taken as absent")
        return ()


def _closed_since(status: Json) -> str:
    for condition in mappings(status.get("conditions")):
        if condition.get("type") == ConditionType.OPEN and condition.get("status") == "False":
            return text(condition.get("lastTransitionTime"))
    return ""


def _metadata(raw: Json, *, namespaced: bool = False) -> Json:
    metadata = mapping(raw.get("metadata"))
    if not text(metadata.get("name")):
        _fail("metadata.name", metadata.get("name"), "a name")
    if namespaced and not text(metadata.get("namespace")):
        _fail("metadata.namespace", metadata.get("namespace"), "a namespace")
    return metadata


def _labels(metadata: Json) -> Mapping[str, str]:
    return {name(key): name(value) for key, value in mapping(metadata.get("labels")).items()}


def _controller(metadata: Json, kind: str) -> str:
    """The uid of the controlling owner where that is KubeVirt's `kind`, else empty."""
    return _owner(metadata, kind, controlling=True)


def _owner(metadata: Json, kind: str, *, controlling: bool = False) -> str:
    for reference in mappings(metadata.get("ownerReferences")):
        if controlling and reference.get("controller") is not True:
            continue
        group = text(reference.get("apiVersion")).rpartition("/")[0]
        if group == v.KUBEVIRT_GROUP and reference.get("kind") == kind:
            return name(reference.get("uid"))
    return ""


def _amounts(
    value: object, path: str, note: Note, parts: Callable[[str], int] = lambda _: 1
) -> Mapping[str, int]:
    """What is granted, by resource, rounded down; in so many parts of a unit."""
    amounts: dict[str, int] = {}
    for resource, amount in mapping(value).items():
        try:
            amounts[name(resource)] = floor_units(amount, parts(resource))
        except QuantityError as error:
            note(f"{path}[{resource}]: {error}; taken as 0")
            amounts[name(resource)] = 0
    return amounts


def _resource_names(table: Json, key: str, note: Note) -> frozenset[str]:
    found: set[str] = set()
    for index, device in enumerate(elements(table.get(key))):
        resource = name(mapping(device).get("resourceName"))
        if resource:
            found.add(resource)
        else:
            path = f"spec.configuration.permittedHostDevices.{key}[{index}].resourceName"
            note(f"{path}: expected the name of a resource; left out")
    return frozenset(found)


def _quantity_text(value: object) -> str:
    """A quantity as written; schemas let it be a number too."""
    number = whole(value)
    return str(number) if number is not None else text(value)


def _enum(kind: type[E], value: object, path: str, usual: E | None = None) -> E:
    if value is None and usual is not None:
        return usual
    try:
        return kind(text(value))
    except ValueError:
        _fail(path, value, " or ".join(kind))


def _fail(path: str, value: object, expected: str) -> NoReturn:
    raise Undecodable(f"{path}: {value!r:.60}, expected {expected}")
