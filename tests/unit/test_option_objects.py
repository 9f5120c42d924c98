"""An option as clients get it: the object, and its row in a table (rule 3.3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import jsonschema
import orjson
import pytest

from shared.api.conditions import Condition
from shared.api.gpuclassoption import (
    COLUMNS,
    GPUClassOption,
    GPUClassOptionList,
    from_option,
    option_uid,
    row,
)
from shared.api.meta import ListMeta
from shared.api.schema import kind_schema
from shared.core.model import Disclosure, GpuClass, Lifecycle, Mode
from shared.core.options import Availability, Budget, Option
from shared.core.terms import BudgetState, Grant, Level, LimitingLevel, Truth
from shared.reasons import Reason

NOON: Final = "2026-11-29T12:00:00Z"
LATER: Final = "2026-11-29T12:34:56Z"

A100: Final = GpuClass(
    name="a100",
    resource_name="nvidia.com/GA100",
    uid="7f6b0c1e",
    created="2026-11-01T08:00:00Z",
    labels={"tier": "gold"},
    display_name="NVIDIA A100",
    description="For training.",
    vendor="NVIDIA",
    memory="40Gi",
    max_count=4,
)

EXACT: Final = Option(
    namespace="tenant-a",
    gpu_class=A100,
    orderable=2,
    limited_by=(Reason.BUDGET_EXCEEDED,),
    availability=Availability(Level.HIGH, free=9, total=16, unavailable=1, largest_set=4),
    budget=Budget(BudgetState.LIMITED, 2, 5, 3, LimitingLevel.SELF),
    entitlement=Grant.NOT_REQUIRED,
    selectable=Truth.TRUE,
    reason=Reason.AVAILABLE,
    message="up to 2: this tenant's budget has 2 left, 9 free",
    label="NVIDIA A100, 40Gi: up to 2",
    text="this tenant's budget has 2 left",
)

BARE: Final = Option(
    namespace="tenant-a",
    gpu_class=GpuClass("usb", "example.com/usb", mode=Mode.VIRTUAL_GPU),
    orderable=None,
    limited_by=(),
    availability=Availability(Level.UNKNOWN),
    budget=Budget(BudgetState.UNKNOWN),
    entitlement=Grant.GRANTED,
    selectable=Truth.UNKNOWN,
    reason=Reason.INPUTS_UNREADABLE,
    message="",
    label="",
    text="",
)


def fresh() -> Condition:
    return Condition(
        type="Fresh",
        status=Truth.TRUE,
        last_transition_time=NOON,
        reason=Reason.AVAILABLE,
        message="",
    )


def served(option: Option) -> GPUClassOption:
    return from_option(
        option,
        resource_version="1764417600123",
        observed_time=LATER,
        last_transition_time=NOON,
        fresh=fresh(),
    )


def on_the_wire(option: Option) -> dict[str, Any]:
    parsed: dict[str, Any] = orjson.loads(
        served(option).model_dump_json(by_alias=True, exclude_none=True)
    )
    return parsed


def test_an_option_is_served_with_all_that_a_chooser_needs() -> None:
    assert on_the_wire(EXACT) == {
        "apiVersion": "catalog.gpu.cozystack.io/v1alpha1",
        "kind": "GPUClassOption",
        "metadata": {
            "name": "a100",
            "namespace": "tenant-a",
            "uid": "8dbb8964-d797-5536-a4b5-3c4d8494d3fa",
            "resourceVersion": "1764417600123",
            "creationTimestamp": "2026-11-01T08:00:00Z",
            "labels": {"tier": "gold"},
        },
        "spec": {
            "displayName": "NVIDIA A100",
            "description": "For training.",
            "vendor": "NVIDIA",
            "mode": "Passthrough",
            "memory": "40Gi",
            "maxCount": 4,
            "lifecycle": "Active",
        },
        "status": {
            "orderableUnits": 2,
            "limitedBy": ["BudgetExceeded"],
            "availability": {
                "freeUnits": 9,
                "totalUnits": 16,
                "unavailableUnits": 1,
                "largestSet": 4,
                "level": "High",
            },
            "budget": {
                "state": "Limited",
                "remaining": 2,
                "hard": 5,
                "used": 3,
                "limitingLevel": "Self",
            },
            "entitlement": "NotRequired",
            "observedTime": "2026-11-29T12:34:56Z",
            "conditions": [
                {
                    "type": "Selectable",
                    "status": "True",
                    "lastTransitionTime": "2026-11-29T12:00:00Z",
                    "reason": "Available",
                    "message": "up to 2: this tenant's budget has 2 left, 9 free",
                },
                {
                    "type": "Fresh",
                    "status": "True",
                    "lastTransitionTime": "2026-11-29T12:00:00Z",
                    "reason": "Available",
                    "message": "",
                },
            ],
        },
        "option": {
            "value": "a100",
            "label": "NVIDIA A100, 40Gi: up to 2",
            "description": "this tenant's budget has 2 left",
        },
    }


def test_what_is_not_known_is_absent_and_no_null_or_number_stands_for_it() -> None:
    got = on_the_wire(BARE)

    assert got["spec"] == {"mode": "VirtualGPU", "lifecycle": "Active"}
    assert got["status"]["availability"] == {"level": "Unknown"}
    assert got["status"]["budget"] == {"state": "Unknown"}
    assert "orderableUnits" not in got["status"]
    assert got["status"]["limitedBy"] == []
    assert got["option"] == {"value": "usb"}
    assert sorted(got["metadata"]) == ["name", "namespace", "resourceVersion", "uid"]


def test_no_order_at_all_is_a_zero_and_not_absent() -> None:
    refused = replace(EXACT, orderable=0, selectable=Truth.FALSE, reason=Reason.NOT_ENTITLED)
    got = on_the_wire(refused)

    assert got["status"]["orderableUnits"] == 0
    assert got["status"]["conditions"][0]["status"] == "False"
    assert got["status"]["conditions"][0]["reason"] == "NotEntitled"


def test_an_item_of_a_dropdown_never_has_a_default() -> None:
    """One would be ordered by whoever opens the form and leaves the field alone."""
    assert set(on_the_wire(EXACT)["option"]) == {"value", "label", "description"}


def test_the_resource_name_and_the_disclosure_of_a_class_are_not_passed_on() -> None:
    hidden = replace(A100, disclosure=Disclosure.HIDDEN)
    text = served(replace(EXACT, gpu_class=hidden)).model_dump_json()

    assert "GA100" not in text
    assert "Hidden" not in text


@pytest.mark.parametrize(
    ("namespace", "name", "uid"),
    [
        pytest.param("tenant-b", "a100", "7f6b0c1e", id="another tenant"),
        pytest.param("tenant-a", "h100", "7f6b0c1e", id="another class"),
        pytest.param("tenant-a", "a100", "00000000", id="the class made anew"),
    ],
)
def test_another_option_has_another_uid(namespace: str, name: str, uid: str) -> None:
    assert option_uid(namespace, name, uid) != option_uid("tenant-a", "a100", "7f6b0c1e")


def test_a_maker_that_only_a_newer_version_knows_does_not_spoil_the_list() -> None:
    newer = replace(A100, vendor="Rebellions")

    assert on_the_wire(replace(EXACT, gpu_class=newer))["spec"]["vendor"] == "Other"


def test_what_is_served_keeps_to_the_published_schema() -> None:
    published = kind_schema(GPUClassOption, metadata={"type": "object"}, rules=False)

    for option in (EXACT, BARE):
        jsonschema.validate(on_the_wire(option), published)
    assert "x-kubernetes-validations" not in str(published)


def test_what_is_served_can_be_read_back() -> None:
    assert GPUClassOption.model_validate_json(served(EXACT).model_dump_json()) == served(EXACT)


def test_a_list_carries_its_kind_and_version() -> None:
    items = GPUClassOptionList(metadata=ListMeta(resource_version="7"), items=[served(BARE)])
    got = orjson.loads(items.model_dump_json(exclude_none=True))

    assert got["apiVersion"] == "catalog.gpu.cozystack.io/v1alpha1"
    assert got["kind"] == "GPUClassOptionList"
    assert got["metadata"] == {"resourceVersion": "7"}
    assert [item["metadata"]["name"] for item in got["items"]] == ["usb"]


def test_columns_are_those_of_the_contract() -> None:
    def names(priority: int) -> str:
        return " ".join(c.name.upper() for c in COLUMNS if c.priority == priority)

    assert names(0) == "NAME MODE MEMORY FREE LARGEST BUDGET ORDERABLE SELECTABLE REASON"
    assert names(1) == "VENDOR MAX LIMITED-BY LIFECYCLE OBSERVED"
    assert [c.format for c in COLUMNS] == ["name"] + [""] * 13
    assert all(c.description.endswith(".") for c in COLUMNS)


def test_a_column_that_can_say_a_word_is_not_declared_as_a_number() -> None:
    """A step of the stock, `<unknown>` and `<none>` are words."""
    cells = zip(COLUMNS, row(served(BARE)), strict=True)
    words = {column.name for column, cell in cells if isinstance(cell, str)}

    assert {c.name for c in COLUMNS if c.type == "integer"} & words == set()


def test_a_row_has_a_cell_for_each_column() -> None:
    assert row(served(EXACT)) == [
        "a100",
        "Passthrough",
        "40Gi",
        9,
        4,
        "2/5",
        2,
        "True",
        "Available",
        "NVIDIA",
        4,
        "BudgetExceeded",
        "Active",
        "2026-11-29T12:34:56Z",
    ]


def test_a_row_of_what_is_not_known_has_no_empty_cell() -> None:
    assert row(served(BARE)) == [
        "usb",
        "VirtualGPU",
        "<none>",
        "<unknown>",
        "<unknown>",
        "<unknown>",
        "<unknown>",
        "Unknown",
        "InputsUnreadable",
        "<none>",
        "<none>",
        "<none>",
        "Active",
        "2026-11-29T12:34:56Z",
    ]


@pytest.mark.parametrize(
    ("budget", "cell"),
    [
        pytest.param(Budget(BudgetState.UNLIMITED), "unlimited", id="no budget"),
        pytest.param(Budget(BudgetState.UNKNOWN), "<unknown>", id="not known"),
        pytest.param(
            Budget(BudgetState.LIMITED, 2, 5, 3, LimitingLevel.SELF), "2/5", id="its own limit"
        ),
        pytest.param(
            Budget(BudgetState.LIMITED, 0, 5, 5, LimitingLevel.SELF), "0/5", id="nothing left"
        ),
        pytest.param(
            Budget(BudgetState.LIMITED, 2, limiting_level=LimitingLevel.ANCESTOR),
            "2",
            id="a limit above, whose size is not shown",
        ),
    ],
)
def test_the_budget_is_one_word(budget: Budget, cell: str) -> None:
    assert row(served(replace(EXACT, budget=budget)))[5] == cell


@pytest.mark.parametrize(
    ("stock", "cell"),
    [
        pytest.param(Availability(Level.NONE, 0, 4, 0, 0), 0, id="nothing free"),
        pytest.param(Availability(Level.LOW), "Low", id="only the step is shown"),
        pytest.param(Availability(Level.NONE), "None", id="the step for nothing free"),
        pytest.param(Availability(Level.UNKNOWN), "<unknown>", id="not even the step is shown"),
    ],
)
def test_without_the_figure_the_free_column_shows_the_step(
    stock: Availability, cell: str | int
) -> None:
    assert row(served(replace(EXACT, availability=stock)))[3] == cell


def test_every_limit_is_in_one_cell_most_severe_first() -> None:
    both = (Reason.MAX_COUNT_EXCEEDED, Reason.NO_CAPACITY)

    assert row(served(replace(EXACT, limited_by=both)))[11] == "MaxCountExceeded,NoCapacity"


def test_the_lifecycle_of_the_class_is_shown() -> None:
    closed = replace(A100, lifecycle=Lifecycle.CLOSED)

    assert row(served(replace(EXACT, gpu_class=closed)))[12] == "Closed"
