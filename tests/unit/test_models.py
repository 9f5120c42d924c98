"""Reading and writing our kinds: strict about types, indifferent to what is new."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest
from pydantic import ValidationError

from shared.api.conditions import Condition, ConditionType, find
from shared.api.gpuclaim import GPUClaim
from shared.api.gpuclass import GPUClass, Vendor
from shared.api.gpusystem import GPUSystem
from shared.api.meta import ListMeta
from shared.api.status import Status, StatusCause, StatusDetails
from shared.core.model import Entitlement, Lifecycle, Mode
from shared.core.terms import Truth

CLASS: Final[dict[str, Any]] = {
    "apiVersion": "gpu.cozystack.io/v1alpha1",
    "kind": "GPUClass",
    "metadata": {"name": "a100"},
    "spec": {"vendor": "NVIDIA", "mode": "Passthrough", "resourceName": "nvidia.com/GA100"},
}

CLAIM: Final[dict[str, Any]] = {
    "apiVersion": "gpu.cozystack.io/v1alpha1",
    "kind": "GPUClaim",
    "metadata": {"name": "train", "namespace": "tenant-a"},
    "spec": {"className": "a100"},
}


def a_class(**spec: object) -> dict[str, Any]:
    return {**CLASS, "spec": {**CLASS["spec"], **spec}}


def a_claim(**spec: object) -> dict[str, Any]:
    return {**CLAIM, "spec": {**CLAIM["spec"], **spec}}


def test_a_class_is_read_with_its_defaults() -> None:
    got = GPUClass.model_validate(CLASS)

    assert got.metadata.name == "a100"
    assert got.spec.vendor is Vendor.NVIDIA
    assert got.spec.mode is Mode.PASSTHROUGH
    assert got.spec.resource_name == "nvidia.com/GA100"
    assert got.spec.lifecycle is Lifecycle.ACTIVE
    assert got.spec.max_count is None
    assert got.status is None


def test_bytes_are_read_like_the_object() -> None:
    assert GPUClaim.model_validate_json(orjson.dumps(CLAIM)) == GPUClaim.model_validate(CLAIM)


def test_a_claim_without_a_count_is_for_one_unit() -> None:
    assert GPUClaim.model_validate(CLAIM).spec.count == 1


@pytest.mark.parametrize(
    ("mode", "entitlement", "in_force"),
    [
        pytest.param("VirtualGPU", None, Entitlement.REQUIRED, id="a share is for the entitled"),
        pytest.param("Passthrough", None, Entitlement.OPEN, id="a whole device is for everyone"),
        pytest.param("VirtualGPU", "Open", Entitlement.OPEN, id="a share that is opened"),
        pytest.param("Passthrough", "Required", Entitlement.REQUIRED, id="a device kept back"),
    ],
)
def test_who_may_order_depends_on_the_mode_unless_the_class_says(
    mode: str, entitlement: str | None, in_force: Entitlement
) -> None:
    spec = GPUClass.model_validate(a_class(mode=mode, entitlement=entitlement)).spec

    assert spec.entitlement_in_force is in_force


def test_members_that_only_a_newer_version_knows_are_ignored() -> None:
    newer = {**a_class(rate={"amount": "1"}), "more": 1}

    assert GPUClass.model_validate(newer) == GPUClass.model_validate(CLASS)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param("2", id="a text"),
        pytest.param(2.0, id="a float"),
        pytest.param(True, id="a boolean"),
        pytest.param(0, id="none"),
        pytest.param(-1, id="negative"),
        pytest.param(1025, id="more than any VM may have"),
        pytest.param([2], id="a list"),
    ],
)
def test_a_count_is_a_whole_number_within_its_bounds(count: object) -> None:
    with pytest.raises(ValidationError, match="count"):
        GPUClaim.model_validate(a_claim(count=count))


@pytest.mark.parametrize("count", [1, 1024])
def test_a_count_at_its_bounds_is_read(count: int) -> None:
    assert GPUClaim.model_validate(a_claim(count=count)).spec.count == count


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("mode", "vgpu", id="a word that is none of the enum"),
        pytest.param("vendor", "nvidia", id="another case"),
        pytest.param("resourceName", 7, id="a number for a text"),
        pytest.param("memory", 40, id="a number for a quantity"),
        pytest.param("tolerations", {"key": "a"}, id="an object for a list"),
    ],
)
def test_a_class_with_a_wrong_type_is_refused_by_the_name_of_the_field(
    field: str, value: object
) -> None:
    with pytest.raises(ValidationError, match=field):
        GPUClass.model_validate(a_class(**{field: value}))


@pytest.mark.parametrize("field", ["vendor", "mode", "resourceName"])
def test_a_class_without_a_required_field_is_refused(field: str) -> None:
    spec = {k: v for k, v in CLASS["spec"].items() if k != field}

    with pytest.raises(ValidationError, match=field):
        GPUClass.model_validate({**CLASS, "spec": spec})


def test_the_state_of_the_system_is_read() -> None:
    got = GPUSystem.model_validate(
        {
            "metadata": {"name": "default"},
            "status": {
                "epoch": 3,
                "resourceNames": ["nvidia.com/GA100"],
                "effectiveSettings": {"enabled": "true", "kubevirtNamespace": "cozy-kubevirt"},
            },
        }
    )

    assert got.status is not None
    assert got.status.epoch == 3
    assert got.status.effective_settings is not None
    assert got.status.effective_settings.kubevirt_namespace == "cozy-kubevirt"


@pytest.mark.parametrize("free", ["7", 7.0, True, -1, 2**31])
def test_a_figure_is_a_whole_number_within_an_int32(free: object) -> None:
    with pytest.raises(ValidationError, match="free"):
        GPUClass.model_validate({**CLASS, "status": {"capacity": {"free": free}}})


def test_the_token_of_a_cut_list_goes_by_the_name_that_python_keeps_for_itself() -> None:
    cut = ListMeta(resource_version="7", continue_="token", remaining_item_count=3)

    assert orjson.loads(cut.model_dump_json()) == {
        "resourceVersion": "7",
        "continue": "token",
        "remainingItemCount": 3,
    }
    assert ListMeta.model_validate({"continue": "token"}).continue_ == "token"


def test_a_condition_is_found_by_its_type() -> None:
    bound = Condition(
        type="Bound",
        status=Truth.TRUE,
        last_transition_time="2026-11-29T12:00:00Z",
        reason="Placed",
        message="",
    )

    assert find([bound], ConditionType.BOUND) is bound
    assert find([bound], ConditionType.READY) is None
    assert find(None, ConditionType.READY) is None


def test_a_failure_is_written_as_kubernetes_writes_it() -> None:
    status = Status(
        status="Failure",
        message="spec.count: asked 9, up to 4",
        reason="Invalid",
        details=StatusDetails(
            name="train",
            group="gpu.cozystack.io",
            kind="gpuclaims",
            causes=[StatusCause(reason="MaxCountExceeded", message="…", field="spec.count")],
            retry_after_seconds=1,
        ),
        code=422,
    )

    assert orjson.loads(status.model_dump_json(exclude_none=True)) == {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "message": "spec.count: asked 9, up to 4",
        "reason": "Invalid",
        "details": {
            "name": "train",
            "group": "gpu.cozystack.io",
            "kind": "gpuclaims",
            "causes": [{"reason": "MaxCountExceeded", "message": "…", "field": "spec.count"}],
            "retryAfterSeconds": 1,
        },
        "code": 422,
    }
