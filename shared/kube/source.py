"""Where a process's credentials come from, as its settings say."""

from __future__ import annotations

from pathlib import Path

from shared.kube.credentials import InCluster, Source


def source(kubeconfig: Path | None, context: str | None) -> Source:
    """A kubeconfig where one is named, else the pod's account."""
    if kubeconfig is None:
        return InCluster()
    # Only here: what reads a kubeconfig is large, and a pod has none.
    from shared.kube.kubeconfig import Kubeconfig

    return Kubeconfig(kubeconfig, context)
