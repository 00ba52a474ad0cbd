"""Applied configurations: how they are read, and managers that speak different versions."""

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
def test_a_configuration_is_an_object(api, text, kind):
    answer = _apply(api, f"{CONFIG_MAPS}/m", text)
    assert answer.status == 400
    assert f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}" in answer.body["message"]


def test_repeated_keys_are_warned_of_refused_or_ignored(api):
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


def test_a_field_that_another_version_calls_differently_is_a_conflict(api):
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    assert _apply(api, V2, _autoscaler("v2", metrics=[{"type": "Resource", "resource": metric}])).status == 201
    changed = _autoscaler("v1", targetCPUUtilizationPercentage=70)
    answer = _apply(api, V1, changed, "fieldManager=two")
    assert answer.status == 409
    assert answer.body["details"]["causes"][0]["field"] == ".spec.metrics"


def test_what_is_given_up_in_one_version_but_there_by_default_in_another_stays_as_it_is(api):
    _apply(api, V1, _autoscaler("v1", targetCPUUtilizationPercentage=50))
    _apply(api, V2, {**_autoscaler("v2"), "spec": {"minReplicas": 2}}, "fieldManager=two")
    answer = _apply(api, V1, _autoscaler("v1"))
    assert answer.body["spec"]["targetCPUUtilizationPercentage"] == 50
    assert answer.body["spec"]["minReplicas"] == 2


def test_annotations_that_carry_fields_of_v2_are_not_kept_in_v2(api):
    body = _autoscaler("v2")
    body["metadata"]["annotations"] = {"autoscaling.alpha.kubernetes.io/metrics": "[]", "mine": "x"}
    made = api.made(V2.removesuffix("/h"), body)
    assert made["metadata"]["annotations"] == {"mine": "x"}


def test_a_table_of_a_dry_run_has_no_version(api):
    body = {"metadata": {"name": "m"}}
    accept = "application/json;as=Table;g=meta.k8s.io;v=v1"
    table = api.post(f"{CONFIG_MAPS}?dryRun=All", body, accept=accept).body
    assert "resourceVersion" not in table["metadata"]
    assert "resourceVersion" not in table["rows"][0]["object"]["metadata"]


def test_a_changed_revision_is_refused_in_compact_form(api):
    path = "/apis/apps/v1/namespaces/shop/controllerrevisions"
    api.made(path, {"metadata": {"name": "r"}, "revision": 1, "data": {"a": 1}})
    answer = api.put(f"{path}/r", b'{"metadata": {"name": "r"}, "revision": 1, "data": {"b": [1, 2]}}')
    assert answer.body["details"]["causes"][0]["message"] == 'Invalid value: {"b":[1,2]}: field is immutable'
