# SPDX-License-Identifier: Apache-2.0
"""Tests of the causes of an object's writes."""

from __future__ import annotations

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
WHY = f"/kubeloop/why{CONFIG_MAPS}/m"
CAUSE = '{"controller":"mirror","key":"shop/m","origins":[{"kind":"Namespace","name":"shop","revision":"7"}]}'


def test_every_write_of_an_object_has_its_cause(api):
    made = api.post(CONFIG_MAPS, {"metadata": {"name": "m"}}, kubeloop_cause=CAUSE, user_agent="mirror/1").body
    changed = api.patch("merge", f"{CONFIG_MAPS}/m", {"data": {"a": "1"}}).body
    first, second = api.get(WHY).body["items"]
    assert first["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert (first["verb"], first["user"], first["userAgent"]) == ("create", "admin", "mirror/1")
    assert first["cause"]["origins"][0]["revision"] == "7"
    assert (second["verb"], second["resourceVersion"]) == ("patch", changed["metadata"]["resourceVersion"])
    assert "cause" not in second


def test_no_op_is_not_a_write_and_a_deletion_is(api):
    api.made(CONFIG_MAPS, {"metadata": {"name": "m"}})
    api.patch("merge", f"{CONFIG_MAPS}/m", {})
    api.post(f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "n"}})
    api.ask("DELETE", f"{CONFIG_MAPS}/m")
    assert [reason["verb"] for reason in api.get(WHY).body["items"]] == ["create", "delete"]
    assert api.get(f"/kubeloop/why{CONFIG_MAPS}/n").body["items"] == []


def test_cause_that_is_not_json_is_returned_as_text(api):
    api.post(CONFIG_MAPS, {"metadata": {"name": "m"}}, kubeloop_cause="because%20of%20you")
    assert api.get(WHY).body["items"][0]["cause"] == "because of you"


def test_causes_require_permission(api):
    api.made(CONFIG_MAPS, {"metadata": {"name": "m"}})
    assert api.get(WHY, token="nobody").status == 403
    for path in ("/api/v1/namespaces/shop/configmaps", "/", "/api", "/api/v1/unknown/x", "/nonsense", "//"):
        response = api.get(f"/kubeloop/why{path}")
        assert response.status == 404
        assert response.body["message"].startswith("no object has this path; expected /kubeloop/why/api/v1/")
