"""Every string that crosses a process or API boundary, with who writes and who reads it.

Manifests, policies and documents are tested against these names, so that renaming one is one
edit plus generated files.
"""

from typing import Final

GROUP: Final = "gpu.cozystack.io"
"""Group of the stored kinds, and the prefix of our labels, annotations and finalizers."""

VERSION: Final = "v1alpha1"
"""The one version of both groups."""

GROUP_VERSION: Final = f"{GROUP}/{VERSION}"
"""apiVersion of GPUClass, GPUClaim and GPUSystem."""

CATALOG_GROUP: Final = f"catalog.{GROUP}"
"""Group of the served kinds. A group of its own: an APIService claims a whole group and version,
so sharing one with the stored kinds would hide them."""

CATALOG_GROUP_VERSION: Final = f"{CATALOG_GROUP}/{VERSION}"
"""apiVersion of GPUClassOption."""

CATEGORY: Final = "cozygpu"
"""Category of all our kinds (`kubectl get cozygpu`). Never `all`, which people delete by."""

# Kinds and resources. (kind, plural, short name)
KIND_CLASS: Final = "GPUClass"
KIND_CLAIM: Final = "GPUClaim"
KIND_SYSTEM: Final = "GPUSystem"
KIND_OPTION: Final = "GPUClassOption"
RESOURCE_CLASSES: Final = "gpuclasses"
RESOURCE_CLAIMS: Final = "gpuclaims"
RESOURCE_SYSTEMS: Final = "gpusystems"
RESOURCE_OPTIONS: Final = "gpuclassoptions"
SINGULAR_OPTION: Final = "gpuclassoption"
SHORT_CLASSES: Final = "gpucls"
SHORT_CLAIMS: Final = "gpuclm"
SHORT_SYSTEMS: Final = "gpusys"
SHORT_OPTIONS: Final = "gpuopt"

RESOURCE_QUOTAS: Final = "resourcequotas"
"""Kubernetes' resource of quotas: the collection that budgets are read from."""

KIND_QUOTA: Final = "ResourceQuota"
"""Its kind, which an event about one names."""

SYSTEM_NAME: Final = "default"
"""The one GPUSystem. Written by the binder, read by policies."""

ANNOTATION_PREFIX: Final = f"{GROUP}/"
"""Begin of the keys of our annotations. On a VMI everything under it is ours to judge."""

ANNOTATION_CLASSES: Final = f"{GROUP}/classes"
"""On a VM template or VMI: JSON array of `{"className", "count"}`. Written by tenants."""

ANNOTATION_CLAIMS: Final = f"{GROUP}/claims"
"""On a VM template or VMI: JSON array of claim names. Written by tenants."""

ANNOTATION_ATTACHMENTS: Final = f"{GROUP}/attachments"
"""On a VMI: the record of admission. Written by the VMI webhook only, read by the binder."""

ANNOTATION_LAUNCHER: Final = f"{GROUP}/launcher"
"""On a pod: the uid of the VMI whose launcher it is. Written by the pod webhook only."""

GATE: Final = f"{GROUP}/claims"
"""Scheduling gate of a launcher. Added by the pod webhook, removed by the binder."""

LABEL_TEMPLATE: Final = f"{GROUP}/template"
"""On a GPUClaim, `"true"`: made by the binder for a VMI's class entry."""

LABEL_ENTITLEMENT: Final = f"{GROUP}/vgpu"
"""On a namespace: `entitled` or `denied`. Written by trusted groups."""

ENTITLED: Final = "entitled"
"""The one value of the entitlement label that grants."""

LABEL_MANAGED_BY: Final = f"{GROUP}/managed-by"
"""On a usage record or a Secret of ours. Written by the binder; policies keep everybody else from
writing what carries it, with whatever value."""

MANAGED_BY: Final = "binder"
"""The value that the binder gives that label. It never touches what does not have it."""

FINALIZER_CLAIM: Final = f"{GROUP}/claim"
"""On a GPUClaim while its units may be held by a pod. The binder's."""

FINALIZER_CLASS: Final = f"{GROUP}/class-in-use"
"""On a GPUClass while claims of it exist. The binder's."""

CLASS_KEY_SUFFIX: Final = f".gpuclass.{GROUP}/units"
"""Budget key of a class: `<class>` plus this, in a ResourceQuota's hard limits."""

QUOTA_ALLOCATED: Final = "tenant-quota-allocated"
"""ResourceQuota that Cozystack derives from the others. Neither read nor written by us."""

NAMESPACE: Final = "cozy-gpu"
"""Where our processes, our settings and licence secrets live."""

LEASE_NAME: Final = "gpu-binder"
"""Lease in our namespace by which one binder of several leads."""

SETTINGS_NAME: Final = "gpu-settings"
"""ConfigMap with the settings, in our namespace. Written by the hoster."""

WEBHOOK_PREFIX: Final = "/admission/"
"""Begin of the paths that the API server's admission calls, as the webhook configurations name
them."""

WEBHOOK_VMIS: Final = f"{WEBHOOK_PREFIX}vmis"
"""A VM instance when it is made: refused, or given its GPUs."""

WEBHOOK_VMIS_FINAL: Final = f"{WEBHOOK_PREFIX}vmis-final"
"""The same once more, after all webhooks that change it."""

WEBHOOK_PODS: Final = f"{WEBHOOK_PREFIX}pods"
"""A pod when it is made."""

WEBHOOK_CLAIMS: Final = f"{WEBHOOK_PREFIX}gpuclaims"
"""An order."""

WEBHOOK_CLASSES: Final = f"{WEBHOOK_PREFIX}gpuclasses"
"""A class when it is made or changed."""

SERVICE_APISERVER: Final = "gpu-apiserver"
"""Service of the catalog and the webhooks, in our namespace."""

POLICY_PREFIX: Final = "cozystack-gpu-"
"""Begin of the names of our ValidatingAdmissionPolicies, which end in `-policy`; a binding has the
name of its policy."""

KUBEVIRT_NAMESPACE: Final = "cozy-kubevirt"
"""Where KubeVirt is installed unless the settings say otherwise."""

TENANT_PREFIX: Final = "tenant-"
"""A namespace of this prefix and a non-empty rest is a tenant's."""

TENANT_ROOT: Final = "tenant-root"
"""The tenant at the top of the tree."""

LABEL_KUBEVIRT_SCHEDULABLE: Final = "kubevirt.io/schedulable"
"""On a node: `"true"` where KubeVirt runs VMs. Written by virt-handler and its node controller."""

LABEL_MIGRATION_JOB: Final = "kubevirt.io/migrationJobUID"
"""On a pod: the uid of the migration it is the target of. Written by virt-controller."""

LICENSE_PREFIX: Final = "gpu-license-"
"""Before the name of a class: name of the Secret in a tenant's namespace with that class's
licence. Written by the hoster: the binder does not copy it yet."""

LICENSE_LABEL: Final = "GPULICENSE"
"""Label of the volume, and serial of the disk, by which a guest finds its licence."""

ANNOTATION_EPOCH: Final = f"{GROUP}/epoch"
"""On a pod at our gate: the term whose leader saw to it that nobody before may start it."""

ANNOTATION_EPHEMERAL: Final = "kubevirt.io/ephemeral-provisioning"
"""On a pod: it only binds a VM's volumes, and a launcher follows. Written by virt-controller."""

ANNOTATION_MIGRATION_NAME: Final = "kubevirt.io/migrationJobName"
"""On a pod: the name of the migration it is the target of. Written by virt-controller."""

ANNOTATION_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""On a PersistentVolumeClaim: the node that its volume is made for. Written by kube-scheduler."""

LABEL_KUBEVIRT: Final = "kubevirt.io"
"""On a pod of KubeVirt's: what sort it is. Written by virt-controller, and by anyone else."""

LAUNCHER: Final = "virt-launcher"
"""The value of that label on launchers, temporary pods and migration targets."""

KIND_VMI: Final = "VirtualMachineInstance"
KIND_VM: Final = "VirtualMachine"

LIMIT_UNITS: Final = 1024
"""The most units of a VM, over all its entries and claims, and of one claim."""

LIMIT_ENTRIES: Final = 32
"""The most class entries of a VM, and the most claims that it names."""

INT32_MAX: Final = 2_147_483_647
"""Counts are int32 (Kubernetes API conventions); larger figures show as this."""

EPOCH_MAX: Final = INT32_MAX
"""The highest number of a binder's term: one every five seconds for three centuries."""

# Kubernetes' and KubeVirt's own, as far as we read them. (group/version, resource)
KUBEVIRT_GROUP: Final = "kubevirt.io"
"""Group of KubeVirt's kinds."""

KUBEVIRT_GROUP_VERSION: Final = f"{KUBEVIRT_GROUP}/v1"
"""apiVersion of KubeVirt's kinds, served since its first stable release."""

# Kubernetes' own names that our servers judge by.
GROUP_MASTERS: Final = "system:masters"
"""Group that may do everything; authorization is not asked."""

GROUP_AUTHENTICATED: Final = "system:authenticated"
"""Group of everybody who is somebody."""

GROUP_UNAUTHENTICATED: Final = "system:unauthenticated"
"""Group of everybody else."""

USER_ANONYMOUS: Final = "system:anonymous"
"""Name of a caller without credentials."""

EXTRA_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
"""Extra of a user: which certificate vouched for it."""

TRUST_NAMESPACE: Final = "kube-system"
"""Where kube-apiserver publishes whom an extension server trusts."""

TRUST_NAME: Final = "extension-apiserver-authentication"
"""That ConfigMap. Written by kube-apiserver, read by our API server."""
