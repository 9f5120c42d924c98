"""KubeVirt's own words, as far as they appear in what it writes or reads.

Those that our processes read too are in `shared.vocabulary`; they are only named here.
"""

from __future__ import annotations

from typing import Final

from shared import vocabulary

API_VERSION: Final = vocabulary.KUBEVIRT_GROUP_VERSION
GROUP: Final = vocabulary.KUBEVIRT_GROUP

# Kinds, as `tests.cluster.api.Api` takes them.
VM: Final = f"{API_VERSION}/VirtualMachine"
VMI: Final = f"{API_VERSION}/VirtualMachineInstance"
MIGRATION: Final = f"{API_VERSION}/VirtualMachineInstanceMigration"
REPLICA_SET: Final = f"{API_VERSION}/VirtualMachineInstanceReplicaSet"
KUBEVIRT: Final = f"{API_VERSION}/KubeVirt"
DATA_VOLUME: Final = "cdi.kubevirt.io/v1beta1/DataVolume"
POD: Final = "v1/Pod"
PVC: Final = "v1/PersistentVolumeClaim"
NODE: Final = "v1/Node"
REVISION: Final = "apps/v1/ControllerRevision"

# Labels.
LABEL_APP: Final = "kubevirt.io"
LAUNCHER: Final = "virt-launcher"
ATTACHMENT: Final = "hotplug-disk"
LABEL_CREATED_BY: Final = "kubevirt.io/created-by"
LABEL_NODE_NAME: Final = "kubevirt.io/nodeName"
LABEL_TARGET_NODE: Final = "kubevirt.io/migrationTargetNodeName"
LABEL_VM_NAME: Final = "vm.kubevirt.io/name"
LABEL_VMI_ID: Final = "vmi.kubevirt.io/id"
LABEL_MIGRATION_JOB: Final = vocabulary.LABEL_MIGRATION_JOB
LABEL_SCHEDULABLE: Final = vocabulary.LABEL_KUBEVIRT_SCHEDULABLE
LABEL_VMI_OF_MIGRATION: Final = "kubevirt.io/vmi-name"
LABEL_CPU_MANAGER: Final = "kubevirt.io/cpumanager"
LABEL_MACHINE_TYPE: Final = "machine-type.node.kubevirt.io/"
LABEL_CPU_MODEL: Final = "cpu-model.node.kubevirt.io/"
LABEL_HOST_MODEL: Final = "host-model-cpu.node.kubevirt.io/"
LABEL_CPU_MODEL_MIGRATION: Final = "cpu-model-migration.node.kubevirt.io/"
LABEL_CPU_VENDOR: Final = "cpu-vendor.node.kubevirt.io/"
LABEL_OBSOLETE_HOST_MODEL: Final = "node-labeller.kubevirt.io/obsolete-host-model"
LABEL_ARCH: Final = "kubernetes.io/arch"
LABEL_HOSTNAME: Final = "kubernetes.io/hostname"

RESERVED_LABELS: Final = frozenset(
    {
        LABEL_CREATED_BY,
        LABEL_MIGRATION_JOB,
        LABEL_NODE_NAME,
        LABEL_TARGET_NODE,
        LABEL_SCHEDULABLE,
        "kubevirt.io/install-strategy",
    }
)
"""On an instance only KubeVirt's own accounts may set or change these."""

# Annotations.
ANNOTATION_EPHEMERAL: Final = "kubevirt.io/ephemeral-provisioning"
ANNOTATION_DOMAIN: Final = "kubevirt.io/domain"
ANNOTATION_GENERATION: Final = "kubevirt.io/vm-generation"
ANNOTATION_MIGRATION_NAME: Final = "kubevirt.io/migrationJobName"
ANNOTATION_TRANSPORT: Final = "kubevirt.io/migrationTransportUnix"
ANNOTATION_NONROOT: Final = "kubevirt.io/nonroot"
ANNOTATION_OVERHEAD: Final = "kubevirt.io/memory-overhead-bytes"
ANNOTATION_API_VERSION: Final = "kubevirt.io/latest-observed-api-version"
ANNOTATION_STORED_VERSION: Final = "kubevirt.io/storage-observed-api-version"
ANNOTATION_EVICT_ONLY: Final = "descheduler.alpha.kubernetes.io/request-evict-only"
ANNOTATION_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
ANNOTATION_PENDING_TIMEOUT: Final = "kubevirt.io/migrationPendingPodTimeoutSeconds"
ANNOTATION_UNSCHEDULABLE_TIMEOUT: Final = "kubevirt.io/migrationUnschedulablePodTimeoutSeconds"

# Finalizers.
FINALIZER_VMI: Final = "kubevirt.io/foregroundDeleteVirtualMachine"
FINALIZER_VM: Final = "kubevirt.io/virtualMachineControllerFinalize"
FINALIZER_MIGRATION: Final = "kubevirt.io/migrationJobFinalize"

CONDITION_UNPAUSED: Final = "kubevirt.io/virtual-machine-unpaused"
"""Readiness gate and condition of every launcher."""

# Accounts, in KubeVirt's namespace.
ACCOUNT_CONTROLLER: Final = "kubevirt-controller"
ACCOUNT_HANDLER: Final = "kubevirt-handler"
ACCOUNT_API: Final = "kubevirt-apiserver"
ACCOUNT_SYNCHRONIZATION: Final = "kubevirt-synchronization-controller"
ACCOUNTS: Final = (
    ACCOUNT_CONTROLLER,
    ACCOUNT_HANDLER,
    ACCOUNT_API,
    ACCOUNT_SYNCHRONIZATION,
)
"""Those that KubeVirt's webhooks exempt from what users may not do."""

# Phases and run strategies.
PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
FINAL: Final = frozenset({SUCCEEDED, FAILED})
WAITS_FOR_CONSUMER: Final = "WaitForFirstConsumer"

ALWAYS: Final = "Always"
RERUN: Final = "RerunOnFailure"
MANUAL: Final = "Manual"
ONCE: Final = "Once"
HALTED: Final = "Halted"

FAILED_CREATE: Final = "FailedCreate"
FAILED_PVC_NOT_FOUND: Final = "FailedPvcNotFound"
