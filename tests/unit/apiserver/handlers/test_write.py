# SPDX-License-Identifier: Apache-2.0
"""Tests of writes against an in-process server."""

from __future__ import annotations

import pytest

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"


def config_map(name: str = "m", **rest):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **rest}


def deployment(name: str = "web", **spec):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def test_created_object_has_system_metadata(api):
    made = api.made(CONFIG_MAPS, {**config_map(data={"a": "1"}), "metadata": {"name": "m", "uid": "mine"}})
    meta = made["metadata"]
    assert meta["namespace"] == "shop"
    assert meta["uid"] != "mine"
    assert meta["creationTimestamp"] == "2026-05-10T12:00:00Z"
    assert int(meta["resourceVersion"]) > 0
    assert api.get(f"{CONFIG_MAPS}/m").body == made


def test_generated_names_keep_their_base_and_are_retried(api):
    made = [api.made(CONFIG_MAPS, {"metadata": {"generateName": "job-"}}) for _ in range(5)]
    names = {one["metadata"]["name"] for one in made}
    assert len(names) == 5
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


def test_long_generate_name_is_truncated(api):
    made = api.made(CONFIG_MAPS, {"metadata": {"generateName": "x" * 80}})
    assert len(made["metadata"]["name"]) == 63


def test_existing_name_is_already_exists(api):
    api.made(CONFIG_MAPS, config_map())
    answer = api.post(CONFIG_MAPS, config_map())
    assert (answer.status, answer.body["reason"]) == (409, "AlreadyExists")
    assert answer.body["message"] == 'configmaps "m" already exists'


def test_name_of_an_object_being_deleted_is_reported(api):
    api.made(CONFIG_MAPS, {"metadata": {"name": "m", "finalizers": ["example.org/wait"]}})
    api.ask("DELETE", f"{CONFIG_MAPS}/m")
    assert api.post(CONFIG_MAPS, config_map()).body["message"].startswith("object is being deleted: ")


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"metadata": {"name": "m", "namespace": "other"}}, 400, "the namespace of the provided object does not match"),
        ({"metadata": {"name": "m", "resourceVersion": "5"}}, 500, "resourceVersion should not be set"),
        ({"metadata": {}}, 422, "name or generateName is required"),
        ({"metadata": {"name": "Upper"}}, 422, "a lowercase RFC 1123 subdomain must consist of"),
    ],
)
def test_rejected_creations(api, body, status, message):
    answer = api.post(CONFIG_MAPS, body)
    assert answer.status == status
    assert message in answer.body["message"]


def test_dry_run_is_not_persisted(api):
    answer = api.post(f"{CONFIG_MAPS}?dryRun=All", config_map())
    assert answer.status == 201
    assert "resourceVersion" not in answer.body["metadata"]
    assert api.get(f"{CONFIG_MAPS}/m").status == 404


def test_an_update_with_an_old_version_is_a_conflict(api):
    made = api.made(CONFIG_MAPS, config_map(data={"a": "1"}))
    newer = api.put(f"{CONFIG_MAPS}/m", {**made, "data": {"a": "2"}})
    assert newer.status == 200
    stale = api.put(f"{CONFIG_MAPS}/m", {**made, "data": {"a": "3"}})
    assert (stale.status, stale.body["reason"]) == (409, "Conflict")
    assert api.get(f"{CONFIG_MAPS}/m").body["data"] == {"a": "2"}


def test_update_without_a_version_overwrites(api):
    api.made(CONFIG_MAPS, config_map(data={"a": "1"}))
    assert api.put(f"{CONFIG_MAPS}/m", config_map(data={"b": "2"})).body["data"] == {"b": "2"}


@pytest.mark.parametrize("ignored", ["0", "000", "abc", "-1", "99999999999999999999"])
def test_a_version_that_is_no_revision_is_ignored_on_create(api, ignored):
    made = api.made(CONFIG_MAPS, {"metadata": {"name": "m", "resourceVersion": ignored}})
    assert made["metadata"]["resourceVersion"] not in ("", ignored)


@pytest.mark.parametrize("version", ["0", "00"])
def test_version_zero_is_an_unconditional_update_where_the_kind_allows_one(api, version):
    api.made(CONFIG_MAPS, config_map())
    changed = {"metadata": {"name": "m", "resourceVersion": version}, "data": {"a": "1"}}
    answer = api.put(f"{CONFIG_MAPS}/m", changed)
    assert (answer.status, answer.body["data"]) == (200, {"a": "1"})
    assert int(answer.body["metadata"]["resourceVersion"]) > 0


def test_version_zero_is_no_version_where_an_update_needs_one(api):
    leases = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
    api.made(leases, {"metadata": {"name": "a"}})
    for version in ({}, {"resourceVersion": "0"}):
        answer = api.put(f"{leases}/a", {"metadata": {"name": "a", **version}})
        assert (answer.status, answer.body["reason"]) == (422, "Invalid")
        assert answer.body["message"] == (
            'leases.coordination.k8s.io "a" is invalid: metadata.resourceVersion: Invalid value: 0: '
            "must be specified for an update"
        )


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("abc", 'strconv.ParseUint: parsing "abc": invalid syntax'),
        ("99999999999999999999", 'strconv.ParseUint: parsing "99999999999999999999": value out of range'),
    ],
)
def test_an_update_with_a_version_that_is_no_number_is_an_error(api, version, message):
    api.made(CONFIG_MAPS, config_map())
    answer = api.put(f"{CONFIG_MAPS}/m", {"metadata": {"name": "m", "resourceVersion": version}})
    assert (answer.status, answer.body["message"]) == (500, message)
    leases = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"
    created = api.put(f"{leases}/new", {"metadata": {"name": "new", "resourceVersion": version}})
    assert (created.status, created.body["message"]) == (500, message)


def test_a_version_with_leading_zeros_is_the_same_revision(api):
    version = api.made(CONFIG_MAPS, config_map())["metadata"]["resourceVersion"]
    answer = api.put(f"{CONFIG_MAPS}/m", {"metadata": {"name": "m", "resourceVersion": f"0{version}"}})
    assert answer.status == 200


def test_an_update_of_another_uid_is_a_conflict(api):
    api.made(CONFIG_MAPS, config_map())
    answer = api.put(f"{CONFIG_MAPS}/m", {"metadata": {"name": "m", "uid": "another"}})
    assert (answer.status, answer.body["reason"]) == (409, "Conflict")


def test_no_op_update_keeps_the_version(api):
    made = api.made(CONFIG_MAPS, config_map(data={"a": "1"}))
    again = api.put(f"{CONFIG_MAPS}/m", made)
    assert again.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


def test_create_on_update_is_limited_to_upstreams_kinds(api):
    lease = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/l"
    assert api.put(lease, {"metadata": {"name": "l"}}).status == 201
    assert api.put(f"{CONFIG_MAPS}/nobody", config_map("nobody")).status == 404


def test_the_name_in_the_body_must_be_the_name_in_the_path(api):
    api.made(CONFIG_MAPS, config_map())
    answer = api.put(f"{CONFIG_MAPS}/m", config_map("other"))
    assert answer.body["message"] == "the name of the object (other) does not match the name on the URL (m)"


def test_generation_counts_spec_changes_only(api):
    api.made(DEPLOYMENTS, deployment())
    path = f"{DEPLOYMENTS}/web"
    assert api.patch("merge", path, {"metadata": {"labels": {"a": "b"}}}).body["metadata"]["generation"] == 1
    assert api.patch("merge", path, {"spec": {"replicas": 3}}).body["metadata"]["generation"] == 2
    status = api.patch("merge", f"{path}/status", {"status": {"replicas": 3}, "spec": {"replicas": 9}}).body
    assert status["metadata"]["generation"] == 2
    assert (status["spec"]["replicas"], status["status"]["replicas"]) == (3, 3)
    main = api.patch("merge", path, {"status": {"replicas": 7}}).body
    assert main["status"]["replicas"] == 3


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("json", [{"op": "add", "path": "/data/b", "value": "2"}]),
        ("merge", {"data": {"b": "2"}}),
        ("strategic", {"data": {"b": "2"}}),
    ],
)
def test_every_patch_type_adds_a_key(api, kind, patch):
    api.made(CONFIG_MAPS, config_map(data={"a": "1"}))
    assert api.patch(kind, f"{CONFIG_MAPS}/m", patch).body["data"] == {"a": "1", "b": "2"}


def test_a_strategic_patch_merges_containers_by_name(api):
    api.made(DEPLOYMENTS, deployment())
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "busybox"}]}}}}
    spec = api.patch("strategic", f"{DEPLOYMENTS}/web", patch).body["spec"]["template"]["spec"]
    assert {one["name"]: one["image"] for one in spec["containers"]} == {"c": "nginx", "side": "busybox"}


def test_a_patch_with_an_old_version_is_a_conflict(api):
    api.made(CONFIG_MAPS, config_map())
    answer = api.patch("merge", f"{CONFIG_MAPS}/m", {"metadata": {"resourceVersion": "1"}, "data": {"a": "b"}})
    assert answer.status == 409


def test_a_patch_of_an_unknown_type_is_refused(api):
    api.made(CONFIG_MAPS, config_map())
    assert api.ask("PATCH", f"{CONFIG_MAPS}/m", {}, content_type="application/json").status == 415


def test_apply_creates_owns_and_removes_omitted_fields(api):
    path = f"{CONFIG_MAPS}/m?fieldManager=me"
    assert api.patch("apply", path, config_map(data={"a": "1", "b": "2"})).status == 201
    after = api.patch("apply", path, config_map(data={"a": "1"}))
    assert (after.status, after.body["data"]) == (200, {"a": "1"})


def test_apply_conflicts_name_the_other_manager_and_the_field(api):
    api.patch("apply", f"{CONFIG_MAPS}/m?fieldManager=me", config_map(data={"a": "1"}))
    path = f"{CONFIG_MAPS}/m?fieldManager=you"
    answer = api.patch("apply", path, config_map(data={"a": "2"}))
    assert answer.status == 409
    assert answer.body["message"] == 'Apply failed with 1 conflict: conflict with "me": .data.a'
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == [".data.a"]
    assert api.patch("apply", f"{path}&force=true", config_map(data={"a": "2"})).body["data"] == {"a": "2"}


def test_apply_requires_a_manager(api):
    answer = api.patch("apply", f"{CONFIG_MAPS}/m", config_map())
    assert (answer.status, answer.body["details"]["causes"][0]["field"]) == (422, "fieldManager")


def test_manager_is_given_or_derived_from_the_user_agent(api):
    made = api.post(CONFIG_MAPS, config_map(data={"a": "1"}), user_agent="kubectl/v1.37.0 (linux/amd64)").body
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["kubectl"]
    named = api.post(f"{CONFIG_MAPS}?fieldManager=me", config_map("n", data={"a": "1"})).body
    assert [entry["manager"] for entry in named["metadata"]["managedFields"]] == ["me"]


def test_field_changed_by_another_manager_is_no_longer_owned(api):
    api.post(f"{CONFIG_MAPS}?fieldManager=me", config_map(data={"a": "1", "b": "2"}))
    api.patch("merge", f"{CONFIG_MAPS}/m?fieldManager=you", {"data": {"b": "3"}})
    entries = api.get(f"{CONFIG_MAPS}/m").body["metadata"]["managedFields"]
    owned = {entry["manager"]: set(entry["fieldsV1"]["f:data"]) - {"."} for entry in entries}
    assert owned == {"me": {"f:a"}, "you": {"f:b"}}


def test_empty_managed_fields_clear_ownership(api):
    made = api.made(CONFIG_MAPS, config_map(data={"a": "1"}))
    made["metadata"]["managedFields"] = []
    assert "managedFields" not in api.put(f"{CONFIG_MAPS}/m", made).body["metadata"]


def test_invalid_options_are_reported_by_field(api):
    answer = api.post(f"{CONFIG_MAPS}?dryRun=Some&fieldValidation=Maybe&fieldManager={'x' * 129}", config_map())
    assert answer.status == 422
    assert {cause["field"] for cause in answer.body["details"]["causes"]} == {
        "dryRun",
        "fieldValidation",
        "fieldManager",
    }
