# SPDX-License-Identifier: Apache-2.0
"""Tests of the fields owned by subresource writes."""

from __future__ import annotations


def _owned(answer, subresource):
    entries = answer.body["metadata"]["managedFields"]
    return next(entry["fieldsV1"] for entry in entries if entry.get("subresource", "") == subresource)


def test_resize_owns_resources_only(api, pods):
    path = pods("p", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}])
    change = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]},
    }
    answer = api.patch("strategic", f"{path}/resize", change)
    item = {"f:resources": {"f:requests": {"f:cpu": {}}}}
    assert _owned(answer, "resize") == {"f:spec": {"f:containers": {'k:{"name":"c"}': item}}}


def test_ephemeralcontainers_subresource_owns_ephemeral_containers_only(api, pods):
    path = pods("p")
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}}
    answer = api.patch("strategic", f"{path}/ephemeralcontainers", change)
    owned = _owned(answer, "ephemeralcontainers")
    assert list(owned) == ["f:spec"]
    assert list(owned["f:spec"]) == ["f:ephemeralContainers"]
