"""The pods that KubeVirt makes, written by hand from what was observed."""

from __future__ import annotations

import pytest

from tests.cluster.api import Object
from tests.kubevirt import rendering
from tests.unit.kubevirt.given import GPU, domain, gpus, instance, launcher

KVM = {
    "devices.kubevirt.io/kvm": "1",
    "devices.kubevirt.io/tun": "1",
    "devices.kubevirt.io/vhost-net": "1",
}
DRA = {"name": "gpu0", "claimName": "mine", "requestName": "gpu"}


def asked(vmi: Object) -> Object:
    resources: Object = rendering.launcher(vmi)["spec"]["containers"][0]["resources"]
    return resources


def test_a_launcher_is_made_under_a_generated_name_and_its_instance_controls_it() -> None:
    """KubeVirt observed 1."""
    metadata = rendering.launcher(instance())["metadata"]
    assert metadata["generateName"] == "virt-launcher-train-"
    assert metadata["namespace"] == "tenant-x"
    assert not {"name", "uid"} & set(metadata)
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachineInstance",
            "name": "train",
            "uid": "uid-of-train",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


@pytest.mark.parametrize(
    ("devices", "want"),
    [
        pytest.param({"gpus": [("a", GPU)]}, {GPU: "1"}, id="one"),
        pytest.param({"gpus": [("a", GPU), ("b", GPU), ("c", GPU)]}, {GPU: "3"}, id="three alike"),
        pytest.param(
            {"gpus": [("a", GPU), ("b", "nvidia.com/GRID"), ("c", "nvidia.com/GRID")]},
            {GPU: "1", "nvidia.com/GRID": "2"},
            id="one and two of another",
        ),
        pytest.param({"hostDevices": [("a", GPU)]}, {GPU: "1"}, id="a host device looks the same"),
        pytest.param(
            {"gpus": [("a", GPU)], "hostDevices": [("b", GPU)]}, {GPU: "2"}, id="in both lists"
        ),
    ],
)
def test_each_entry_is_one_of_its_resource_in_requests_and_limits_of_compute(
    devices: dict[str, list[tuple[str, str]]], want: dict[str, str]
) -> None:
    """KubeVirt observed 2."""
    entries = {
        listed: [{"name": name, "deviceName": resource} for name, resource in named]
        for listed, named in devices.items()
    }
    pod = rendering.launcher(instance(spec={"domain": domain(devices=entries)}))
    containers = pod["spec"]["containers"]
    assert [container["name"] for container in containers] == ["compute"]
    assert containers[0]["resources"]["limits"] == KVM | want
    requests = containers[0]["resources"]["requests"]
    assert {key: requests[key] for key in requests if key not in KVM} == want | {
        "cpu": "200m",
        "memory": "3348Mi",
        "ephemeral-storage": "50M",
    }


def test_amounts_that_the_user_wrote_take_the_place_of_counted_ones() -> None:
    """KubeVirt observed 2: two entries, one device."""
    one = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    got = asked(instance(spec={"domain": gpus(GPU, GPU) | {"resources": one}}))
    assert got["requests"][GPU] == "1"
    assert got["limits"][GPU] == "1"


def test_amounts_without_any_entry_reach_the_pod() -> None:
    """KubeVirt observed 2: nobody looks them up."""
    raw = {"requests": {"RAW": "4"}, "limits": {"RAW": "4"}}
    got = asked(instance(spec={"domain": domain(resources=raw)}))
    assert (got["requests"]["RAW"], got["limits"]["RAW"]) == ("4", "4")


def test_a_device_from_a_claim_is_no_extended_resource() -> None:
    vmi = instance(
        spec={
            "domain": domain(devices={"gpus": [DRA]}),
            "resourceClaims": [{"name": "mine", "resourceClaimName": "gpu-claim"}],
        }
    )
    pod = rendering.launcher(vmi)
    asked = pod["spec"]["containers"][0]["resources"]
    assert asked["limits"] == KVM
    assert asked["claims"] == [{"name": "mine", "request": "gpu"}]
    assert pod["spec"]["resourceClaims"] == [{"name": "mine", "resourceClaimName": "gpu-claim"}]


@pytest.mark.parametrize(
    ("guest", "memory", "cpu"),
    [
        pytest.param(gpus(GPU), "3348Mi", "200m", id="with a GPU"),
        pytest.param(domain(), "2324Mi", "200m", id="without"),
        pytest.param(
            gpus(GPU) | {"cpu": {"cores": 4, "dedicatedCpuPlacement": True}},
            "3464Mi",
            "4",
            id="with four CPUs of its own",
        ),
        pytest.param(
            domain(resources={"requests": {"memory": "2Gi", "cpu": "1"}}) | {"memory": {}},
            "2324Mi",
            "1",
            id="as requested by the user",
        ),
    ],
)
def test_compute_asks_for_the_guest_and_its_surroundings(
    guest: Object, memory: str, cpu: str
) -> None:
    """KubeVirt observed 3."""
    requests = asked(instance(spec={"domain": guest}))["requests"]
    assert (requests["memory"], requests["cpu"]) == (memory, cpu)


def test_cpus_of_its_own_are_limits_too_and_ask_for_a_node_that_manages_them() -> None:
    """KubeVirt observed 3."""
    guest = gpus(GPU) | {"cpu": {"cores": 4, "dedicatedCpuPlacement": True}}
    pod = rendering.launcher(instance(spec={"domain": guest}))
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert (limits["memory"], limits["cpu"]) == ("3464Mi", "4")
    assert pod["spec"]["nodeSelector"]["kubevirt.io/cpumanager"] == "true"


KEEPS_OFF = {"key": "node-labeller.kubevirt.io/obsolete-host-model", "operator": "DoesNotExist"}


def test_a_plain_launcher_has_three_node_labels_and_one_term_with_one_expression() -> None:
    """KubeVirt observed 4."""
    spec = rendering.launcher(instance())["spec"]
    assert spec["nodeSelector"] == {
        "kubernetes.io/arch": "amd64",
        "kubevirt.io/schedulable": "true",
        "machine-type.node.kubevirt.io/q35": "true",
    }
    assert spec["affinity"] == {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [KEEPS_OFF]}]
            }
        }
    }
    assert "tolerations" not in spec
    assert "schedulingGates" not in spec


def test_an_instance_with_two_alternatives_keeps_both_each_with_the_expression() -> None:
    """KubeVirt observed 4."""
    zones = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        for zone in ("a", "b")
    ]
    anti = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10}]}
    toleration = {"key": "dedicated", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    vmi = instance(
        spec={
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": zones}
                },
                "podAntiAffinity": anti,
            },
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [toleration],
        }
    )
    spec = rendering.launcher(vmi)["spec"]
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert required["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": [zone]},
                KEEPS_OFF,
            ]
        }
        for zone in ("a", "b")
    ]
    assert spec["affinity"]["podAntiAffinity"] == anti
    assert spec["tolerations"] == [toleration]
    assert spec["nodeSelector"] == {
        "kubernetes.io/arch": "amd64",
        "kubevirt.io/schedulable": "true",
        "machine-type.node.kubevirt.io/q35": "true",
        "kubernetes.io/os": "linux",
    }
    assert len(zones[0]["matchExpressions"]) == 1, "the instance itself is left as it was"


def test_all_labels_and_annotations_of_the_instance_are_copied_but_observed_versions() -> None:
    """KubeVirt observed 5."""
    vmi = instance(
        labels={"app": "train"},
        annotations={
            "gpu.cozystack.io/claims": '["a"]',
            "kubevirt.io/latest-observed-api-version": "v1",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    )
    metadata = rendering.launcher(vmi)["metadata"]
    assert metadata["labels"] == {
        "app": "train",
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": "uid-of-train",
        "vm.kubevirt.io/name": "train",
        "vmi.kubevirt.io/id": "train",
    }
    assert metadata["annotations"] == {
        "gpu.cozystack.io/claims": '["a"]',
        "kubevirt.io/domain": "train",
        "kubectl.kubernetes.io/default-container": "compute",
        "kubevirt.io/migrationTransportUnix": "true",
        "descheduler.alpha.kubernetes.io/request-evict-only": "",
        "kubevirt.io/memory-overhead-bytes": "289406976",  # 276 MiB
    }


def test_a_long_dotted_name_makes_labels_that_are_not_unique_and_an_annotation_that_is() -> None:
    """KubeVirt observed 6."""
    name = (
        "train.a-very-long-virtual-machine-name-that-goes-past-the-label-limit-of-63.team-x.example"
    )
    metadata = rendering.launcher(instance(name))["metadata"]
    assert metadata["labels"]["vm.kubevirt.io/name"] == "train"
    assert (
        metadata["labels"]["vmi.kubevirt.io/id"]
        == "train.a-very-long-virtual-machine-name-that-goes-past--eadb6920"
    )
    assert metadata["annotations"]["kubevirt.io/domain"] == name
    assert metadata["generateName"] == f"virt-launcher-{name}-"


def test_disks_of_images_are_image_volumes_and_claims_are_claims() -> None:
    """KubeVirt observed 8, and 46 for what is plugged in later."""
    volumes = [
        {"name": "root", "containerDisk": {"image": "registry.example/fedora:40"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-claim"}},
        {"name": "boot", "dataVolume": {"name": "boot-volume"}},
        {"name": "scratch", "ephemeral": {"persistentVolumeClaim": {"claimName": "base"}}},
        {"name": "licence", "secret": {"secretName": "token", "optional": True}},
        {"name": "later", "persistentVolumeClaim": {"claimName": "hot", "hotpluggable": True}},
        {"name": "empty", "emptyDisk": {"capacity": "1Gi"}},
    ]
    pod = rendering.launcher(instance(spec={"volumes": volumes}))["spec"]
    own = {
        volume["name"]: {key: value for key, value in volume.items() if key != "name"}
        for volume in pod["volumes"]
        if "emptyDir" not in volume
    }
    launcher_image = "registry.example/kubevirt/virt-launcher:v1.9.0"
    assert own == {
        "root": {
            "image": {"reference": "registry.example/fedora:40", "pullPolicy": "IfNotPresent"}
        },
        "data": {"persistentVolumeClaim": {"claimName": "data-claim"}},
        "boot": {"persistentVolumeClaim": {"claimName": "boot-volume"}},
        "scratch": {"persistentVolumeClaim": {"claimName": "base", "readOnly": True}},
        "licence": {"secret": {"secretName": "token", "optional": True}},
        "launcher-volume": {"image": {"reference": launcher_image, "pullPolicy": "IfNotPresent"}},
    }
    assert [each["name"] for each in pod["initContainers"]] == ["guest-console-log", "volumeroot"]


@pytest.mark.parametrize(
    ("permitted", "want"),
    [
        pytest.param(None, "", id="no table permits everything"),
        pytest.param(frozenset({"nvidia.com/A", "nvidia.com/B"}), "", id="all are in it"),
        pytest.param(
            frozenset({"nvidia.com/A"}),
            "HostDevice nvidia.com/B is not permitted in permittedHostDevices configuration",
            id="one is not",
        ),
        pytest.param(
            frozenset(),
            "GPU nvidia.com/A is not permitted in permittedHostDevices configuration"
            " HostDevice nvidia.com/B is not permitted in permittedHostDevices configuration",
            id="an empty table permits nothing",
        ),
    ],
)
def test_devices_that_the_table_lacks_are_named_one_by_one(
    permitted: frozenset[str] | None, want: str
) -> None:
    """KubeVirt observed 9."""
    devices = {
        "gpus": [{"name": "a", "deviceName": "nvidia.com/A"}, DRA],
        "hostDevices": [{"name": "b", "deviceName": "nvidia.com/B"}],
    }
    assert rendering.not_permitted({"domain": domain(devices=devices)}, permitted) == want


def test_a_temporary_pod_differs_from_the_launcher_in_its_command_and_one_annotation() -> None:
    """KubeVirt observed 38."""
    vmi = instance(spec={"domain": gpus(GPU)}, labels={"app": "train"})
    got, want = rendering.temporary(vmi), rendering.launcher(vmi)
    assert got["metadata"]["annotations"].pop("kubevirt.io/ephemeral-provisioning") == "true"
    command = got["spec"]["containers"][0].pop("command")
    assert command == ["/bin/bash", "-c", "echo", "bound PVCs"]
    del want["spec"]["containers"][0]["command"]
    assert got == want


def test_a_migration_target_is_a_launcher_that_names_its_migration_and_keeps_apart() -> None:
    """KubeVirt observed 43."""
    vmi = instance(
        spec={"domain": gpus(GPU)},
        labels={"app": "train", "kubevirt.io/nodeName": "gpu-a"},
        annotations={"gpu.cozystack.io/claims": '["a"]'},
    )
    migration = {"metadata": {"name": "move", "uid": "uid-of-move"}, "spec": {"vmiName": "train"}}
    node = {
        "metadata": {
            "labels": {
                "cpu-vendor.node.kubevirt.io/Intel": "true",
                "host-model-cpu.node.kubevirt.io/Haswell": "true",
                "zone": "a",
            }
        }
    }
    pod = rendering.target(vmi, migration, node)
    assert pod["metadata"]["labels"] == {
        "app": "train",
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": "uid-of-train",
        "kubevirt.io/migrationJobUID": "uid-of-move",
        "kubevirt.io/nodeName": "gpu-a",  # the source's
        "vm.kubevirt.io/name": "train",
        "vmi.kubevirt.io/id": "train",
    }
    annotations = pod["metadata"]["annotations"]
    assert annotations["kubevirt.io/migrationJobName"] == "move"
    assert annotations["kubevirt.io/nonroot"] == "true"
    assert annotations["gpu.cozystack.io/claims"] == '["a"]'
    assert pod["spec"]["affinity"]["podAntiAffinity"] == {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "labelSelector": {"matchLabels": {"kubevirt.io/created-by": "uid-of-train"}},
                "topologyKey": "kubernetes.io/hostname",
            }
        ]
    }
    assert pod["spec"]["nodeSelector"] == {
        "cpu-model-migration.node.kubevirt.io/Haswell": "true",
        "cpu-vendor.node.kubevirt.io/Intel": "true",
        "kubernetes.io/arch": "amd64",
        "kubevirt.io/schedulable": "true",
        "machine-type.node.kubevirt.io/q35": "true",
    }
    assert pod["spec"]["containers"][0]["resources"]["limits"][GPU] == "1"


def test_an_attachment_belongs_to_the_launcher_takes_no_gpu_and_tolerates_what_it_does() -> None:
    """KubeVirt observed 46: also what was added to the launcher after its creation."""
    added = {"key": "gpu.example/class", "operator": "Exists", "effect": "NoSchedule"}
    running = launcher(phase="Running", node="gpu-a")
    running["spec"]["tolerations"] = [added]
    volume = {"name": "extra", "persistentVolumeClaim": {"claimName": "hot", "hotpluggable": True}}
    pod = rendering.attachment(running, [volume])
    assert pod["metadata"] == {
        "generateName": "hp-volume-",
        "namespace": "tenant-x",
        "labels": {"kubevirt.io": "hotplug-disk"},
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": "virt-launcher-train-abcde",
                "uid": "uid-of-virt-launcher-train-abcde",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    required = pod["spec"]["affinity"]["nodeAffinity"]
    assert required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {
            "matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-a"]}
            ]
        }
    ]
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"cpu": "100m", "memory": "80M"},
        "requests": {"cpu": "10m", "memory": "2M"},
    }
    assert pod["spec"]["tolerations"][0] == added
    assert {"name": "extra", "persistentVolumeClaim": {"claimName": "hot"}} in pod["spec"][
        "volumes"
    ]
