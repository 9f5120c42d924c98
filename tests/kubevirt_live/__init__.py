"""The stand-in for KubeVirt on the real control plane."""
