"""Tell the demo: what is in the cluster, what each tenant sees, and why."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

from tests.demo.lives import come_and_go, stop_and_start
from tests.demo.stage import (
    DemoFailed,
    Kubectl,
    attempts,
    hold_to_story,
    set_up,
    start,
    view_of,
)
from tests.demo.story import STOCKS, TENANTS, Tenant
from tests.demo.tries import REFUSED

INTERRUPTED = 130


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def explain(name: str, text: str) -> None:
    indent = 2 + max(map(len, STOCKS)) + 2
    say(
        textwrap.fill(
            text,
            width=98,
            initial_indent=f"  {name}".ljust(indent),
            subsequent_indent=" " * indent,
        )
    )


def show(kubectl: Kubectl, tenant: Tenant, within_seconds: float) -> None:
    kubeconfig, arguments = view_of(kubectl, tenant)
    say(f"\n== {tenant.who}\n")
    hold_to_story(kubectl, tenant, within_seconds)
    say(kubectl.run("get", "gpuclassoptions", *arguments, kubeconfig=kubeconfig))
    for seen in tenant.options:
        explain(seen.class_name, seen.why)


def show_refusal(kubectl: Kubectl) -> None:
    say("\n== Another tenant's namespace is none of Acme's business\n")
    done = kubectl.attempt(
        "get", "gpuclassoptions", "-n", "tenant-globex", kubeconfig=kubectl.tenant
    )
    say(done.stderr.strip())
    if done.returncode == 0:
        raise DemoFailed("Acme could read what Globex sees")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, default=Path(".run"), help="what `make up` left")
    parser.add_argument(
        "--within", type=float, default=60.0, help="seconds in which the figures must be right"
    )
    arguments = parser.parse_args()
    kubectl = Kubectl(arguments.run, say)
    try:
        say("== Into the cluster\n")
        set_up(kubectl, arguments.within)
        say("\n== What the hoster offers, and where the units are\n")
        say(kubectl.run("get", "gpuclasses"))
        say("How these figures come about:")
        for name, stock in STOCKS.items():
            explain(name, stock.why)
        for tenant in TENANTS:
            show(kubectl, tenant, arguments.within)
        show_refusal(kubectl)
        say("\n== What is refused, and why")
        for tried in REFUSED:
            attempts(kubectl, tried)
        say("\n== VMs that name classes: one is placed and runs, one is refused at its start")
        start(kubectl, arguments.within)
        say("\n== A VM waits, and starts by itself; an order outlives its VM's stop")
        come_and_go(kubectl, arguments.within)
        stop_and_start(kubectl, arguments.within)
    except DemoFailed as failure:
        sys.stderr.write(f"\nthe demo failed: {failure}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; what make up started goes on: make down ends it\n")
        return INTERRUPTED
    say(
        f"""
Every number, refusal and reason above was worked out by hand before, and the live answers are
equal to it.

It goes on running. Look further, as Acme's administrator (KUBECONFIG={kubectl.tenant}):
  {kubectl.program} get gpuclassoptions -o wide
  {kubectl.program} describe gpuclassoption a100-80gb
  {kubectl.program} get gpuclaims
  {kubectl.program} get gpuclassoptions -w      # and change something in another window
or as the cluster's (KUBECONFIG={kubectl.admin}):
  {kubectl.program} get gpuclassoptions -A
  {kubectl.program} uncordon gpu-node-04
  {kubectl.program} label --overwrite namespace tenant-globex gpu.cozystack.io/vgpu=entitled
Logs are in {kubectl.program.parents[1]}/log/. Stop everything: make down"""
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
