"""F. Reading, G. negotiation and tables over the socket: checks 60 to 82 of the contract."""

from __future__ import annotations

import asyncio
import re
import time
import zlib

import pytest
import yaml

from tests.api.served import ALL, BASE, Served, options_of
from tests.api.source import a_class
from tests.cluster.waiting import wait_until

A = options_of("tenant-a")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def versions_now() -> int:
    """The version of the present."""
    return time.time_ns() // 1000 * 1000


async def test_check_60_get_and_list_on_all_three_routes(served: Served) -> None:
    admin = await served.admin()

    one = await admin(f"{A}/a100")
    assert (one.status, one.json["kind"], one.json["metadata"]["name"]) == (
        200,
        "GPUClassOption",
        "a100",
    )
    some = await admin(A)
    assert [item["metadata"]["name"] for item in some.json["items"]] == ["a100", "l4"]
    everything = await admin(ALL)
    assert [
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for item in everything.json["items"]
    ] == [("tenant-a", "a100"), ("tenant-a", "l4"), ("tenant-b", "a100"), ("tenant-b", "l4")]


@pytest.mark.parametrize("target", [ALL, A, f"{A}/a100"])
async def test_check_60_a_slash_at_the_end_changes_nothing(served: Served, target: str) -> None:
    """As kube-apiserver answers for a kind that is a CRD."""
    admin = await served.admin()

    slashed = await admin(f"{target}/")

    assert slashed.status == 200
    assert slashed.json["kind"] == (await admin(target)).json["kind"]


@pytest.mark.parametrize("target", [ALL, A, f"{A}/a100", "/apis", "/healthz", "/openapi/v2"])
async def test_check_60_head_is_get_without_a_body(served: Served, target: str) -> None:
    admin = await served.admin()

    head = await admin(target, method="HEAD")
    get = await admin(target)

    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert head.headers["Content-Length"] == str(len(get.body))


async def test_check_61_and_69_a_list_has_its_kind_a_version_and_never_null(served: Served) -> None:
    for name in list(served.table.classes):
        served.do(served.table.remove(name))

    answer = await (await served.admin())(A)

    assert answer.json["kind"] == "GPUClassOptionList"
    assert answer.json["items"] == []
    assert re.fullmatch("[1-9][0-9]*", answer.json["metadata"]["resourceVersion"])


async def test_check_62_unknown_namespace_is_empty_and_unknown_name_is_not_found(
    served: Served,
) -> None:
    admin = await served.admin()

    empty = await admin(options_of("tenant-none"))
    assert (empty.status, empty.json["items"]) == (200, [])
    for path in (f"{A}/nope", options_of("tenant-none") + "/nope"):
        missing = await admin(path)
        assert missing.status == 404
        assert missing.json["message"] == (
            'gpuclassoptions.catalog.gpu.cozystack.io "nope" not found'
        )
        assert missing.json["details"] == {
            "name": "nope",
            "group": "catalog.gpu.cozystack.io",
            "kind": "gpuclassoptions",
        }


@pytest.mark.parametrize(
    ("method", "target", "verb"),
    [
        ("POST", A, "create"),
        ("POST", ALL, "create"),
        ("PUT", f"{A}/a100", "update"),
        ("PATCH", f"{A}/a100", "patch"),
        ("DELETE", f"{A}/a100", "delete"),
        ("DELETE", A, "deletecollection"),
        ("OPTIONS", A, "OPTIONS"),
    ],
)
async def test_check_63_there_is_nothing_but_reading(
    served: Served, method: str, target: str, verb: str
) -> None:
    answer = await (await served.admin())(target, method=method)

    assert (answer.status, answer.json["reason"]) == (405, "MethodNotAllowed")
    assert answer.headers["Allow"] == "GET, HEAD"
    assert answer.json["message"] == (
        f'{verb} is not supported on resources of kind "gpuclassoptions.catalog.gpu.cozystack.io"'
    )


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("fieldSelector=metadata.name%3Da100", ["a100"]),
        ("fieldSelector=metadata.name!%3Da100", ["l4"]),
        ("fieldSelector=metadata.namespace%3Dtenant-b", []),
        ("labelSelector=tier%3Dbig", ["a100"]),
        ("labelSelector=tier+notin+(big)", ["l4"]),
        ("labelSelector=tier&fieldSelector=metadata.name%3D%3Dl4", ["l4"]),
        ("limit=1", ["a100", "l4"]),
    ],
)
async def test_check_64_65_and_67_selectors_choose_and_a_limit_does_not_cut(
    served: Served, query: str, names: list[str]
) -> None:
    answer = await (await served.admin())(f"{A}?{query}")

    assert [item["metadata"]["name"] for item in answer.json["items"]] == names
    assert set(answer.json["metadata"]) == {"resourceVersion"}


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("fieldSelector=spec.mode%3Dx", 400, "BadRequest"),
        ("labelSelector=a%3Db%3Dc", 400, "BadRequest"),
        ("limit=abc", 400, "BadRequest"),
        ("export=true", 400, "BadRequest"),
        ("resourceVersion=abc", 400, "BadRequest"),
        ("resourceVersionMatch=NotOlderThan", 422, "Invalid"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("watch=1&resourceVersion=0&resourceVersionMatch=NotOlderThan", 422, "Invalid"),
        (
            (
                "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                "&allowWatchBookmarks=true"
            ),
            422,
            "Invalid",
        ),
        ("continue=abc", 410, "Expired"),
        ("resourceVersion=1&resourceVersionMatch=Exact", 410, "Expired"),
        ("timeout=nonsense", 400, "BadRequest"),
    ],
)
async def test_check_66_bad_options_are_answered_as_kubernetes_answers_them(
    served: Served, query: str, status: int, reason: str
) -> None:
    answer = await (await served.admin())(f"{A}?{query}")

    assert (answer.status, answer.json["reason"]) == (status, reason)


@pytest.mark.parametrize("query", ["", "resourceVersion=", "resourceVersion=0"])
async def test_check_68_any_and_the_newest_version_are_answered(served: Served, query: str) -> None:
    assert (await (await served.admin())(f"{A}?{query}")).status == 200


@pytest.mark.parametrize("target", [A, f"{A}/a100", ALL])
async def test_check_68_a_version_that_was_given_out_is_answered_with_one_as_new(
    served: Served, target: str
) -> None:
    admin = await served.admin()
    known = (await admin(A)).json["metadata"]["resourceVersion"]

    answer = await admin(f"{target}?resourceVersion={known}")

    assert answer.status == 200
    listed = (await admin(f"{A}?resourceVersion={known}&resourceVersionMatch=NotOlderThan")).json
    assert int(listed["metadata"]["resourceVersion"]) >= int(known)


@pytest.mark.parametrize("target", [A, f"{A}/a100", f"{A}?watch=1"])
async def test_check_68_a_version_from_the_far_future_is_too_large(
    served: Served, target: str
) -> None:
    ahead = versions_now() + 3600 * 1_000_000_000
    joint = "&" if "?" in target else "?"

    answer = await (await served.admin())(f"{target}{joint}resourceVersion={ahead}")

    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.json["details"]["retryAfterSeconds"] == 1
    assert answer.headers["Retry-After"] == "1"


async def test_check_68_a_version_from_the_near_future_is_waited_for(served: Served) -> None:
    """A replica whose clock runs ahead gave it out."""
    ahead = versions_now() + 500_000_000

    answer = await (await served.admin())(f"{A}?resourceVersion={ahead}")

    assert answer.status == 200
    assert int(answer.json["metadata"]["resourceVersion"]) >= ahead


async def test_check_72_a_deadline_can_be_asked_for(served: Served) -> None:
    served.rights.gate.clear()
    alice = await served.aggregator("alice")

    answer = await alice(f"{A}?timeout=50ms")

    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
    assert "Retry-After" not in answer.headers


async def test_check_73_large_answers_are_packed_for_those_who_take_it(served: Served) -> None:
    for number in range(200):
        served.do(served.table.put(a_class(f"class-{number}")))
    admin = await served.admin()

    plain, packed = await admin(A), await admin(A, Accept_Encoding="deflate, gzip")

    assert len(plain.body) > 128 * 1024
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
    unpacked = zlib.decompress(packed.body, wbits=31)
    assert unpacked.count(b"resourceVersion") == plain.body.count(b"resourceVersion")
    small = await admin(f"{A}/a100", Accept_Encoding="gzip")
    assert "Content-Encoding" not in small.headers


async def test_check_74_nothing_is_cached_on_the_way_unless_it_says_so(served: Served) -> None:
    admin = await served.admin()

    for target in (A, f"{A}/a100", "/apis", "/healthz", "/nonsense", f"{A}?limit=x"):
        assert (await admin(target)).headers["Cache-Control"] == "no-cache, private", target


async def test_check_75_people_get_it_indented(served: Served) -> None:
    admin = await served.admin()

    for answer in (await admin(f"{A}?pretty=1"), await admin(A, User_Agent="curl/8.0")):
        assert answer.text.startswith('{\n  "kind"')
        assert len(answer.json["items"]) == 2
    assert "\n" not in (await admin(A)).text


async def test_check_76_unknown_parameters_do_not_matter(served: Served) -> None:
    assert (await (await served.admin())(f"{A}?nonsense=1&limit=5")).status == 200


async def test_check_77_yaml_says_the_same_as_json(served: Served) -> None:
    admin = await served.admin()

    as_yaml = await admin(f"{A}/a100", Accept="application/yaml")

    assert as_yaml.headers["Content-Type"] == "application/yaml"
    assert yaml.safe_load(as_yaml.text) == (await admin(f"{A}/a100")).json


@pytest.mark.parametrize("accept", ["application/vnd.kubernetes.protobuf", "application/cbor"])
async def test_check_78_what_is_not_spoken_is_not_acceptable_and_the_status_is_json(
    served: Served, accept: str
) -> None:
    admin = await served.admin()

    answer = await admin(A, Accept=accept)
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")
    assert answer.headers["Content-Type"] == "application/json"
    assert (await admin(A, Accept=f"{accept},application/json")).status == 200


async def test_check_79_tables_of_lists_and_of_one(served: Served) -> None:
    admin = await served.admin()

    some, one = await admin(A, Accept=TABLE), await admin(f"{A}/a100", Accept=TABLE)

    assert some.headers["Content-Type"] == "application/json"
    assert [row["cells"][0] for row in some.json["rows"]] == ["a100", "l4"]
    assert [row["object"]["kind"] for row in some.json["rows"]] == ["PartialObjectMetadata"] * 2
    assert len(one.json["rows"]) == 1
    assert one.json["metadata"]["resourceVersion"]
    whole = await admin(f"{A}?includeObject=Object", Accept=TABLE)
    assert whole.json["rows"][0]["object"]["kind"] == "GPUClassOption"
    assert (await admin(f"{A}?includeObject=Bad", Accept=TABLE)).status == 400


async def test_check_80_metadata_where_it_belongs(served: Served) -> None:
    admin = await served.admin()

    assert (await admin(A, Accept=PARTIAL_LIST)).json["kind"] == "PartialObjectMetadataList"
    assert (await admin(f"{A}/a100", Accept=PARTIAL)).json["kind"] == "PartialObjectMetadata"
    assert (await admin(A, Accept=PARTIAL)).status == 406
    assert (await admin(f"{A}/a100", Accept=PARTIAL_LIST)).status == 406


async def test_check_82_nobody_gets_a_table_who_did_not_ask(served: Served) -> None:
    answer = await (await served.admin())(A, Accept=f"application/json,{TABLE}")

    assert answer.json["kind"] == "GPUClassOptionList"


async def test_a_name_in_the_path_and_another_in_the_selector_is_a_bad_request(
    served: Served,
) -> None:
    admin = await served.admin()

    assert (await admin(f"{A}/a100?fieldSelector=metadata.name%3Dl4")).status == 400
    assert (await admin(f"{A}/a100?fieldSelector=metadata.name%3Da100")).status == 200


@pytest.mark.parametrize(
    "hidden",
    [
        "namespaces/tenant-a%2Fgpuclassoptions%2F..%2F..%2Ftenant-b/gpuclassoptions",
        "namespaces/tenant-a%2Fgpuclassoptions%2Fa100/gpuclassoptions",
        "namespaces/tenant-b%2F..%2Ftenant-a/gpuclassoptions",
        "namespaces/tenant-a/gpuclassoptions/..%2F..%2Ftenant-b%2Fgpuclassoptions%2Fl4",
        "namespaces/tenant-a/gpuclassoptions/a100%2Fstatus",
        "namespaces%2Ftenant-a/gpuclassoptions",
    ],
)
async def test_a_slash_that_hides_in_a_name_gets_nobody_further(
    served: Served, hidden: str
) -> None:
    """Router and authorization could read such a path differently; `get` is no `list`."""
    served.rights.grants.add(("alice", "get", "*"))

    answer = await (await served.aggregator("alice"))(f"{BASE}/{hidden}")

    assert answer.status in {403, 404}
    assert answer.json["kind"] == "Status"


async def test_check_47_discovery_answers_while_a_large_list_is_computed(served: Served) -> None:
    for number in range(100):
        served.table.put(a_class(f"class-{number}"))
    for number in range(100):
        served.table.add_namespace(f"tenant-n{number}")
    admin, other = await served.admin(), await served.admin()
    await other("/apis")  # connected
    order: list[str] = []

    async def under_way() -> bool:
        return served.table.computed >= 100

    async def ask(caller_name: str, target: str) -> None:
        caller = admin if caller_name == "list" else other
        assert (await caller(target)).status == 200
        order.append(caller_name)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ask("list", ALL))
        await wait_until(under_way, "the list is being computed")
        tasks.create_task(ask("discovery", "/apis"))

    assert order == ["discovery", "list"]
