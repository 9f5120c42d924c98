"""Strategies: small clusters in which things collide often, and sequences of changes to them."""

from __future__ import annotations

from hypothesis import strategies as st

from shared.core.model import (
    Attachment,
    Change,
    Claim,
    Disclosure,
    Entitlement,
    Gone,
    GpuClass,
    KubeVirt,
    Lifecycle,
    Namespace,
    Node,
    Placement,
    Pod,
    Put,
    Quota,
    RecordEntry,
    Settings,
    Vmi,
)
from shared.core.scheduling import Taint, Toleration

RESOURCES = ("nvidia.com/A", "nvidia.com/B")
CLASSES = ("alpha", "beta", "gamma")
NODES = ("n1", "n2", "n3")
NAMESPACES = (
    "tenant-root",
    "tenant-a",
    "tenant-a-b",
    "tenant-a-b-c",
    "tenant-a-x",
    "tenant-ab",
    "team",
)
VMS = ("vm-1", "vm-2")
VMIS = ("vmi-1", "vmi-2", "vmi-3")
PODS = ("p1", "p2", "p3")

names = st.sampled_from(NAMESPACES)
resources = st.sampled_from(RESOURCES)
few = st.integers(min_value=0, max_value=5)
maybe_node = st.sampled_from(("", *NODES))
home = dict(zip(VMIS, ("tenant-a", "tenant-a-b", "tenant-a"), strict=True))

nodes = st.builds(
    Node,
    name=st.sampled_from(NODES),
    allocatable=st.dictionaries(st.sampled_from((*RESOURCES, "cpu")), few),
    labels=st.sampled_from(({}, {"kubevirt.io/schedulable": "true"})),
    taints=st.lists(
        st.builds(
            Taint,
            key=st.sampled_from(("gpu", "node.kubernetes.io/not-ready")),
            effect=st.sampled_from(("NoSchedule", "PreferNoSchedule")),
        ),
        max_size=1,
    ).map(tuple),
    unschedulable=st.booleans(),
    ready=st.booleans(),
)
classes = st.builds(
    GpuClass,
    name=st.sampled_from(CLASSES),
    resource_name=resources,
    max_count=st.sampled_from((None, 2)),
    entitlement=st.sampled_from(Entitlement),
    lifecycle=st.sampled_from(Lifecycle),
    disclosure=st.sampled_from(Disclosure),
    tolerations=st.sampled_from(((), (Toleration(key="gpu", operator="Exists"),))),
)
vmi_uids = st.sampled_from(VMIS)
"""Most pods and claims below are of one of these VMs, so that launchers and sets come about."""
some_units = st.dictionaries(resources, st.integers(1, 4), min_size=1, max_size=2)
pods = vmi_uids.flatmap(
    lambda uid: st.sampled_from(PODS).flatmap(
        lambda name: st.builds(
            Pod,
            namespace=st.just(home[uid]),
            name=st.just(name),
            uid=st.just(name),
            node_name=maybe_node,
            requests=some_units,
            ended=st.sampled_from((False, False, False, True)),
            owner=st.sampled_from((uid, uid, uid, "")),
            launcher_mark=st.sampled_from((uid, uid, uid, "")),
            pinned_to=maybe_node,
        )
    )
)


def _claims(uid: str, *, is_template: bool) -> st.SearchStrategy[Claim]:
    return st.builds(
        Claim,
        namespace=st.sampled_from((home[uid], home[uid], "tenant-root")),
        name=st.just(f"{uid}-0") if is_template else st.sampled_from(("c1", "c2")),
        class_name=st.sampled_from(CLASSES),
        count=st.integers(min_value=1, max_value=3),
        is_template=st.just(is_template),
        owner=st.sampled_from(("", uid)) if is_template else st.just(""),
        resource_name=st.sampled_from(("", *RESOURCES)),
        node_name=maybe_node,
        attached_to=st.none()
        | st.builds(
            Attachment, kind=st.just("any"), name=st.just("any"), uid=st.sampled_from((*VMS, uid))
        ),
    )


claims = st.tuples(vmi_uids, st.booleans()).flatmap(
    lambda each: _claims(each[0], is_template=each[1])
)
ALPHA = "alpha.gpuclass.gpu.cozystack.io/units"
keys = st.sampled_from(
    (
        *RESOURCES,
        *(f"{name}.gpuclass.gpu.cozystack.io/units" for name in CLASSES),
        "cpu",
    )
)
quotas = st.builds(
    Quota,
    namespace=names,
    name=st.sampled_from(("q1", "q2", "tenant-quota-allocated")),
    hard=st.builds(
        lambda units, others: {RESOURCES[0]: units, **others},
        st.integers(0, 12),
        st.dictionaries(
            st.builds(str.__add__, st.sampled_from(("", "requests.", "limits.")), keys),
            st.integers(0, 12),
            max_size=2,
        ),
    ),
    scoped=st.sampled_from((False, False, False, True)),
)
namespaces = st.builds(
    Namespace, name=names, entitlement=st.sampled_from((None, "entitled", "denied"))
)
vmis = st.sampled_from(VMIS).flatmap(
    lambda uid: st.builds(
        Vmi,
        namespace=st.just(home[uid]),
        name=st.just(uid),
        uid=st.just(uid),
        vm=st.sampled_from(("", *VMS)),
        active_pods=st.just(PODS) | st.frozensets(st.sampled_from(PODS)).map(sorted).map(tuple),
        record=st.lists(
            st.builds(RecordEntry, claim=st.sampled_from(("c1", "c2")))
            | st.builds(
                RecordEntry,
                entry=st.just(0),
                class_name=st.sampled_from(CLASSES),
                resource_name=resources,
                count=few,
            ),
            max_size=2,
        ).map(tuple),
    )
)
kubevirts = st.builds(
    KubeVirt,
    namespace=st.just("cozy-kubevirt"),
    name=st.sampled_from(("kubevirt", "second")),
    phase=st.sampled_from(("", "Deployed")),
    permitted=st.none() | st.frozensets(resources),
)
settings = st.builds(Settings, enabled=st.booleans(), placement=st.sampled_from(Placement))
objects = st.one_of(
    pods,
    pods,
    claims,
    claims,
    vmis,
    quotas,
    quotas,
    namespaces,
    classes,
    nodes,
    kubevirts,
    settings,
)


def _change(pair: tuple[object, bool]) -> Change:
    value, gone = pair
    assert not isinstance(value, tuple | bool)
    return Gone(value) if gone else Put(value)  # type: ignore[arg-type] # one_of loses the union


changes = st.tuples(objects, st.integers(0, 3).map(lambda n: n == 0)).map(_change)

START: tuple[Change, ...] = (
    *(Put(Namespace(name)) for name in NAMESPACES if name != "tenant-ab"),
    Put(GpuClass("alpha", RESOURCES[0])),
    Put(GpuClass("beta", RESOURCES[1])),
    *(
        Put(
            Node(
                name,
                allocatable=dict.fromkeys(RESOURCES, 6),
                labels={"kubevirt.io/schedulable": "true"},
                ready=True,
            )
        )
        for name in NODES
    ),
    Put(Quota("tenant-root", "q1", {RESOURCES[0]: 30, ALPHA: 40})),
    Put(Quota("tenant-a", "q1", {RESOURCES[0]: 12, RESOURCES[1]: 9, ALPHA: 6})),
    Put(Quota("tenant-a-b-c", "q1", {RESOURCES[0]: 3})),
    *(Put(Vmi(home[uid], uid, uid, VMS[0], PODS)) for uid in VMIS[:2]),
    Put(
        Vmi(
            home[VMIS[2]],
            VMIS[2],
            VMIS[2],
            active_pods=PODS,
            record=(
                RecordEntry(claim="c1"),
                RecordEntry("", 0, "alpha", RESOURCES[0], 2),
            ),
        )
    ),
    *(
        Put(Pod(home[uid], name, name, "n1", {RESOURCES[0]: 2}, owner=uid, launcher_mark=uid))
        for uid, name in zip(VMIS, PODS, strict=True)
    ),
    Put(Claim(home[VMIS[0]], "c1", "alpha", 1, resource_name=RESOURCES[0], node_name="n1")),
    Put(
        Claim(
            home[VMIS[1]],
            f"{VMIS[1]}-0",
            "alpha",
            2,
            is_template=True,
            owner=VMIS[1],
            node_name="n1",
        )
    ),
)
"""A cluster with running VMs to begin with, so that changes meet something."""
