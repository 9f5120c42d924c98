"""The table as values: the objects of each case, and the nodes that take its pod.

In the files a name that begins with `$` stands for a name of the case's own: `$a` for node a,
`$own` and `$other` for its namespaces, `$zone` and `$rack` for labels that no other node has,
`$case` for the case itself. Cases of a file that says `apart` have a namespace of their own, since
their pods look at each other; the rest share one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api import Object

FOLDER = Path(__file__).parent
GPU = "scheduling.test/gpu"
"""A device of which each node has some, so that sets have room."""

_PLENTY = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: "4"}
_NAME = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Case:
    """One case, with short names.

    Attributes:
        takes: nodes to which kube-scheduler binds the pod.
        ours_refuses: those of them that we do not choose all the same.
        pinned_waits: those of them where the pod would wait for ever once it is pinned there.
    """

    name: str
    raw: Mapping[str, Any]
    takes: frozenset[str]
    ours_refuses: frozenset[str]
    pinned_waits: frozenset[str]

    @property
    def nodes(self) -> list[str]:
        """The nodes, those first that take the pod: then all that it needs is known there."""
        return sorted(self.raw["nodes"], key=lambda name: (name not in self.takes, name))

    def objects(self, unique: Callable[[str], str], shared: str) -> Objects:
        """The objects of the case, with names that no other has, but perhaps for a namespace."""
        case = unique("fit")
        names = {each: f"{case}-{each}" for each in (*self.raw["nodes"], "own", "other")}
        names["case"] = case
        if not self.raw["apart"]:
            names["own"] = shared
        names |= {label: f"{names['case']}.test/{label}" for label in ("zone", "rack")}

        def named(found: re.Match[str]) -> str:
            return names[found[1]]

        return Objects(json.loads(_NAME.sub(named, json.dumps(self.raw))), names)


@dataclass(frozen=True)
class Objects:
    """What there is for a case, as the API server is to have it."""

    raw: Mapping[str, Any]
    names: Mapping[str, str]

    def namespaces(self) -> Iterator[tuple[str, dict[str, str]]]:
        """The namespaces that the case has for itself, and their labels."""
        if self.raw["apart"]:
            yield self.names["own"], {"team": f"{self.names['case']}-own"}
        if any("namespace" in each for each in self.raw.get("there", ())):
            yield self.names["other"], {"team": self.names["case"]}

    def marker(self, node: str) -> str:
        """A device that one node alone has: who requests it can only go there."""
        return f"{self.names['case']}.test/{node}"

    def nodes(self) -> Iterator[Object]:
        """The nodes; each has its marker."""
        for name, node in self.raw["nodes"].items():
            amounts = _PLENTY | node.get("allocatable", {}) | {self.marker(name): "1"}
            real = self.names[name]
            yield {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": real,
                    "labels": {
                        "kubernetes.io/hostname": real,
                        "kubevirt.io/schedulable": "true",
                        "case": self.names["case"],
                        **node.get("labels", {}),
                    },
                },
                "spec": {
                    "taints": node.get("taints", []),
                    "unschedulable": node.get("unschedulable", False),
                },
                "status": {"capacity": amounts, "allocatable": amounts},
            }

    def volumes(self) -> Iterator[tuple[Object, Object]]:
        """PersistentVolumes, each with the claim that it is for."""
        for name, volume in self.raw.get("volumes", {}).items():
            real = f"{self.names['case']}-{name}"
            size = {"storage": "1Gi"}
            spec: Object = {
                "capacity": size,
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/none"},
                "claimRef": {"namespace": self.names["own"], "name": real},
            }
            if "terms" in volume:
                spec["nodeAffinity"] = {"required": _terms(volume["terms"])}
            yield (
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": real, "labels": volume.get("labels", {})},
                    "spec": spec,
                },
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        "name": real,
                        "namespace": self.names["own"],
                        "labels": {"case": self.names["case"]},
                    },
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "volumeName": real,
                        "storageClassName": "",
                        "resources": {"requests": size},
                    },
                },
            )

    def there(self) -> Iterator[Object]:
        """The pods that are on nodes already."""
        for number, each in enumerate(self.raw.get("there", ())):
            pod = _pod(
                f"{self.names['case']}-there-{number}",
                self.names[each.get("namespace", "own")],
                each,
            )
            pod["spec"]["nodeName"] = self.names[each["node"]]
            if each.get("leaving"):
                pod["metadata"]["finalizers"] = ["scheduling.test/leaving"]
            yield pod

    def pod(self, node: str, why: str = "on") -> Object:
        """The pod of the case; of all nodes only one has all that it requests.

        Not by a node affinity: that would change which nodes count in a topology spread.
        """
        pod = _pod(f"{self.names['case']}-{why}-{node}", self.names["own"], self.raw["pod"])
        _request(pod, self.marker(node))
        pod["spec"].setdefault("volumes", []).extend(
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
            for claim in (each["metadata"]["name"] for _, each in self.volumes())
        )
        return pod

    def bare(self, node: str) -> Object:
        """A pod that asks for nothing but to go to one node, whatever its taints."""
        name = f"{self.names['case']}-bare-{node}"
        pod = _pod(name, self.names["own"], {"tolerations": [{"operator": "Exists"}]})
        _request(pod, self.marker(node))
        return pod


def cases() -> list[Case]:
    """All of the table."""
    return [
        _case(path.stem, {**document, **raw})
        for path in sorted(FOLDER.glob("*.yaml"))
        for document in [yaml.load(path.read_text(), yaml.CSafeLoader)]
        for raw in document["cases"]
    ]


def pinned(pod: Object, node: str) -> Object:
    """A pod with a pin to a node, as the binder writes it (rule 7.8)."""
    pin = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod["spec"].get("affinity", {})
    nodes = affinity.get("nodeAffinity", {})
    required = nodes.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms") or [{"matchFields": []}]
    terms = [
        {**term, "matchFields": [*term.get("matchFields", []), pin]}
        if term or len(terms) == 1
        else term
        for term in terms
    ]
    nodes = {
        **nodes,
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
    }
    return {**pod, "spec": {**pod["spec"], "affinity": {**affinity, "nodeAffinity": nodes}}}


def _case(file: str, raw: Mapping[str, Any]) -> Case:
    takes, ours, waits = (
        frozenset(raw.get(each, ())) for each in ("takes", "ours_refuses", "pinned_waits")
    )
    assert takes <= raw["nodes"].keys(), raw["case"]
    assert ours | waits <= takes, raw["case"]
    return Case(f"{file}: {raw['case']}", raw, takes, ours, waits)


def _pod(name: str, namespace: str, raw: Mapping[str, Any]) -> Object:
    affinity: Object = {}
    if "affinity" in raw:
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": _terms(raw["affinity"])
        }
    for short, kind in (("near", "podAffinity"), ("far", "podAntiAffinity")):
        if short in raw:
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": raw[short]}
    asked = raw.get("requests", {})
    firm = {each: amount for each, amount in asked.items() if "/" in each or "hugepages" in each}
    spec = {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": "none",
                "ports": raw.get("ports", []),
                "resources": {"requests": dict(asked), "limits": firm},
            }
        ],
        "tolerations": raw.get("tolerations", []),
        "topologySpreadConstraints": [
            {"whenUnsatisfiable": "DoNotSchedule", **each} for each in raw.get("spread", ())
        ],
        **raw.get("spec", {}),
    }
    if affinity:
        spec["affinity"] = affinity
    metadata = {"name": name, "namespace": namespace, "labels": raw.get("labels", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _terms(raw: list[Any]) -> Object:
    """A term is a list of expressions, or has them and fields by name."""
    terms = [term if isinstance(term, dict) else {"expressions": term} for term in raw]
    names = {"expressions": "matchExpressions", "fields": "matchFields"}
    return {
        "nodeSelectorTerms": [
            {names[part]: wanted for part, wanted in term.items() if wanted} for term in terms
        ]
    }


def _request(pod: Object, resource: str) -> None:
    resources = pod["spec"]["containers"][0]["resources"]
    for kind in ("requests", "limits"):
        resources[kind][resource] = "1"
