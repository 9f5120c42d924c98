"""A stand-in for KubeVirt: does to objects what its controllers were seen to do.

KubeVirt itself cannot be installed where these tests run. What it makes and does was observed
once on a real control plane; docs/kubevirt.md lists what this project relies on, with a number per
finding, and each behaviour here names its own: "KubeVirt observed 12".

What happens next is decided by pure functions, one module per kind: `instances`, `machines`,
`migrations`, `replicasets`, with `rendering` and `resources` for the pods that come of it and
`defaults` for what KubeVirt's webhook fills in. `controller` carries it out as virt-controller's
account, `nodes` plays the parts that virt-handler, a kubelet and the importer of disks have in it,
`virt_api` serves the webhooks, `standin` starts them together.

Left out is what no rule of ours depends on: networks, disks' content, snapshots, exports,
presets, instance types, decentralized migration.
"""
