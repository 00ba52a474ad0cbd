# SPDX-License-Identifier: Apache-2.0
"""Tests of OpenAPI documents of both versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kubeloop.api import schema
from kubeloop.api.kinds import RESOURCES, SCALE, STATUS, Resource
from kubeloop.apiserver.nonresource.openapi import JSON, PROTOBUF_V2, OpenAPI, v2_media_type, v3_media_type
from kubeloop.apiserver.nonresource.openapi.descriptions import TypeDescription, package_descriptions
from kubeloop.apiserver.request.etag import digest_of, etag_of

METHODS = {"get": {"get", "list"}, "post": {"create"}, "put": {"update"}, "patch": {"patch"}}
METHODS |= {"delete": {"delete", "deletecollection"}}
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
GROUP_VERSIONS = sorted({resource.group_version for resource in RESOURCES})


@pytest.fixture(scope="module")
def served() -> OpenAPI:
    return OpenAPI(RESOURCES)


@pytest.fixture(scope="module")
def second(served: OpenAPI) -> Any:
    return json.loads(served.v2_json())


def third(served: OpenAPI, group_version: str) -> Any:
    document = served.v3_document(("apis/" if "/" in group_version else "api/") + group_version)
    assert document is not None
    return json.loads(document)


def references(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from references(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from references(value)


def object_path(resource: Resource) -> str:
    root = ("/apis/" if resource.group else "/api/") + resource.group_version
    return f"{root}{'/namespaces/{namespace}' if resource.namespaced else ''}/{resource.plural}"


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method in METHODS.keys() & item.keys():
            yield path, method, item[method]


def test_every_reference_of_version_2_resolves(second: Any) -> None:
    assert set(references(second)) <= {"#/definitions/" + name for name in second["definitions"]}


@pytest.mark.parametrize("group_version", GROUP_VERSIONS)
def test_every_reference_of_a_version_3_document_resolves_within_it(served: OpenAPI, group_version: str) -> None:
    document = third(served, group_version)
    known = {"#/components/schemas/" + name for name in document["components"]["schemas"]}
    assert set(references(document)) <= known


def test_v3_document_has_no_unreferenced_schema(served: OpenAPI) -> None:
    document = third(served, "apps/v1")
    referred = {reference.rpartition("/")[2] for reference in references(document)}
    assert referred == document["components"]["schemas"].keys()


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: f"{resource.group_version}-{resource.plural}")
def test_every_verb_of_a_resource_has_its_operation(served: OpenAPI, second: Any, resource: Resource) -> None:
    for paths in (second["paths"], third(served, resource.group_version)["paths"]):
        collection = paths.get(object_path(resource), {})
        single = paths.get(object_path(resource) + "/{name}", {})
        for verb, item, method in [
            ("list", collection, "get"),
            ("create", collection, "post"),
            ("deletecollection", collection, "delete"),
            ("get", single, "get"),
            ("update", single, "put"),
            ("patch", single, "patch"),
            ("delete", single, "delete"),
        ]:
            assert (method in item) == (verb in resource.verbs), verb
        for subresource in resource.subresources:
            item = paths[f"{object_path(resource)}/{{name}}/{subresource.name}"]
            assert {method for method, verbs in METHODS.items() if verbs & set(subresource.verbs)} == (
                item.keys() - {"parameters"}
            )


def test_operation_ids_are_unique(second: Any) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(second)]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("path", "method", "operation_id", "action"),
    [
        ("/api/v1/namespaces/{namespace}/pods/{name}", "get", "readCoreV1NamespacedPod", "get"),
        ("/api/v1/namespaces/{namespace}/pods", "get", "listCoreV1NamespacedPod", "list"),
        ("/api/v1/namespaces/{namespace}/pods", "post", "createCoreV1NamespacedPod", "post"),
        (
            "/api/v1/namespaces/{namespace}/pods",
            "delete",
            "deleteCoreV1CollectionNamespacedPod",
            "deletecollection",
        ),
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces", "list"),
        ("/api/v1/nodes/{name}", "put", "replaceCoreV1Node", "put"),
        ("/api/v1/namespaces/{name}/finalize", "put", "replaceCoreV1NamespaceFinalize", "put"),
        (
            "/api/v1/namespaces/{namespace}/pods/{name}/exec",
            "post",
            "connectCoreV1PostNamespacedPodExec",
            "connect",
        ),
        (
            "/api/v1/nodes/{name}/proxy/{path}",
            "get",
            "connectCoreV1GetNodeProxyWithPath",
            "connect",
        ),
        (
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            "patch",
            "patchAppsV1NamespacedDeploymentScale",
            "patch",
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}",
            "delete",
            "deleteRbacAuthorizationV1ClusterRole",
            "delete",
        ),
    ],
)
def test_operations_are_named_as_generated_clients_expect(
    second: Any, path: str, method: str, operation_id: str, action: str
) -> None:
    operation = second["paths"][path][method]
    assert (operation["operationId"], operation["x-kubernetes-action"]) == (operation_id, action)


@pytest.mark.parametrize(
    ("path", "operation_id", "answers"),
    [
        ("/api/", "getCoreAPIVersions", META + "APIVersions"),
        ("/api/v1/", "getCoreV1APIResources", META + "APIResourceList"),
        ("/apis/", "getAPIVersions", META + "APIGroupList"),
        ("/apis/events.k8s.io/", "getEventsAPIGroup", META + "APIGroup"),
        ("/apis/events.k8s.io/v1/", "getEventsV1APIResources", META + "APIResourceList"),
        ("/version/", "getCodeVersion", "io.k8s.apimachinery.pkg.version.Info"),
    ],
)
def test_discovery_paths_are_documented(second: Any, path: str, operation_id: str, answers: str) -> None:
    operation = second["paths"][path]["get"]
    assert operation["operationId"] == operation_id
    assert operation["responses"]["200"]["schema"] == {"$ref": "#/definitions/" + answers}


def test_patch_operations_list_media_types(served: OpenAPI, second: Any) -> None:
    for resource in RESOURCES:
        if "patch" not in resource.verbs:
            continue
        path = object_path(resource) + "/{name}"
        for document in (second, third(served, resource.group_version)):
            patch = document["paths"][path]["patch"]
            names = {parameter["name"] for parameter in patch["parameters"]}
            assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= names
            assert patch["x-kubernetes-group-version-kind"] == {
                "group": resource.group,
                "version": resource.version,
                "kind": resource.kind,
            }


def test_subresource_of_another_kind_has_that_kind(served: OpenAPI) -> None:
    eviction = third(served, "v1")["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]
    assert eviction["x-kubernetes-group-version-kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    (body,) = eviction["requestBody"]["content"].values()
    assert body["schema"] == {"$ref": "#/components/schemas/io.k8s.api.policy.v1.Eviction"}


def test_path_parameters_are_those_in_the_path(second: Any) -> None:
    for path, item in second["paths"].items():
        named = {one["name"] for one in item.get("parameters", ()) if one["in"] == "path"}
        assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}


def test_logs_are_plain_text(second: Any) -> None:
    log = second["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/log"]["get"]
    assert log["responses"]["200"]["schema"] == {"type": "string"}


@pytest.mark.parametrize(("resource", "answers"), [("pods", "io.k8s.api.core.v1.Pod"), ("secrets", META + "Status")])
def test_delete_returns_the_object_or_a_status(second: Any, resource: str, answers: str) -> None:
    deletion = second["paths"][f"/api/v1/namespaces/{{namespace}}/{resource}/{{name}}"]["delete"]
    assert deletion["responses"]["200"]["schema"] == {"$ref": "#/definitions/" + answers}


def test_int_or_string_is_a_formatted_string_in_version_2_and_one_of_two_types_in_version_3(
    served: OpenAPI, second: Any
) -> None:
    name = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
    assert second["definitions"][name] == {"type": "string", "format": "int-or-string"}
    assert third(served, "v1")["components"]["schemas"][name] == {
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    }


def test_quantities_may_be_numbers_in_version_3(served: OpenAPI, second: Any) -> None:
    name = "io.k8s.apimachinery.pkg.api.resource.Quantity"
    assert second["definitions"][name] == {"type": "string"}
    assert third(served, "v1")["components"]["schemas"][name] == {"oneOf": [{"type": "string"}, {"type": "number"}]}


def test_references_have_no_siblings_in_version_3(served: OpenAPI) -> None:
    schemas = third(served, "apps/v1")["components"]["schemas"]
    strategy = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"]
    assert strategy.pop("description")
    assert strategy == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],
        "x-kubernetes-patch-strategy": "retainKeys",
    }
    for definition in schemas.values():
        for field in definition.get("properties", {}).values():
            assert "$ref" not in field or len(field) == 1


def test_defaults_are_in_version_3_only(served: OpenAPI, second: Any) -> None:
    name = "io.k8s.api.core.v1.ContainerPort"
    assert "default" not in second["definitions"][name]["properties"]["protocol"]
    assert third(served, "v1")["components"]["schemas"][name]["properties"]["protocol"]["default"] == "TCP"


def test_merge_keys_are_included(second: Any) -> None:
    containers = second["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"


def test_building_documents_does_not_mutate_the_facts() -> None:
    before = json.dumps(schema.definitions())
    fresh = OpenAPI(RESOURCES)
    fresh.v2_json()
    fresh.v3_index()
    assert json.dumps(schema.definitions()) == before


def test_index_links_every_document_by_hash(served: OpenAPI) -> None:
    links = json.loads(served.v3_index())["paths"]
    assert {"version", "api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "apis/autoscaling/v2"} <= links.keys()
    for name, link in links.items():
        document = served.v3_document(name)
        assert document is not None
        assert link == {"serverRelativeURL": f"/openapi/v3/{name}?hash={digest_of(document)}"}
        assert served.v3_digest(name) == digest_of(document)


@pytest.mark.parametrize("name", ["", "apis/nosuch/v1", "apis/apps/v2", "api/v1/pods"])
def test_unserved_groups_have_no_version_3_document(served: OpenAPI, name: str) -> None:
    assert served.v3_document(name) is None
    assert served.v3_digest(name) is None


def test_etags_match_the_documents(served: OpenAPI) -> None:
    assert served.v2_json_etag() == etag_of(served.v2_json())
    assert served.v2_protobuf_etag() == etag_of(served.v2_protobuf())
    assert served.v3_index_etag() == etag_of(served.v3_index())


def test_documents_are_deterministic_and_cached(served: OpenAPI) -> None:
    fresh = OpenAPI(RESOURCES)
    assert fresh.v3_document("apis/batch/v1") == served.v3_document("apis/batch/v1")
    assert fresh.v3_document("apis/batch/v1") is fresh.v3_document("apis/batch/v1")
    assert fresh.v2_json() is fresh.v2_json()


def test_resource_without_facts_is_an_open_object() -> None:
    thing = Resource("example.org", "v1", "things", "Thing", subresources=(STATUS, SCALE))
    document = third(OpenAPI([thing]), "example.org/v1")
    assert document["components"]["schemas"][thing.definition] == {"type": "object"}
    created = document["paths"]["/apis/example.org/v1/namespaces/{namespace}/things"]["post"]
    assert created["operationId"] == "createExampleOrgV1NamespacedThing"


def described(told: Mapping[str, TypeDescription]) -> tuple[Any, Any]:
    """The Pod in versions 2 and 3, with its spec."""
    documents = OpenAPI(RESOURCES, descriptions=lambda: told)
    third = json.loads(documents.v3_document("api/v1") or b"")
    return json.loads(documents.v2_json())["definitions"][POD], third["components"]["schemas"][POD]


POD = "io.k8s.api.core.v1.Pod"


def test_types_and_fields_have_the_descriptions_of_the_package() -> None:
    told = {POD: TypeDescription("A pod.", {"spec": TypeDescription("Its spec.")})}
    second, third = described(told)
    for found in (second, third):
        assert found["description"] == "A pod."
        assert found["properties"]["spec"]["description"] == "Its spec."
    assert third["properties"]["spec"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}]


def test_without_the_package_no_definition_is_described() -> None:
    second, third = described({})
    for found in (second, third):
        assert "description" not in found
        assert not any("description" in field for field in found["properties"].values())


def test_the_package_describes_what_we_serve() -> None:
    assert "pod" in package_descriptions()[POD].properties["spec"].description


def test_descriptions_are_not_loaded_before_a_document_is_asked_for() -> None:
    def load() -> Mapping[str, TypeDescription]:
        raise AssertionError("loaded")

    documents = OpenAPI(RESOURCES, descriptions=load)
    with pytest.raises(AssertionError, match="loaded"):
        documents.v3_document("api/v1")


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/json, */*", JSON),
        ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", PROTOBUF_V2),
        (PROTOBUF_V2, PROTOBUF_V2),
        (PROTOBUF_V2 + ",application/json", PROTOBUF_V2),
        ("text/html, application/json;q=0.5", JSON),
        ("text/html", None),
    ],
)
def test_version_2_uses_the_first_accepted_format(accept: str, given: str | None) -> None:
    assert v2_media_type(accept) == given


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("", JSON),
        ("application/json", JSON),
        ("application/com.github.proto-openapi.spec.v3.v1.0+protobuf", None),
        ("application/com.github.proto-openapi.spec.v3.v1.0+protobuf, application/json", JSON),
    ],
)
def test_version_3_is_json_only(accept: str, given: str | None) -> None:
    assert v3_media_type(accept) == given
