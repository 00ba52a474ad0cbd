# SPDX-License-Identifier: Apache-2.0
"""A definition is served, named, changed and ended."""

from __future__ import annotations

import pytest

from tests.unit.apiserver.apiextensions.conftest import DEFINITIONS, NAME, THINGS, definition, fields, thing, version

STRING = {"type": "string"}


def conditions(api, name=NAME):
    status = api.get(f"{DEFINITIONS}/{name}").body["status"]
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in status["conditions"]}


def test_objects_can_be_created_immediately_after_the_definition(api, install) -> None:
    assert api.post(THINGS, thing("a")).status == 404
    install()
    assert api.post(THINGS, thing("a")).status == 201


def test_definition_gets_the_established_condition(api, install, settle) -> None:
    install(names={"shortNames": ["th"], "categories": ["all"]})
    settle()
    assert conditions(api) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    status = api.get(f"{DEFINITIONS}/{NAME}").body["status"]
    assert status["acceptedNames"] == {
        "plural": "things",
        "singular": "thing",
        "kind": "Thing",
        "listKind": "ThingList",
        "shortNames": ["th"],
        "categories": ["all"],
    }
    assert status["storedVersions"] == ["v1"]


def test_status_managed_fields_are_the_servers(api, install, settle) -> None:
    install()
    settle()
    entries = api.get(f"{DEFINITIONS}/{NAME}").body["metadata"]["managedFields"]
    assert ("kube-apiserver", "status") in {(one["manager"], one.get("subresource")) for one in entries}


def test_discovery_has_short_names_and_subresources(api, install) -> None:
    install(version(subresources={"status": {}}), names={"shortNames": ["th"], "categories": ["all"]})
    resource, status = api.get("/apis/example.org/v1").body["resources"]
    assert (resource["name"], resource["singularName"], resource["shortNames"]) == ("things", "thing", ["th"])
    assert status["name"] == "things/status"
    groups = api.get("/apis").body["groups"]
    assert groups[-1]["name"] == "example.org"


def test_versions_are_sorted_by_priority(api, install) -> None:
    install(version("v1beta1", storage=False), version("v1"), version("v1alpha1", storage=False), version("v2", False))
    listed = [one["version"] for one in api.get("/apis/example.org").body["versions"]]
    assert listed == ["v2", "v1", "v1beta1", "v1alpha1"]


def test_unknown_resource_in_a_custom_group_returns_404(api, install) -> None:
    install()
    for path in ("/apis/example.org/v2", "/apis/example.org/v1/namespaces/shop/others", "/apis/example.org/v1/x/y/z"):
        answer = api.get(path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n")


def test_unserved_version_is_not_found(api, install) -> None:
    install(version("v1"), {**version("v2", storage=False), "served": False})
    assert api.get("/apis/example.org/v2/namespaces/shop/things").status == 404


@pytest.mark.parametrize(
    ("names", "reason", "used"),
    [
        ({"kind": "Thing", "listKind": "OtherList"}, "KindConflict", "Thing"),
        ({"kind": "Other", "singular": "thing"}, "SingularConflict", "thing"),
        ({"kind": "Other", "shortNames": ["th"]}, "ShortNamesConflict", "th"),
    ],
)
def test_conflicting_names_are_not_accepted_and_not_served(api, install, settle, names, reason, used) -> None:
    install(names={"shortNames": ["th"]})
    install(plural="others", names=names)
    settle()
    found = conditions(api, "others.example.org")
    assert found["NamesAccepted"] == ("False", reason, f'"{used}" is already in use')
    assert found["Established"] == ("False", "NotAccepted", "not all names are accepted")
    assert api.get("/apis/example.org/v1/namespaces/shop/others").status == 404


def test_names_are_released_with_their_definition(api, install, settle) -> None:
    install(names={"shortNames": ["th"]})
    install(plural="others", kind="Other", names={"shortNames": ["th"]})
    settle()
    api.ask("DELETE", f"{DEFINITIONS}/{NAME}")
    settle()
    assert conditions(api, "others.example.org")["Established"][0] == "True"
    assert api.get("/apis/example.org/v1/namespaces/shop/others").status == 200


def test_changed_schema_applies_immediately_and_to_stored_objects(api, install, settle) -> None:
    install(version(schema=fields(a=STRING, b=STRING)))
    settle()
    api.made(THINGS, thing("old", spec={"a": "1", "b": "2"}))
    changed = version(schema=fields(a=STRING, c={"type": "string", "default": "new"}))
    assert api.patch("merge", f"{DEFINITIONS}/{NAME}", {"spec": {"versions": [changed]}}).status == 200
    assert api.get(f"{THINGS}/old").body["spec"] == {"a": "1", "c": "new"}
    assert api.get(THINGS).body["items"][0]["spec"] == {"a": "1", "c": "new"}


def test_non_structural_schema_is_rejected(api) -> None:
    answer = api.post(DEFINITIONS, definition(version(schema={"properties": {"spec": {}}})))
    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == ("spec.validation.openAPIV3Schema.properties[spec].type")


def test_unknown_format_warns_once(api) -> None:
    odd = {"type": "string", "format": "odd"}
    answer = api.post(DEFINITIONS, definition(version(schema=fields(a=odd, b={"type": "string", "format": "date"}))))
    assert answer.headers["Warning"] == '299 - "unrecognized format \\"odd\\""'
    changed = version(schema=fields(a=odd, b=STRING))
    kept = api.patch("merge", f"{DEFINITIONS}/{NAME}", {"spec": {"versions": [changed]}})
    assert kept.status == 200
    assert "Warning" not in kept.headers


def test_set_of_objects_warns(api) -> None:
    items = {"type": "object", "x-kubernetes-map-type": "atomic"}
    listed = {"type": "array", "x-kubernetes-list-type": "set", "items": items}
    answer = api.post(DEFINITIONS, definition(version(schema=fields(a=listed))))
    assert 'set for items of type \\"object\\" is not supported' in answer.headers["Warning"]


class TestDeleting:
    def test_deletion_removes_objects_then_the_definition(self, api, install, settle) -> None:
        install()
        api.made(THINGS, thing("a"))
        answer = api.ask("DELETE", f"{DEFINITIONS}/{NAME}")
        assert answer.status == 200
        assert answer.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        settle()
        assert api.get(f"{DEFINITIONS}/{NAME}").status == 404
        assert api.get(THINGS).status == 404
        install()
        assert api.get(THINGS).body["items"] == []

    def test_deletion_waits_for_finalizers_and_rejects_creates(self, api, install, settle) -> None:
        install()
        settle()
        api.made(THINGS, {**thing("held"), "metadata": {"name": "held", "finalizers": ["example.org/f"]}})
        api.ask("DELETE", f"{DEFINITIONS}/{NAME}")
        settle()
        assert conditions(api)["Terminating"] == (
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        )
        assert "deletionTimestamp" in api.get(f"{THINGS}/held").body["metadata"]
        refused = api.post(THINGS, thing("new"))
        assert refused.status == 403
        assert "create not allowed while custom resource definition is terminating" in refused.body["message"]
        assert api.patch("merge", f"{THINGS}/held", {"metadata": {"finalizers": None}}).status == 200
        settle()
        assert api.get(f"{DEFINITIONS}/{NAME}").status == 404

    def test_repeated_deletion_changes_nothing(self, api, install, settle) -> None:
        install()
        api.made(THINGS, {**thing("held"), "metadata": {"name": "held", "finalizers": ["example.org/f"]}})
        first = api.ask("DELETE", f"{DEFINITIONS}/{NAME}").body["metadata"]["deletionTimestamp"]
        settle()
        api.clock.advance(60)
        again = api.ask("DELETE", f"{DEFINITIONS}/{NAME}").body["metadata"]["deletionTimestamp"]
        assert again == first


def test_other_openapi_documents_are_not_rebuilt_for_a_new_definition(api, install) -> None:
    install()
    api.get("/openapi/v3")
    before = api.server.nonresource._openapi.v3_document("apis/apps/v1")
    own = api.server.nonresource._openapi.v3_document("apis/example.org/v1")
    install(plural="others", kind="Other")
    assert api.server.nonresource._openapi.v3_document("apis/apps/v1") is before
    assert api.server.nonresource._openapi.v3_document("apis/example.org/v1") != own
