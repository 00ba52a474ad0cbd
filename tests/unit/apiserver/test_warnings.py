# SPDX-License-Identifier: Apache-2.0
"""Warnings on their way to clients: with successes, with refusals, and with deletions that leave something behind."""

from __future__ import annotations

import pytest

SERVICES = "/api/v1/namespaces/shop/services"
ENDPOINTS = "/api/v1/namespaces/shop/endpoints"
JOBS = "/apis/batch/v1/namespaces/shop/jobs"
DEPRECATED = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'


def _job(api, name="j"):
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
    api.made(JOBS, {"metadata": {"name": name}, "spec": spec})


def test_accepted_object_has_its_warnings(api):
    spec = {"ports": [{"port": 80}], "trafficDistribution": "PreferClose"}
    answer = api.post(SERVICES, {"metadata": {"name": "s"}, "spec": spec})
    assert answer.status == 201
    assert answer.headers["Warning"].startswith('299 - "spec.trafficDistribution:')
    changed = api.patch("merge", f"{SERVICES}/s", {"metadata": {"labels": {"a": "b"}}})
    assert changed.headers["Warning"] == answer.headers["Warning"]


@pytest.mark.parametrize("body", [{"metadata": {"name": "e"}}, {"metadata": {"name": "-"}}], ids=["good", "bad"])
def test_deprecated_kind_warns_even_if_rejected(api, body):
    assert api.post(ENDPOINTS, body).headers["Warning"] == DEPRECATED
    assert api.get(ENDPOINTS).headers["Warning"] == DEPRECATED


def test_job_deletion_orphans_pods_by_default_with_a_warning(api):
    _job(api)
    answer = api.ask("DELETE", f"{JOBS}/j")
    assert answer.headers["Warning"].startswith('299 - "child pods are preserved by default when jobs are deleted;')
    assert answer.body["metadata"]["finalizers"] == ["orphan"]
    assert api.get(f"{JOBS}/j").body["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(("policy", "status"), [("Background", 404), ("Orphan", 200), ("Foreground", 200)])
def test_explicit_propagation_policy_has_no_warning(api, policy, status):
    _job(api)
    assert "Warning" not in api.ask("DELETE", f"{JOBS}/j?propagationPolicy={policy}").headers
    assert api.get(f"{JOBS}/j").status == status
