# SPDX-License-Identifier: Apache-2.0
"""Tests of applied configurations: decoding, and managers in different versions."""

from __future__ import annotations

import pytest

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
V1 = "/apis/autoscaling/v1/namespaces/shop/horizontalpodautoscalers/h"
V2 = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/h"
REPEATED = b'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: "1", a: "2"}\n'


def _apply(api, path, body, query="fieldManager=one"):
    return api.patch("apply", f"{path}?{query}", body)


@pytest.mark.parametrize(
    ("text", "kind"), [(b"[1]", "array"), (b"word", "string"), (b"1", "number"), (b"true", "bool")]
)
def test_configuration_must_be_an_object(api, text, kind):
    answer = _apply(api, f"{CONFIG_MAPS}/m", text)
    assert answer.status == 400
    assert f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}" in answer.body["message"]


def test_duplicate_keys_are_warned_rejected_or_ignored(api):
    warned = _apply(api, f"{CONFIG_MAPS}/m", REPEATED)
    assert warned.headers["Warning"] == r'299 - "line 4: key \"a\" already set in map"'
    ignored = _apply(api, f"{CONFIG_MAPS}/m", REPEATED, "fieldManager=one&fieldValidation=Ignore")
    assert "Warning" not in ignored.headers
    refused = _apply(api, f"{CONFIG_MAPS}/m", REPEATED, "fieldManager=one&fieldValidation=Strict")
    assert refused.status == 400
    assert refused.body["message"] == (
        "error strict decoding patch: error converting YAML to JSON: "
        'yaml: unmarshal errors:\n  line 4: key "a" already set in map'
    )


def _autoscaler(version, **spec):
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5, **spec},
    }


def test_field_renamed_in_another_version_is_a_conflict(api):
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    assert _apply(api, V2, _autoscaler("v2", metrics=[{"type": "Resource", "resource": metric}])).status == 201
    changed = _autoscaler("v1", targetCPUUtilizationPercentage=70)
    answer = _apply(api, V1, changed, "fieldManager=two")
    assert answer.status == 409
    assert answer.body["details"]["causes"][0]["field"] == ".spec.metrics"


def test_field_omitted_in_one_version_and_defaulted_in_another_is_kept(api):
    _apply(api, V1, _autoscaler("v1", targetCPUUtilizationPercentage=50))
    _apply(api, V2, {**_autoscaler("v2"), "spec": {"minReplicas": 2}}, "fieldManager=two")
    answer = _apply(api, V1, _autoscaler("v1"))
    assert answer.body["spec"]["targetCPUUtilizationPercentage"] == 50
    assert answer.body["spec"]["minReplicas"] == 2


def test_conversion_annotations_are_not_kept_in_v2(api):
    body = _autoscaler("v2")
    body["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/metrics": "[]", "mine": "x"}
    made = api.made(V2.removesuffix("/h"), body)
    assert made["metadata"]["annotations"] == {"mine": "x"}


def test_dry_run_table_has_no_version(api):
    body = {"metadata": {"name": "m"}}
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    table = api.post(f"{CONFIG_MAPS}?dryRun=All", body, accept=accept).body
    assert "resourceVersion" not in table["metadata"]
    assert "resourceVersion" not in table["rows"][0]["object"]["metadata"]


def test_changed_revision_is_rejected_with_a_compact_message(api):
    path = "/apis/apps/v1/namespaces/shop/controllerrevisions"
    api.made(path, {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}})
    answer = api.put(f"{path}/r", b'{"metadata": {"name": "r"}, "revision": 1, "data": {"b": [1, 2]}}')
    assert answer.body["details"]["causes"][0]["message"] == 'Invalid value: {"b":[1,2]}: field is immutable'
