"""VirtualMachineInstanceReplicaSets: as many instances of one template as are wanted."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from tests.cluster.api import Object
from tests.kubevirt import words as w
from tests.kubevirt.objects import (
    has_condition,
    is_final,
    is_going,
    name_of,
    namespace_of,
    owner_reference,
    status_of,
)


@dataclass(frozen=True, slots=True)
class Act:
    """What a pass does, beside writing the set's status."""

    create: tuple[Object, ...] = ()
    delete: tuple[Object, ...] = ()


def act(replica_set: Object, instances: Sequence[Object]) -> Act:
    """Make the instances that are missing, delete those that ended or are too many."""
    if is_going(replica_set) or replica_set["spec"].get("paused"):
        return Act()
    wanted = replica_set["spec"].get("replicas", 1)
    ended = [each for each in instances if is_final(each) and not is_going(each)]
    alive = [each for each in instances if not is_final(each) and not is_going(each)]
    missing = max(wanted - len(alive), 0)
    return Act(
        create=tuple(instance_of(replica_set) for _ in range(missing)),
        delete=(*ended, *alive[wanted:]),
    )


def told(replica_set: Object, instances: Sequence[Object]) -> Object:
    """The set's status."""
    alive = [each for each in instances if not is_final(each) and not is_going(each)]
    status = {**status_of(replica_set), "replicas": len(alive)}
    status["readyReplicas"] = sum(has_condition(each, "Ready", "True") for each in alive)
    return status


def instance_of(replica_set: Object) -> Object:
    """One more instance: it has no name yet when it is admitted (KubeVirt observed 7)."""
    template = replica_set["spec"]["template"]
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": w.API_VERSION,
        "kind": "VirtualMachineInstance",
        "metadata": {
            "generateName": name_of(replica_set),
            "namespace": namespace_of(replica_set),
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner_reference(replica_set)],
        },
        "spec": copy.deepcopy(template["spec"]),
    }
