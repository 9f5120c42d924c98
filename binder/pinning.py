"""The node affinity of a pod that may run on one node only (rule 7.8). Pure."""

from __future__ import annotations

from shared.fields import Json, mapping, mappings

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pinned(affinity: Json, node_name: str) -> Json:
    """The affinity of a pod with this node, by name, demanded in each of its terms.

    Terms are alternatives, so that one without the name would leave the pod free. An empty term
    matches no node and stays as it is; where no term matches any, there is nothing to pin.

    Args:
        affinity: the pod's `spec.affinity`, empty where it has none; not changed.
        node_name: its `metadata.name`, which no label can take away.
    """
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    node_affinity = mapping(affinity.get("nodeAffinity"))
    required = mapping(node_affinity.get(REQUIRED))
    terms = [
        {**term, "matchFields": [*mappings(term.get("matchFields")), field]}
        if term.get("matchFields") or term.get("matchExpressions")
        else term
        for term in mappings(required.get("nodeSelectorTerms"))
    ]
    required = {**required, "nodeSelectorTerms": terms or [{"matchFields": [field]}]}
    return {**affinity, "nodeAffinity": {**node_affinity, REQUIRED: required}}
