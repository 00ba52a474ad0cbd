# SPDX-License-Identifier: Apache-2.0
"""Tests of deletion: immediate, graceful, and with finalizers."""

from __future__ import annotations

import pytest

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
PODS = "/api/v1/namespaces/shop/pods"


def make(api, name="m", **meta):
    return api.made(CONFIG_MAPS, {"metadata": {"name": name, **meta}})


def test_object_without_finalizers_is_deleted_immediately(api):
    uid = make(api)["metadata"]["uid"]
    answer = api.ask("DELETE", f"{CONFIG_MAPS}/m")
    assert answer.body["status"] == "Success"
    assert answer.body["details"] == {"name": "m", "kind": "configmaps", "uid": uid}
    assert api.get(f"{CONFIG_MAPS}/m").status == 404


def test_finalizer_keeps_the_object_until_removed(api):
    make(api, finalizers=["example.org/wait"])
    held = api.ask("DELETE", f"{CONFIG_MAPS}/m").body
    assert held["metadata"]["deletionTimestamp"] == "2026-05-10T12:00:00Z"
    assert api.get(f"{CONFIG_MAPS}/m").status == 200
    api.patch("merge", f"{CONFIG_MAPS}/m", {"metadata": {"finalizers": []}})
    assert api.get(f"{CONFIG_MAPS}/m").status == 404


def test_finalizer_cannot_be_added_during_deletion(api):
    make(api, finalizers=["example.org/wait"])
    api.ask("DELETE", f"{CONFIG_MAPS}/m")
    patch = {"metadata": {"finalizers": ["example.org/wait", "example.org/more"]}}
    assert api.patch("merge", f"{CONFIG_MAPS}/m", patch).status == 422


@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Orphan", "orphan"), ("Foreground", "foregroundDeletion"), ("Background", None)]
)
def test_propagation_policy_sets_its_finalizer(api, policy, finalizer):
    make(api)
    api.ask("DELETE", f"{CONFIG_MAPS}/m?propagationPolicy={policy}")
    left = api.get(f"{CONFIG_MAPS}/m")
    if finalizer is None:
        assert left.status == 404
    else:
        assert left.body["metadata"]["finalizers"] == [finalizer]


@pytest.mark.parametrize(
    "demand", [{"uid": "another"}, {"resourceVersion": "1"}], ids=["another uid", "another version"]
)
def test_failed_precondition_is_a_conflict(api, demand):
    make(api)
    assert api.ask("DELETE", f"{CONFIG_MAPS}/m", {"preconditions": demand}).status == 409
    assert api.get(f"{CONFIG_MAPS}/m").status == 200


@pytest.mark.parametrize("query", ["propagationPolicy=Whenever", "dryRun=Some"])
def test_invalid_delete_options_are_rejected(api, query):
    make(api)
    assert api.ask("DELETE", f"{CONFIG_MAPS}/m?{query}").status == 422


def test_a_dry_run_deletes_nothing(api):
    make(api)
    assert api.ask("DELETE", f"{CONFIG_MAPS}/m?dryRun=All").status == 200
    assert api.ask("DELETE", f"{CONFIG_MAPS}/m", {"dryRun": ["All"]}).status == 200
    assert api.get(f"{CONFIG_MAPS}/m").status == 200


def test_unscheduled_pod_is_deleted_immediately_and_scheduled_one_gets_its_grace_period(api, pods):
    pods("free")
    assert api.ask("DELETE", f"{PODS}/free").body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert api.get(f"{PODS}/free").status == 404
    pods("bound", nodeName="n", terminationGracePeriodSeconds=40)
    marked = api.ask("DELETE", f"{PODS}/bound").body["metadata"]
    assert (marked["deletionGracePeriodSeconds"], marked["deletionTimestamp"]) == (40, "2026-05-10T12:00:40Z")
    assert api.get(f"{PODS}/bound").status == 200


def test_later_deletion_can_only_shorten_the_grace_period(api, pods):
    pods("p", nodeName="n")
    api.ask("DELETE", f"{PODS}/p")
    assert api.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=50").body["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = api.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=5").body["metadata"]
    assert (shorter["deletionGracePeriodSeconds"], shorter["deletionTimestamp"]) == (5, "2026-05-10T12:00:05Z")
    api.ask("DELETE", f"{PODS}/p?gracePeriodSeconds=0")
    assert api.get(f"{PODS}/p").status == 404


def test_namespace_waits_for_its_finalizer(api):
    api.made("/api/v1/namespaces", {"metadata": {"name": "old"}})
    ending = api.ask("DELETE", "/api/v1/namespaces/old").body
    assert ending["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in ending["metadata"]
    ending["spec"]["finalizers"] = []
    assert api.put("/api/v1/namespaces/old/finalize", ending).status == 200
    assert api.get("/api/v1/namespaces/old").status == 404


def test_deletecollection_honors_selectors_and_returns_the_list(api):
    make(api, "a", labels={"group": "1"})
    make(api, "b", labels={"group": "2"})
    make(api, "held", labels={"group": "1"}, finalizers=["example.org/wait"])
    found = api.ask("DELETE", f"{CONFIG_MAPS}?labelSelector=group%3D1").body
    assert [one["metadata"]["name"] for one in found["items"]] == ["a", "held"]
    left = {one["metadata"]["name"] for one in api.get(CONFIG_MAPS).body["items"]}
    assert left == {"b", "held"}
