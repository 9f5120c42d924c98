"""The stand-in's decisions, held to what KubeVirt was seen to do (docs/kubevirt.md)."""
