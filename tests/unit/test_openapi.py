"""The OpenAPI documents (checks 55, 56 and 58): a fault breaks other people's kubectl."""

from collections.abc import Iterator

import orjson
import pytest
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator

from apiserver import openapi
from tests.api.served import Json

V2: Json = orjson.loads(openapi.V2)
V3: Json = orjson.loads(openapi.V3)
DOCUMENTS = pytest.mark.parametrize("document", [V2, V3], ids=["v2", "v3"])


def nodes(value: Json) -> Iterator[dict[str, Json]]:
    """Every object in a document."""
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from nodes(each)
    elif isinstance(value, list):
        for each in value:
            yield from nodes(each)


@DOCUMENTS
def test_check_55_every_reference_leads_somewhere(document: Json) -> None:
    references = [node["$ref"] for node in nodes(document) if isinstance(node.get("$ref"), str)]

    assert references
    for reference in references:
        target: Json = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        assert target["type"] == "object"


@DOCUMENTS
def test_check_55_every_operation_has_responses_and_says_what_it_does(document: Json) -> None:
    operations = [operation for path in document["paths"].values() for operation in [path["get"]]]

    assert len(operations) == 3
    for operation in operations:
        assert operation["responses"]["200"]["description"] == "OK"
        assert operation["x-kubernetes-action"] in {"get", "list"}
        assert operation["x-kubernetes-group-version-kind"] == {
            "group": "catalog.gpu.cozystack.io",
            "version": "v1alpha1",
            "kind": "GPUClassOption",
        }
    assert len({operation["operationId"] for operation in operations}) == 3


@DOCUMENTS
def test_check_55_additional_properties_are_never_a_boolean(document: Json) -> None:
    assert not [
        node for node in nodes(document) if isinstance(node.get("additionalProperties"), bool)
    ]


@pytest.mark.parametrize(
    "schemas", [V2["definitions"], V3["components"]["schemas"]], ids=["v2", "v3"]
)
def test_check_55_schemas_have_names_of_our_own_and_say_which_kind_they_are(schemas: Json) -> None:
    assert set(schemas) == {
        "io.cozystack.gpu.catalog.v1alpha1.GPUClassOption",
        "io.cozystack.gpu.catalog.v1alpha1.GPUClassOptionList",
    }
    for name, schema in schemas.items():
        assert schema["x-kubernetes-group-version-kind"] == [
            {
                "group": "catalog.gpu.cozystack.io",
                "version": "v1alpha1",
                "kind": name.rpartition(".")[2],
            }
        ]


def test_paths_are_those_that_are_served() -> None:
    wanted = {
        "/apis/catalog.gpu.cozystack.io/v1alpha1/gpuclassoptions",
        "/apis/catalog.gpu.cozystack.io/v1alpha1/namespaces/{namespace}/gpuclassoptions",
        "/apis/catalog.gpu.cozystack.io/v1alpha1/namespaces/{namespace}/gpuclassoptions/{name}",
    }
    assert set(V2["paths"]) == wanted
    assert set(V3["paths"]) == wanted


def test_check_58_strict_validators_accept_both() -> None:
    OpenAPIV2SpecValidator(V2).validate()
    OpenAPIV30SpecValidator(V3).validate()


def test_check_56_a_document_is_made_equal_every_time() -> None:
    assert openapi.encoded(openapi.document_v2()) == (openapi.V2, openapi.V2_HASH)
    assert openapi.encoded(openapi.document_v3()) == (openapi.V3, openapi.V3_HASH)


@DOCUMENTS
def test_every_field_is_described(document: Json) -> None:
    """For `kubectl explain`; items and maps of plain strings need no words of their own."""
    schemas = document.get("definitions") or document["components"]["schemas"]
    for node in nodes(schemas):
        properties = node.get("properties")
        if isinstance(properties, dict) and all(isinstance(p, dict) for p in properties.values()):
            for name, field in properties.items():
                assert field.get("description"), name
