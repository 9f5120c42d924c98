"""What docs/installing.md says about saving and bringing back, word for word (rule 6.6)."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import vocabulary as words
from tests.catalog.objects import CLAIM, CLASS, claim, gpu_class
from tests.cluster.api import Object
from tests.cluster.binder import BRISK, Binder
from tests.cluster.build import REPOSITORY, Binaries
from tests.cluster.install import Catalog
from tests.cluster.plane import ControlPlane, control_plane
from tests.cluster.waiting import wait_until
from tests.kubevirt import kinds, nodes
from tests.kubevirt import words as w
from tests.kubevirt.objects import condition, name_of, phase_of
from tests.kubevirt.standin import kubevirt
from tests.kubevirt.timing import Timing
from tests.policies.people import MIGHTY, introduce
from tests.policies.scene import NAMESPACE

HEADING = "## Saving and bringing back"
OPEN, ENDED = "example.com/open", "example.com/ended"
SECRET = "v1/Secret"
CONFIG = "v1/ConfigMap"
VALIDATING = "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration"


def commands() -> tuple[str, str]:
    """How to save, and how to bring back: the two blocks under that heading."""
    text = (REPOSITORY / "docs/installing.md").read_text()
    section = text.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]
    save, restore = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return save, restore


@pytest.fixture
async def catalog(binaries: Binaries, run: Path) -> AsyncIterator[Catalog]:
    """All but step 3, on a plane of its own: everything is taken away there."""
    async with control_plane(run / "backup", binaries) as plane:
        catalog, binder = Catalog(plane), Binder(plane, flags=BRISK)
        await kinds.install(plane.cluster)
        await catalog.install()
        await plane.cluster.create_namespace(NAMESPACE)
        await introduce(plane.cluster, NAMESPACE)
        await binder.start()
        try:
            async with kubevirt(plane.cluster, timing=Timing(speed=20)):
                yield catalog
        finally:
            await binder.stop()
            await catalog.stop()
        plane.check()


async def run_as_administrator(plane: ControlPlane, script: str, folder: Path) -> str:
    """Run commands in a shell, as one who may do everything and whom nobody trusts.

    Returns what they complained of.
    """
    kubectl = folder / "bin" / "kubectl"
    kubectl.parent.mkdir(exist_ok=True)
    program = shlex.quote(str(plane.cluster.controlplane))
    kubectl.write_text(f'#!/bin/sh\nexec {program} kubectl "$@"\n')
    kubectl.chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", script),
        cwd=folder,
        env={
            "PATH": f"{kubectl.parent}:/usr/bin:/bin",
            "KUBECONFIG": str(plane.cluster.access.kubeconfig(MIGHTY)),
            "KUBECACHEDIR": str(folder / "cache"),
        },
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()
    return told.decode()


async def until_bound(plane: ControlPlane, *names: str) -> None:
    """Wait until exactly these orders have their units, and the others wait for a reason."""

    async def settled() -> bool:
        found = await plane.cluster.admin.list(CLAIM, NAMESPACE)
        said = {name_of(each): condition(each, "Bound") for each in found}
        looked_at = all(
            each.get("reason", "Unevaluated") != "Unevaluated" for each in said.values()
        )
        bound = {name for name, each in said.items() if each.get("status") == "True"}
        return looked_at and bound == set(names)

    await wait_until(settled, f"{names} are bound, and no other order")


def machine(strategy: str) -> Object:
    """A VM with one unit of the class that is open."""
    entries = '[{"className":"open","count":1}]'
    domain = {"cpu": {"cores": 1}, "memory": {"guest": "1Gi"}, "devices": {}}
    template = {
        "metadata": {"annotations": {words.ANNOTATION_CLASSES: entries}},
        "spec": {"domain": domain},
    }
    return {
        "apiVersion": w.API_VERSION,
        "kind": words.KIND_VM,
        "metadata": {"name": "vm", "namespace": NAMESPACE},
        "spec": {"runStrategy": strategy, "template": template},
    }


async def until_it_runs(plane: ControlPlane) -> None:
    """Wait until the VM runs."""

    async def runs() -> bool:
        found = await plane.cluster.admin.find(w.VMI, "vm", NAMESPACE)
        return found is not None and phase_of(found) == "Running"

    await wait_until(runs, "the VM runs")


def meant(thing: Object) -> Object:
    """What people said in an object."""
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {key: value for key, value in thing["metadata"].items() if key in kept}
    return {"metadata": metadata, "spec": thing["spec"]}


async def all_of(plane: ControlPlane) -> list[Object]:
    """Classes and orders as people meant them."""
    admin = plane.cluster.admin
    orders = await admin.list(CLAIM, NAMESPACE, labelSelector=f"!{words.LABEL_TEMPLATE}")
    return [meant(each) for each in (*await admin.list(CLASS), *orders)]


async def fill(plane: ControlPlane) -> None:
    """Four units, two of them ordered, one in a VM; a class that ends; an order that waits."""
    admin = plane.cluster.admin
    await admin.create(nodes.node("gpu-1", {OPEN: 4, ENDED: 1}))
    licence = {"name": "grid", "namespace": words.NAMESPACE}
    await admin.create(
        {"apiVersion": "v1", "kind": "Secret", "metadata": licence, "stringData": {"token": "x"}}
    )
    labelled = gpu_class("open", OPEN, maxCount=4, guestLicense={"secretName": "grid"})
    labelled["metadata"]["labels"] = {"tier": "gold"}
    await admin.create(labelled)
    await admin.create(gpu_class("ended", ENDED))
    kept = claim(NAMESPACE, "kept", "open", 2)
    kept["metadata"]["annotations"] = {"for": "training"}
    await admin.create(kept)
    await admin.create(claim(NAMESPACE, "of-ended", "ended", 1))
    await until_bound(plane, "kept", "of-ended")
    # Older than all others once they are made anew in one second: among those names decide.
    await admin.create(claim(NAMESPACE, "awaited", "open", 3))
    await admin.patch(CLASS, "ended", {"spec": {"lifecycle": "Closed"}})


async def lose(plane: ControlPlane) -> None:
    """Everything goes that was saved."""
    admin = plane.cluster.admin
    halted = {"spec": {"runStrategy": "Halted"}}
    await admin.patch(w.VM, "vm", halted, NAMESPACE)
    told = await plane.cluster.kubectl("delete", "gpuclaims", "--all", "-A")
    assert told.checked
    told = await plane.cluster.kubectl("delete", "gpuclasses", "--all")
    assert told.checked
    await admin.delete(SECRET, "grid", words.NAMESPACE)
    changed = {"data": {"forbidRawNames": "false"}}
    await admin.patch(CONFIG, words.SETTINGS_NAME, changed, words.NAMESPACE)


async def test_what_was_saved_comes_back_as_the_document_says(
    catalog: Catalog, tmp_path: Path
) -> None:
    plane = catalog.plane
    admin = plane.cluster.admin
    save, restore = commands()
    said = {"data": {"forbidRawNames": "true"}}
    await admin.patch(CONFIG, words.SETTINGS_NAME, said, words.NAMESPACE)
    await fill(plane)
    await catalog.enforce()
    await admin.create(machine("Always"))
    await until_it_runs(plane)
    before = await all_of(plane)
    assert len(before) == 5  # two classes, three orders

    assert await run_as_administrator(plane, save, tmp_path) == ""
    await lose(plane)
    assert await all_of(plane) == []

    judged = await plane.cluster.admin.get(VALIDATING, words.GROUP)
    told = await run_as_administrator(plane, restore, tmp_path)
    complaints = [line for line in told.splitlines() if "AlreadyExists" not in line]
    assert complaints == []
    assert await all_of(plane) == before
    await until_bound(plane, "kept", "of-ended")
    settings = await admin.get(CONFIG, words.SETTINGS_NAME, words.NAMESPACE)
    assert settings["data"]["forbidRawNames"] == "true"
    assert await admin.find(SECRET, "grid", words.NAMESPACE) is not None

    assert (await admin.get(VALIDATING, words.GROUP))["webhooks"] == judged["webhooks"]
    await admin.patch(w.VM, "vm", {"spec": {"runStrategy": "Always"}}, NAMESPACE)
    await until_it_runs(plane)
    template = f"{words.LABEL_TEMPLATE}=true"
    assert len(await admin.list(CLAIM, NAMESPACE, labelSelector=template)) == 1
