# SPDX-License-Identifier: Apache-2.0
"""Tests of custom objects: read and written like others, and validated by their schema."""

from __future__ import annotations

import json

import pytest

from tests.unit.apiserver.apiextensions.conftest import THINGS, fields, thing, version

STRING = {"type": "string"}
STATUS = {"type": "object", "properties": {"phase": STRING, "replicas": {"type": "integer"}}}


def with_status(**properties):
    schema = fields(**properties)
    schema["properties"] |= {"status": STATUS, "other": STRING}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
    return version(schema=schema, subresources={"status": {}, "scale": scale})


def test_object_is_pruned_and_defaulted(api, install) -> None:
    install(version(schema=fields(a=STRING, d={"type": "integer", "default": 3})))
    made = api.post(THINGS, thing("t", spec={"a": "1", "x": 2}, top=1))
    assert made.status == 201
    assert made.body["spec"] == {"a": "1", "d": 3}
    assert made.body["metadata"]["generation"] == 1
    assert api.get(f"{THINGS}/t").body == made.body


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
def test_unknown_and_duplicate_fields_follow_field_validation(api, install, mode) -> None:
    install(version(schema=fields(a=STRING)))
    head = b'{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"t","lables":{}}'
    body = head + b',"spec":{"a":"1","a":"2","x":1}}'
    answer = api.post(f"{THINGS}?fieldValidation={mode}", body)
    if mode == "Strict":
        assert answer.status == 400
        assert answer.body["message"] == (
            'Thing in version "v1" cannot be handled as a Thing: strict decoding error: duplicate field "spec.a", '
            'unknown field "metadata.lables", unknown field "spec.x"'
        )
    else:
        assert answer.body["spec"] == {"a": "2"}
        assert ("Warning" in answer.headers) is (mode == "Warn")


def test_yaml_is_accepted(api, install) -> None:
    install()
    text = b"apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\nspec: {size: 5}\n"
    assert api.post(THINGS, text, content_type="application/yaml").body["spec"] == {"size": 5}


def test_yaml_aliases_are_resolved(api, install) -> None:
    install(version(schema={"properties": {"a": {"type": "object"}, **fields(x=STRING)["properties"]}}))
    text = b"apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: t}\nspec: &s {x: k}\na: *s\n"
    body = api.post(THINGS, text, content_type="application/yaml").body
    assert (body["spec"], body["a"]) == ({"x": "k"}, {})


def test_invalid_object_is_rejected_with_all_causes(api, install) -> None:
    install(version(schema=fields(a={**STRING, "maxLength": 1}, b={"type": "integer"})))
    answer = api.post(THINGS, thing("t", spec={"a": "long", "b": "x"}))
    assert answer.status == 422
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["spec.a", "spec.b"]


def test_embedded_object_is_validated(api, install) -> None:
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    install(version(schema=fields(pod=embedded)))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "lables": {}}, "spec": {"any": 1}}
    made = api.post(THINGS, thing("t", spec={"pod": pod}))
    assert made.body["spec"]["pod"] == {**pod, "metadata": {"name": "p"}}
    assert "spec.pod.metadata.lables" in made.headers["Warning"]
    refused = api.post(THINGS, thing("u", spec={"pod": {"metadata": {"labels": {"a b": "c"}}}}))
    assert [cause["field"] for cause in refused.body["details"]["causes"]] == [
        "spec.pod.apiVersion",
        "spec.pod.kind",
        "spec.pod.metadata.labels",
    ]


def test_a_float_without_a_fraction_is_an_integer(api, install) -> None:
    install(version(schema=fields(n={"type": "number"}, i={"type": "integer"})))
    head = b'{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"t"},"spec":'
    made = api.post(THINGS, head + b'{"n":1.0,"i":2.0}}')
    assert repr(made.body["spec"]) == repr({"i": 2, "n": 1})


def test_mismatched_kind_is_invalid(api, install) -> None:
    install()
    answer = api.post(THINGS, {**thing("t"), "kind": "Other"})
    assert answer.body["message"] == 'Other.example.org "t" is invalid: kind: Invalid value: "Other": must be Thing'


def test_mismatched_version_is_rejected(api, install) -> None:
    install()
    assert api.post(THINGS, thing("t", "example.org/v9")).status == 400


def test_strategic_merge_is_not_supported(api, install) -> None:
    install()
    api.made(THINGS, thing("t"))
    assert api.patch("strategic", f"{THINGS}/t", {"spec": {}}).status == 415


def test_json_and_merge_patches_work(api, install) -> None:
    install()
    api.made(THINGS, thing("t", spec={"a": 1}))
    assert api.patch("merge", f"{THINGS}/t", {"spec": {"b": 2}}).body["spec"] == {"a": 1, "b": 2}
    operations = [{"op": "remove", "path": "/spec/a"}]
    assert api.patch("json", f"{THINGS}/t", operations).body["spec"] == {"b": 2}


def test_no_op_write_changes_nothing(api, install) -> None:
    install()
    made = api.made(THINGS, thing("t", spec={"a": {"x": 1, "y": 2}}))
    same = {**made, "spec": {"a": {"y": 2, "x": 1}}}
    assert api.put(f"{THINGS}/t", same).body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_an_update_without_a_resource_version_is_refused(api, install) -> None:
    install()
    api.made(THINGS, thing("t"))
    assert api.put(f"{THINGS}/t", thing("t")).status == 422


class TestGeneration:
    def test_generation_counts_changes_except_metadata_and_status(self, api, install) -> None:
        install(with_status(size={"type": "integer"}))
        api.made(THINGS, thing("t", spec={"size": 1}, status={"phase": "dropped"}))

        def generation(path, patch):
            return api.patch("merge", path, patch).body["metadata"]["generation"]

        assert generation(f"{THINGS}/t", {"metadata": {"labels": {"a": "b"}}}) == 1
        assert generation(f"{THINGS}/t/status", {"status": {"phase": "Up"}}) == 1
        assert generation(f"{THINGS}/t", {"status": {"phase": "ignored"}}) == 1
        assert generation(f"{THINGS}/t", {"spec": {"size": 2}}) == 2
        assert generation(f"{THINGS}/t", {"other": "o"}) == 3

    def test_generation_counts_status_without_subresource(self, api, install) -> None:
        install(version(schema={"properties": {"status": STATUS}}))
        api.made(THINGS, thing("t", status={"phase": "kept"}))
        answer = api.patch("merge", f"{THINGS}/t", {"status": {"phase": "Up"}})
        assert answer.body["metadata"]["generation"] == 2


class TestSubresources:
    def test_status_subresource_changes_only_status(self, api, install) -> None:
        install(with_status(size={"type": "integer"}))
        api.made(THINGS, thing("t", spec={"size": 1}))
        patch = {"status": {"phase": "Up"}, "spec": {"size": 9}, "metadata": {"labels": {"a": "b"}}, "other": "o"}
        body = api.patch("merge", f"{THINGS}/t/status", patch).body
        assert (body["status"], body["spec"]) == ({"phase": "Up"}, {"size": 1})
        assert "labels" not in body["metadata"]
        assert "other" not in body

    def test_undeclared_subresource_is_not_found(self, api, install) -> None:
        install()
        api.made(THINGS, thing("t"))
        answer = api.get(f"{THINGS}/t/status")
        assert (answer.status, answer.body["message"]) == (404, 'things.example.org "t" not found')

    def test_scale_uses_the_paths_of_the_definition(self, api, install) -> None:
        install(with_status(size={"type": "integer"}))
        api.made(THINGS, thing("t", spec={"size": 2}))
        assert api.get(f"{THINGS}/t/scale").body["spec"] == {"replicas": 2}
        assert api.patch("merge", f"{THINGS}/t/scale", {"spec": {"replicas": 5}}).body["spec"] == {"replicas": 5}
        found = api.get(f"{THINGS}/t").body
        assert found["spec"] == {"size": 5}
        assert found["metadata"]["generation"] == 2

    def test_negative_scale_is_invalid(self, api, install) -> None:
        install(with_status(size={"type": "integer"}))
        api.made(THINGS, thing("t", spec={"size": 2}))
        answer = api.patch("merge", f"{THINGS}/t/scale", {"spec": {"replicas": -1}})
        assert answer.body["details"]["causes"][0]["field"] == ".spec.size"

    def test_missing_replicas_have_no_scale(self, api, install) -> None:
        install(with_status(size={"type": "integer"}))
        api.made(THINGS, thing("t", spec={}))
        answer = api.get(f"{THINGS}/t/scale")
        assert answer.status == 500
        assert 'the spec replicas field ".spec.size" does not exist' in answer.body["message"]


class TestVersions:
    def test_object_is_identical_in_all_versions_except_api_version(self, api, install) -> None:
        install(version("v1"), version("v1beta1", storage=False))
        old = THINGS.replace("v1", "v1beta1")
        api.made(old, thing("t", "example.org/v1beta1", spec={"a": 1}))
        for path, named in ((THINGS, "example.org/v1"), (old, "example.org/v1beta1")):
            found = api.get(f"{path}/t").body
            assert (found["apiVersion"], found["spec"]) == (named, {"a": 1})
            assert api.get(path).body["items"][0]["apiVersion"] == named
        stored = api.registry.store.get("/registry/example.org/things/shop/t").value
        assert stored.startswith(b'{"kind":"Thing","apiVersion":"example.org/v1","metadata":{')

    def test_each_version_is_pruned_by_its_schema(self, api, install) -> None:
        install(
            version("v1", schema=fields(a=STRING, b=STRING)),
            version("v2", storage=False, schema=fields(b=STRING, c={"type": "string", "default": "d"})),
        )
        api.made(THINGS, thing("t", spec={"a": "1", "b": "2"}))
        newer = f"{THINGS.replace('v1', 'v2')}/t"
        assert api.get(newer).body["spec"] == {"b": "2", "c": "d"}
        assert api.get(f"{THINGS}/t").body["spec"] == {"a": "1", "b": "2"}

    def test_objects_of_all_versions_are_counted_once(self, api, install) -> None:
        install(version("v1"), version("v1beta1", storage=False))
        api.made(THINGS, thing("t"))
        lines = api.get("/metrics").body.decode().splitlines()
        assert lines.count('apiserver_storage_objects{resource="things.example.org"} 1') == 1

    def test_deprecated_version_warns(self, api, install) -> None:
        install(version("v1"), version("v1beta1", storage=False, deprecated=True))
        answer = api.get(THINGS.replace("v1", "v1beta1"))
        assert "example.org/v1beta1 Thing is deprecated; use example.org/v1 Thing" in answer.headers["Warning"]

    def test_dry_run_returns_the_requested_version(self, api, install) -> None:
        install(version("v1"), version("v1beta1", storage=False))
        answer = api.post(
            THINGS.replace("v1", "v1beta1") + "?dryRun=All", thing("t", "example.org/v1beta1", spec={"a": 1})
        )
        assert answer.body["apiVersion"] == "example.org/v1beta1"
        assert api.get(f"{THINGS}/t").status == 404


class TestApply:
    schema = fields(
        lm={
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": STRING, "v": STRING}},
        },
        plain={"type": "array", "items": STRING},
    )

    def applied(self, api, manager, spec):
        return api.patch("apply", f"{THINGS}/t?fieldManager={manager}", thing("t", spec=spec))

    def test_keyed_list_items_are_shared_between_managers(self, api, install) -> None:
        install(version(schema=self.schema))
        assert self.applied(api, "one", {"lm": [{"k": "a", "v": "1"}]}).status == 201
        both = self.applied(api, "two", {"lm": [{"k": "b", "v": "2"}]}).body["spec"]["lm"]
        assert both == [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]
        assert self.applied(api, "one", {"lm": []}).body["spec"]["lm"] == [{"k": "b", "v": "2"}]

    def test_atomic_list_has_one_owner(self, api, install) -> None:
        install(version(schema=self.schema))
        self.applied(api, "one", {"plain": ["a"]})
        answer = self.applied(api, "two", {"plain": ["b"]})
        assert answer.status == 409
        assert ".spec.plain" in answer.body["message"]


def test_selectable_fields_filter(api, install) -> None:
    install(version(schema=fields(colour=STRING), selectableFields=[{"jsonPath": ".spec.colour"}]))
    for name, colour in (("a", "red"), ("b", "blue")):
        api.made(THINGS, thing(name, spec={"colour": colour}))
    found = api.get(f"{THINGS}?fieldSelector=spec.colour%3Dred").body["items"]
    assert [item["metadata"]["name"] for item in found] == ["a"]
    refused = api.get(f"{THINGS}?fieldSelector=spec.size%3D1")
    assert (refused.status, refused.body["message"]) == (400, "field label not supported: spec.size")


def test_tables_have_the_columns_of_the_definition(api, install) -> None:
    columns = [
        {"name": "Colour", "type": "string", "jsonPath": ".spec.colour"},
        {"name": "Ready", "type": "string", "jsonPath": '.spec.c[?(@.type=="Ready")].status'},
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    ]
    install(version(additionalPrinterColumns=columns))
    conditions = [{"type": "Old", "status": "False"}, {"type": "Ready", "status": "True"}]
    api.made(THINGS, thing("a", spec={"colour": "red", "c": conditions}))
    table = api.get(THINGS, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Colour", "Ready", "Size"]
    assert table["rows"][0]["cells"] == ["a", "red", "True", None]


def test_cluster_scoped_objects_have_no_namespace(api, install) -> None:
    install(scope="Cluster")
    made = api.made("/apis/example.org/v1/things", thing("a"))
    assert "namespace" not in made["metadata"]
    assert api.get(f"{THINGS}/a").status == 404


def test_openapi_has_the_kind_while_defined(api, install, settle) -> None:
    install(version(schema=fields(a={"type": "string", "description": "An a."})))
    document = api.get("/openapi/v3/apis/example.org/v1").body
    schema = document["components"]["schemas"]["org.example.v1.Thing"]
    assert schema["properties"]["spec"]["properties"]["a"]["description"] == "An a."
    for name in ("Thing", "ThingList"):  # kubectl explain shows them
        described = document["components"]["schemas"][f"org.example.v1.{name}"]["properties"]
        assert all(described[field]["description"] for field in ("apiVersion", "kind", "metadata"))
    patch = document["paths"]["/apis/example.org/v1/namespaces/{namespace}/things/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    assert api.get("/openapi/v2").status == 200
    api.ask("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.org")
    settle()
    assert api.get("/openapi/v3/apis/example.org/v1").status == 404


def test_aggregated_discovery_names_the_version_of_its_kind(api, install) -> None:
    install(
        version(
            subresources={"status": {}, "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.b"}}
        )
    )
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = json.loads(api.get("/apis", accept=accept).body)["items"]
    [group] = [one for one in groups if one["metadata"]["name"] == "example.org"]
    [resource] = group["versions"][0]["resources"]
    own = {"group": "example.org", "version": "v1", "kind": "Thing"}
    assert resource["responseKind"] == own
    kinds = {one["subresource"]: one["responseKind"] for one in resource["subresources"]}
    assert kinds == {"status": own, "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"}}


def test_unqualified_finalizer_warns(api, install) -> None:
    install()
    answer = api.post(THINGS, {**thing("t"), "metadata": {"name": "t", "finalizers": ["hold"]}})
    assert "prefer a domain-qualified finalizer name" in answer.headers["Warning"]


# The answers below are those of kube-apiserver 1.37.


def test_an_object_of_wrong_types_has_no_owners_and_a_changed_one_keeps_them(api, install) -> None:
    install(with_status(size={"type": "integer"}))
    made = api.post(THINGS, thing("t", spec={"size": 1}, status={"replicas": "x"}))
    assert (made.status, made.body["metadata"].get("managedFields")) == (201, None)
    before = api.post(THINGS, thing("u", spec={"size": 1})).body["metadata"]["managedFields"]
    patched = api.patch("merge", f"{THINGS}/u", {"spec": {"size": 2}, "status": {"replicas": "x"}})
    assert (patched.status, patched.body["metadata"]["managedFields"]) == (200, before)


def test_a_number_is_no_unchanged_boolean(api, install) -> None:
    install(version(schema=fields(flag={"type": "boolean"})))
    api.made(THINGS, thing("t", spec={"flag": False}))
    answer = api.patch("merge", f"{THINGS}/t", {"spec": {"flag": 0}})
    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "spec.flag")


def test_entries_beyond_the_limit_of_a_map_are_validated(api, install) -> None:
    limited = {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 1}
    install(version(schema=fields(map=limited)))
    answer = api.post(THINGS, thing("t", spec={"map": {"a": 1, "b": "x"}}))
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["spec.map", "spec.map.b"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (7, "7 is of the type int64, expected map[string]interface{}"),
        (True, "true is of the type bool, expected map[string]interface{}"),
        ({"size": {"a": [1, "b"]}}, "map[a:[1 b]] is of the type map[string]interface {}, expected int64"),
    ],
)
def test_the_path_of_replicas_is_described_as_by_go(api, install, spec, told) -> None:
    install(with_status(size={"x-kubernetes-preserve-unknown-fields": True}))
    causes = api.post(THINGS, thing("t", spec=spec)).body["details"]["causes"]
    assert f"Invalid value: 0: .spec.size accessor error: {told}" in [cause["message"] for cause in causes]


@pytest.mark.parametrize(
    ("path", "kind", "status", "told"),
    [
        ("/t", "PartialObjectMetadataList", 500, "content is not a list"),
        ("", "PartialObjectMetadata", 406, "you requested PartialObjectMetadata, but the requested object is a list "
         "(*unstructured.UnstructuredList)"),
    ],
)  # fmt: skip
def test_a_wrong_format_names_unstructured_objects(api, install, path, kind, status, told) -> None:
    install()
    api.made(THINGS, thing("t"))
    answer = api.get(THINGS + path, accept=f"application/json;as={kind};g=meta.k8s.io;v=v1")
    assert (answer.status, answer.body["message"]) == (status, told)


def test_replicas_at_a_path_that_the_schema_does_not_know_are_pruned(api, install) -> None:
    install(with_status(other={"type": "string"}))
    api.made(THINGS, thing("t", spec={"other": "x"}))
    scaled = api.patch("merge", f"{THINGS}/t/scale", {"spec": {"replicas": 2}})
    assert (scaled.status, scaled.body["spec"]) == (200, {})


def test_the_age_of_a_kind_without_columns_is_a_date(api, install) -> None:
    install()
    table = api.get(THINGS, accept="application/json;as=Table;g=meta.k8s.io;v=v1").body
    assert [(one["name"], one["type"]) for one in table["columnDefinitions"]] == [("Name", "string"), ("Age", "date")]


def test_a_deprecated_version_warns_about_a_subresource_that_it_lacks(api, install) -> None:
    install(version(deprecated=True, deprecationWarning="old"))
    api.made(THINGS, thing("t"))
    answer = api.get(f"{THINGS}/t/scale")
    assert (answer.status, answer.headers["Warning"]) == (404, '299 - "old"')
