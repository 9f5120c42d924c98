"""The manifests on a real control plane: what they install, and what they allow."""
