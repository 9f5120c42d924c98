"""What each tenant of the demo must see, and why: worked by hand, beside the objects.

Whoever changes manifests/examples/demo works the figures out anew. The rules are those of
docs/design.md: capacity 3.1 and 4.6, budgets 4.4 and 4.5, entitlement 4.7, options 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from shared.reasons import Reason

UNLIMITED = None
"""No budget anywhere names the class or its device."""


@dataclass(frozen=True, slots=True)
class Stock:
    """A class's units in the whole cluster: the same for every tenant."""

    total: int
    unavailable: int
    free: int
    largest_set: int
    why: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What one tenant may order of one class.

    `orderable` is what the column ORDERABLE shows; `remaining` the column BUDGET, with the level
    that limits it; `limited_by` every limit that equals `orderable`, the most severe first.
    """

    class_name: str
    orderable: int
    limited_by: tuple[Reason, ...]
    remaining: int | None
    why: str
    level: str | None = None
    entitlement: str = "NotRequired"

    @property
    def selectable(self) -> tuple[str, str]:
        """Status and reason of the condition Selectable (rule 3.3)."""
        if self.orderable:
            return ("True", Reason.AVAILABLE)
        return ("False", self.limited_by[0])


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace, who looks into it, and what is there to see."""

    namespace: str
    group: str
    who: str
    options: tuple[Seen, ...]


STOCKS: Mapping[str, Stock] = {
    "a100-80gb": Stock(
        total=32,  # nodes 01 to 04, 8 each
        unavailable=8,  # all of 04
        free=15,  # 2 + 8 + 5
        largest_set=8,  # on 02
        why="32 units on four nodes. One node is cordoned: its 8 are unavailable. Claims hold 6"
        " (2 in a running VM, 4 for a stopped one), all on one node, since the binder fills nodes"
        " up; a pod outside of claims uses 3. That leaves 2, 8 and 5 on three nodes: 15 free, at"
        " most 8 for one VM.",
    ),
    "l40s": Stock(
        total=12,  # nodes 05 to 07, 4 each
        unavailable=0,
        free=6,  # 1 + 3 + 2
        largest_set=3,
        why="12 units on three nodes. Claims hold 1 and 2 on one of them, pods outside of claims"
        " use 1 and 2 on the others. That leaves 1, 3 and 2: 6 free, at most 3 for one VM.",
    ),
    "a10-6q": Stock(
        total=32,  # nodes 10 and 11, 16 each
        unavailable=0,
        free=30,  # 14 + 16
        largest_set=16,
        why="32 slices on two nodes. A claim made for a VM's class entry holds 2: 14 and 16 are"
        " free.",
    ),
    "a10-12q": Stock(
        total=8,  # node 12
        unavailable=0,
        free=5,
        largest_set=5,
        why="8 slices on one node; an older claim goes on holding 3.",
    ),
    "l40s-24q": Stock(
        total=16,  # nodes 08 and 09, 8 each
        unavailable=0,
        free=16,
        largest_set=8,
        why="16 slices on two nodes, none in use.",
    ),
}


_HALVES_WHERE_ENTITLED = Seen(
    "l40s-24q",
    orderable=8,
    limited_by=(Reason.SET_DOES_NOT_FIT_ONE_NODE,),
    remaining=UNLIMITED,
    entitlement="Granted",
    why="Entitled, and without a budget for it: the largest set on one node is 8.",
)

TENANTS = (
    Tenant(
        namespace="tenant-acme",
        group="tenant-acme-admin",
        who="Acme: a tenant with budgets, entitled to virtual GPUs",
        options=(
            Seen(
                "a10-12q",
                orderable=0,
                limited_by=(Reason.CLASS_CLOSED,),
                remaining=UNLIMITED,
                entitlement="Granted",
                why="The class takes no new orders; Acme's own claim of 3 lives on.",
            ),
            Seen(
                "a10-6q",
                orderable=4,
                limited_by=(Reason.MAX_COUNT_EXCEEDED,),
                remaining=UNLIMITED,
                entitlement="Granted",
                why="The namespace is labelled entitled, no budget names the class, and 16 would"
                " fit on one node: the class allows 4 per order.",
            ),
            Seen(
                "a100-80gb",
                orderable=4,
                limited_by=(Reason.BUDGET_EXCEEDED,),
                remaining=4,  # 10 - 4 carved out - 2 of its own
                level="Self",
                why="Of a budget of 10 units 4 are set aside for the lab and 2 are in a claim: 4"
                " are left, though 8 would fit.",
            ),
            Seen(
                "l40s",
                orderable=2,
                limited_by=(Reason.BUDGET_EXCEEDED,),
                remaining=2,  # 6 - 1 pod - 2 ordered - 1 of the lab
                level="Self",
                why="Of a budget of 6 devices 4 are used: a pod outside of claims has 1, an order"
                " for later holds 2, and the lab, which has no budget of its own for"
                " them, has 1.",
            ),
            _HALVES_WHERE_ENTITLED,
        ),
    ),
    Tenant(
        namespace="tenant-acme-lab",
        group="tenant-acme-lab-admin",
        who="Acme's lab: a tenant below Acme, with a budget of its own for one class",
        options=(
            Seen(
                "a10-12q",
                orderable=0,
                limited_by=(Reason.CLASS_CLOSED,),
                remaining=UNLIMITED,
                entitlement="Granted",
                why="The class takes no new orders.",
            ),
            Seen(
                "a10-6q",
                orderable=4,
                limited_by=(Reason.MAX_COUNT_EXCEEDED,),
                remaining=UNLIMITED,
                entitlement="Granted",
                why="Entitled through Acme; 4 per order, as for everybody.",
            ),
            Seen(
                "a100-80gb",
                orderable=0,
                limited_by=(Reason.BUDGET_EXCEEDED,),
                remaining=0,  # 4 - 4
                level="Self",
                why="Its own budget is 4 units, and a claim holds 4 for a VM that is stopped:"
                " nothing is left, though 15 are free.",
            ),
            Seen(
                "l40s",
                orderable=2,
                limited_by=(Reason.BUDGET_EXCEEDED,),
                remaining=2,
                level="Ancestor",
                why="It draws on Acme's budget, which has 2 left. Whose the other 4 are is not"
                " shown here.",
            ),
            _HALVES_WHERE_ENTITLED,
        ),
    ),
    Tenant(
        namespace="tenant-globex",
        group="tenant-globex-admin",
        who="Globex: a tenant without budgets, not entitled to virtual GPUs",
        options=(
            Seen(
                "a10-12q",
                orderable=0,
                limited_by=(Reason.CLASS_CLOSED, Reason.NOT_ENTITLED),
                remaining=UNLIMITED,
                entitlement="Missing",
                why="The class takes no new orders, and Globex is not entitled to it anyway.",
            ),
            Seen(
                "a10-6q",
                orderable=0,
                limited_by=(Reason.NOT_ENTITLED,),
                remaining=UNLIMITED,
                entitlement="Missing",
                why="A virtual GPU asks for an entitlement, and this namespace is labelled denied.",
            ),
            Seen(
                "a100-80gb",
                orderable=8,
                limited_by=(Reason.MAX_COUNT_EXCEEDED, Reason.SET_DOES_NOT_FIT_ONE_NODE),
                remaining=UNLIMITED,
                why="No budget limits it, 15 are free, and a VM's GPUs come from one node: the"
                " largest set is 8, as many as the class allows.",
            ),
            Seen(
                "l40s",
                orderable=3,
                limited_by=(Reason.SET_DOES_NOT_FIT_ONE_NODE,),
                remaining=UNLIMITED,
                why="No budget limits it; the largest set on one node is 3.",
            ),
            Seen(
                "l40s-24q",
                orderable=0,
                limited_by=(Reason.NOT_ENTITLED,),
                remaining=UNLIMITED,
                entitlement="Missing",
                why="Another virtual GPU: not without an entitlement.",
            ),
        ),
    ),
)


def differences(tenant: Tenant, got: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Where the options of a tenant, by class name as `figures` gives them, are not as told."""
    found: list[str] = []
    for seen in tenant.options:
        if seen.class_name not in got:
            found.append(f"{seen.class_name}: no such option")
            continue
        have = got[seen.class_name]
        found.extend(
            f"{seen.class_name}: {name} is {have[name]}, worked out by hand: {want}"
            for name, want in wanted(seen).items()
            if have[name] != want
        )
    return found


def wanted(seen: Seen) -> dict[str, object]:
    """The figures of an option as they must be."""
    stock = STOCKS[seen.class_name]
    status, reason = seen.selectable
    return {
        "totalUnits": stock.total,
        "unavailableUnits": stock.unavailable,
        "freeUnits": stock.free,
        "largestSet": stock.largest_set,
        "remaining": seen.remaining,
        "budget": "Unlimited" if seen.remaining is UNLIMITED else "Limited",
        "limitingLevel": seen.level,
        "entitlement": seen.entitlement,
        "orderableUnits": seen.orderable,
        "limitedBy": [str(reason) for reason in seen.limited_by],
        "selectable": status,
        "reason": str(reason),
    }


def figures(option: Mapping[str, object]) -> dict[str, object]:
    """The same figures out of a GPUClassOption as served; what is not there is None."""
    status = _below(option, "status")
    availability = _below(status, "availability")
    budget = _below(status, "budget")
    selectable = next(
        (each for each in _list(status, "conditions") if each.get("type") == "Selectable"), {}
    )
    return {
        "totalUnits": availability.get("totalUnits"),
        "unavailableUnits": availability.get("unavailableUnits"),
        "freeUnits": availability.get("freeUnits"),
        "largestSet": availability.get("largestSet"),
        "remaining": budget.get("remaining"),
        "budget": budget.get("state"),
        "limitingLevel": budget.get("limitingLevel"),
        "entitlement": status.get("entitlement"),
        "orderableUnits": status.get("orderableUnits"),
        "limitedBy": status.get("limitedBy"),
        "selectable": selectable.get("status"),
        "reason": selectable.get("reason"),
    }


def _below(value: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _list(value: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    found = value.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
