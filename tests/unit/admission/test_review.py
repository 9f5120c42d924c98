"""AdmissionReview in and out, and patches that touch nothing else (rule 6, general)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.review import (
    BODY_MAX,
    Allow,
    Misshapen,
    Patch,
    Refuse,
    Request,
    answer,
    forbidden,
    parse,
    pointer,
    refusal,
    require_kind,
)
from shared.errors import BadRequest, Cause, RequestTooLarge, Subject
from shared.reasons import Reason
from tests.unit.admission.jsonpatch import applied
from tests.unit.scripted_api import Raw

UID = "0df28fbd-5f5f-11ef-a5d1-0242ac120002"
REQUEST: Raw = {
    "uid": UID,
    "kind": {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"},
    "resource": {"group": "kubevirt.io", "version": "v1", "resource": "virtualmachineinstances"},
    "requestKind": {"group": "kubevirt.io", "version": "v1", "kind": "VirtualMachineInstance"},
    "namespace": "tenant-a",
    "operation": "CREATE",
    "userInfo": {
        "username": "system:serviceaccount:cozy-kubevirt:kubevirt-controller",
        "groups": ["system:serviceaccounts", "system:authenticated"],
    },
    "object": {"metadata": {"generateName": "vm1-", "namespace": "tenant-b"}},
    "oldObject": None,
    "dryRun": False,
    "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
}


def body(**changes: object) -> bytes:
    """A review with these members of the request changed; `...` takes one away."""
    request = {key: value for key, value in (REQUEST | changes).items() if value is not ...}
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


def reviewed(response: bytes) -> Raw:
    review: Raw = json.loads(response)
    assert review.keys() == {"apiVersion", "kind", "response"}
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    found: Raw = review["response"]
    return found


def test_a_review_is_read_with_the_namespace_of_the_request_not_of_the_object() -> None:
    """Trouble 16: made from generateName, so without a name; the object says another namespace."""
    assert parse(body()) == Request(
        uid=UID,
        operation="CREATE",
        group="kubevirt.io",
        kind="VirtualMachineInstance",
        resource="virtualmachineinstances",
        namespace="tenant-a",
        name="",
        username="system:serviceaccount:cozy-kubevirt:kubevirt-controller",
        groups=frozenset({"system:serviceaccounts", "system:authenticated"}),
        object={"metadata": {"generateName": "vm1-", "namespace": "tenant-b"}},
        old_object=None,
    )


def test_a_deletion_comes_without_an_object() -> None:
    got = parse(body(operation="DELETE", object=None, oldObject={"metadata": {}}))
    assert (got.operation, got.object, got.old_object) == ("DELETE", None, {"metadata": {}})


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        pytest.param(b"", "the body is not JSON: Expecting value", id="empty"),
        pytest.param(b"\xff{}", "the body is not JSON: 'utf-8' codec can't decode", id="no UTF-8"),
        pytest.param(b"\xef\xbb\xbf{}", "the body is not JSON: Unexpected UTF-8 BOM", id="BOM"),
        pytest.param(b"{} {}", "the body is not JSON: Extra data", id="two bodies"),
        pytest.param(b"[" * 100_000, "the body is not JSON: ", id="nested without end"),
        pytest.param(
            body().replace(b'"dryRun"', b'"uid": "x", "dryRun"'),
            "the body is not JSON: a key stands twice",
            id="a key twice",
        ),
        pytest.param(
            body().replace(b'"dryRun": false', b'"dryRun": NaN'),
            "the body is not JSON: NaN is no number",
            id="NaN",
        ),
        pytest.param(b"[]", "the body: an array, expected an AdmissionReview", id="array"),
        pytest.param(b"{}", "kind: null, expected AdmissionReview", id="empty object"),
        pytest.param(
            body().replace(b"AdmissionReview", b"Status"),
            'kind: "Status", expected AdmissionReview',
            id="another kind",
        ),
        pytest.param(
            body().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
            'apiVersion: "admission.k8s.io/v1beta1", expected admission.k8s.io/v1',
            id="an old version",
        ),
        pytest.param(
            body().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v2"),
            'apiVersion: "admission.k8s.io/v2", expected admission.k8s.io/v1',
            id="a version to come",
        ),
        pytest.param(
            b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": null}',
            "request: null, expected an object",
            id="a response alone",
        ),
        pytest.param(
            body(uid=...), "request.uid: null, expected at most 128 ASCII characters", id="no uid"
        ),
        pytest.param(body(uid=""), 'request.uid: "", expected', id="empty uid"),
        pytest.param(body(uid=7), "request.uid: 7, expected", id="a number as uid"),
        pytest.param(body(uid="u" * 129), "request.uid: ", id="a long uid"),
        pytest.param(
            body(operation="PATCH"),
            'request.operation: "PATCH", expected CREATE, UPDATE, DELETE or CONNECT',
            id="an operation that is none",
        ),
        pytest.param(body(kind=...), "request.kind.kind: null, expected", id="no kind"),
        pytest.param(body(object=[1]), "request.object: an array, expected", id="array as object"),
        pytest.param(body(object=...), "request.object: null, expected an object", id="no object"),
        pytest.param(body(oldObject="x"), 'request.oldObject: "x", expected', id="text as old"),
        pytest.param(
            body(subResource="status"), 'request.subResource: "status", expected', id="subresource"
        ),
    ],
)
def test_what_is_no_review_is_a_bad_request_that_names_the_field(raw: bytes, told: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parse(raw)
    assert str(refused.value).startswith(told)
    assert refused.value.code == 400
    assert str(refused.value).isascii()


def test_a_review_of_six_mebibytes_is_read_and_one_beyond_the_bound_is_not() -> None:
    annotations = {"x": "y" * 6 * 1024 * 1024}
    assert parse(body(object={"metadata": {"annotations": annotations}})).object is not None
    with pytest.raises(RequestTooLarge, match="8388609 bytes, expected at most 8388608"):
        parse(b" " * (BODY_MAX + 1))


def test_a_path_refuses_kinds_that_it_was_not_made_for() -> None:
    require_kind(parse(body()), "kubevirt.io", "VirtualMachineInstance")
    with pytest.raises(BadRequest, match=r'request.kind: "kubevirt.io/Virtual.*", expected /Pod'):
        require_kind(parse(body()), "", "Pod")


def test_letting_in_unchanged_answers_neither_a_patch_nor_its_type() -> None:
    """Trouble 17: a patch type without a patch makes the API server throw the answer away."""
    assert reviewed(answer(parse(body()), Allow())) == {"uid": UID, "allowed": True}


def test_a_patch_is_encoded_and_warnings_are_cut() -> None:
    operations = ({"op": "add", "path": "/a", "value": "\u00e9"},)
    got = reviewed(answer(parse(body()), Allow(operations, ("short", "w" * 300))))
    assert got.pop("patch") == base64.b64encode(
        b'[{"op":"add","path":"/a","value":"\\u00e9"}]'
    ).decode("ascii")
    assert got == {
        "uid": UID,
        "allowed": True,
        "patchType": "JSONPatch",
        "warnings": ["short", f"{'w' * 253}..."],
    }


def test_a_refusal_is_a_status_with_code_reason_and_causes() -> None:
    request = parse(body(name="vm1"))
    causes = [Cause(Reason.CLASS_NOT_FOUND, f"there is no class c{n}", f"x[{n}]") for n in (0, 1)]
    got = reviewed(answer(request, refusal(request, Reason.CLASS_NOT_FOUND, causes)))
    assert got == {
        "uid": UID,
        "allowed": False,
        "status": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "code": 422,
            "reason": "ClassNotFound",
            "message": "x[0]: there is no class c0; x[1]: there is no class c1",
            "details": {
                "group": "kubevirt.io",
                "kind": "VirtualMachineInstance",
                "name": "vm1",
                "causes": [
                    {"reason": "ClassNotFound", "message": "there is no class c0", "field": "x[0]"},
                    {"reason": "ClassNotFound", "message": "there is no class c1", "field": "x[1]"},
                ],
            },
        },
    }


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.DISABLED, 403),
        (Reason.MALFORMED, 422),
        (Reason.TOO_MANY_UNITS, 422),
        (Reason.MIXED_REQUESTS, 422),
        (Reason.INPUTS_UNREADABLE, 503),
        (Reason.NOT_OFFERED, 403),
        (Reason.CLAIM_NOT_FOUND, 422),
        (Reason.CLAIM_IN_USE, 403),
        (Reason.CLASS_NOT_FOUND, 422),
        (Reason.CLASS_CONFLICT, 403),
        (Reason.NOT_PERMITTED, 403),
        (Reason.CLASS_CLOSED, 403),
        (Reason.NOT_ENTITLED, 403),
        (Reason.MAX_COUNT_EXCEEDED, 403),
        (Reason.BUDGET_EXCEEDED, 403),
        (Reason.NO_CAPACITY, 403),
        (Reason.SET_DOES_NOT_FIT_ONE_NODE, 403),
    ],
)
def test_the_code_says_whose_fault_it_is(reason: Reason, code: int) -> None:
    assert refusal(parse(body()), reason, [Cause(reason, "x")]).code == code


def test_no_refusal_asks_to_come_back_since_the_api_server_would_until_its_deadline() -> None:
    request = parse(body())
    refused = refusal(request, Reason.INPUTS_UNREADABLE, [Cause(Reason.INPUTS_UNREADABLE, "x")])
    assert "retry" not in json.dumps(refused.status()).lower()


def test_what_only_the_system_writes_is_forbidden_in_kubernetes_own_words() -> None:
    got = forbidden(parse(body()), "not yours", "metadata.annotations[x]")
    assert got == Refuse(
        403,
        "Forbidden",
        "metadata.annotations[x]: not yours",
        (Cause("FieldValueForbidden", "not yours", "metadata.annotations[x]"),),
        Subject("kubevirt.io", "VirtualMachineInstance", ""),
    )


def test_not_more_than_eight_causes_are_told() -> None:
    causes = [Cause(Reason.MALFORMED, str(n)) for n in range(20)]
    refused = refusal(parse(body()), Reason.MALFORMED, causes)
    assert refused.message == "0; 1; 2; 3; 4; 5; 6; 7"
    assert len(refused.causes) == 8


def test_an_answer_is_ascii_whatever_the_request_holds() -> None:
    request = parse(body(name="\ud800\u0000é"))
    got = answer(request, refusal(request, Reason.DISABLED, [Cause(Reason.DISABLED, "é\ud800")]))
    assert got.isascii()


# Patches.


def test_a_pointer_escapes_what_separates() -> None:
    assert pointer(["metadata", "annotations", "gpu.cozystack.io/launcher", "a~b"]) == (
        "/metadata/annotations/gpu.cozystack.io~1launcher/a~0b"
    )


@pytest.mark.parametrize(
    ("document", "operations"),
    [
        pytest.param({}, [{"op": "add", "path": "/a", "value": {"b/c": {"d": 1}}}], id="nothing"),
        pytest.param(
            {"a": None}, [{"op": "replace", "path": "/a", "value": {"b/c": {"d": 1}}}], id="null"
        ),
        pytest.param(
            {"a": {}}, [{"op": "add", "path": "/a/b~1c", "value": {"d": 1}}], id="no parent"
        ),
        pytest.param(
            {"a": {"b/c": {"d": 2, "e": 3}}},
            [{"op": "replace", "path": "/a/b~1c/d", "value": 1}],
            id="another value",
        ),
        pytest.param({"a": {"b/c": {"d": 1}}}, [], id="there already"),
    ],
)
def test_a_value_is_put_with_the_parents_that_are_missing_and_no_more(
    document: Raw, operations: list[Raw]
) -> None:
    patch = Patch(document)
    patch.put(("a", "b/c", "d"), 1)
    assert list(patch.operations) == operations
    assert patch.document == applied(document, operations)


@pytest.mark.parametrize(
    ("document", "operations"),
    [
        pytest.param({}, [{"op": "add", "path": "/a", "value": {"l": [1, 2]}}], id="no parent"),
        pytest.param({"a": {}}, [{"op": "add", "path": "/a/l", "value": [1, 2]}], id="no list"),
        pytest.param(
            {"a": {"l": None}}, [{"op": "replace", "path": "/a/l", "value": [1, 2]}], id="null"
        ),
        pytest.param(
            {"a": {"l": []}}, [{"op": "replace", "path": "/a/l", "value": [1, 2]}], id="empty"
        ),
        pytest.param(
            {"a": {"l": [0]}},
            [
                {"op": "add", "path": "/a/l/-", "value": 1},
                {"op": "add", "path": "/a/l/-", "value": 2},
            ],
            id="members stay first and as they are",
        ),
    ],
)
def test_items_come_at_the_end_of_a_list_that_is_made_where_it_is_missing(
    document: Raw, operations: list[Raw]
) -> None:
    patch = Patch(document)
    patch.append(("a", "l"), [1, 2])
    assert list(patch.operations) == operations
    assert patch.document == applied(document, operations)


def test_appending_nothing_makes_no_list() -> None:
    patch = Patch({})
    patch.append(("a", "l"), [])
    assert patch.operations == ()


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"a": []}, "a: an array, expected an object"),
        ({"a": "x"}, 'a: "x", expected an object'),
        ({"a": {"l": {}}}, "a.l: an object, expected a list"),
        ({"a": {"l": "x"}}, 'a.l: "x", expected a list'),
        ({"a": {"l": 0}}, "a.l: 0, expected a list"),
    ],
)
def test_what_has_another_shape_is_told_with_its_place(document: Raw, told: str) -> None:
    for change in (Patch.append, Patch.put_list):
        patch = Patch(document)
        with pytest.raises(Misshapen) as refused:
            change(patch, ("a", "l"), [1])
        assert str(refused.value) == told
        assert patch.operations == ()


def test_the_document_that_was_given_is_left_alone() -> None:
    document = {"a": {"l": [0], "m": {"x": 1}}}
    patch = Patch(document)
    patch.append(("a", "l"), [1])
    patch.put(("a", "m", "x"), 2)
    assert document == {"a": {"l": [0], "m": {"x": 1}}}
    assert patch.document == {"a": {"l": [0, 1], "m": {"x": 2}}}


keys = st.sampled_from(("a", "b", "a/b", "a~1"))
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(keys, values),
    st.lists(st.tuples(st.lists(keys, min_size=1, max_size=3), values), max_size=4),
)
def test_a_patch_leads_to_its_document_and_again_to_nothing(
    document: Raw, changes: list[tuple[list[str], Any]]
) -> None:
    patch = Patch(document)
    done = []
    for path, value in changes:
        try:
            patch.put(path, value)
        except Misshapen:
            continue
        done.append((path, value))
    assert applied(document, patch.operations) == patch.document
    for path, value in done[-1:]:
        again = Patch(patch.document)
        again.put(path, value)
        assert again.operations == ()
