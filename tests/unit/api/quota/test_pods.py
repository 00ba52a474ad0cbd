# SPDX-License-Identifier: Apache-2.0
"""Tests of the quota usage and scopes of a pod."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Pod, ScopedResourceSelectorRequirement
from kubeloop.api.quota.evaluator import matches_scope_selector
from kubeloop.api.quota.pods import PodEvaluator

NOON = datetime(2026, 5, 10, 12, tzinfo=UTC)


def _pod(*containers, metadata=None, status=None, **spec):
    plain = {"metadata": metadata or {}, "spec": {"containers": list(containers), **spec}, "status": status or {}}
    return from_plain(plain, Pod)


def _container(name="c", requests=None, limits=None, **more):
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def _usage(pod):
    return {name: str(amount) for name, amount in PodEvaluator().usage(pod, NOON).items()}


def test_requests_count_under_both_names_and_limits_under_one():
    used = _usage(_pod(_container(requests={"cpu": "1"}, limits={"cpu": "2", "memory": "1Gi"})))
    assert used == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "1",
        "requests.cpu": "1",
        "limits.cpu": "2",
        "limits.memory": "1Gi",
    }


def test_huge_pages_and_extended_resources_count_as_requests():
    used = _usage(_pod(_container(requests={"hugepages-2Mi": "4Mi", "example.com/gpu": "1", "kubernetes.io/x": "1"})))
    assert {name: used[name] for name in used if "pods" not in name} == {
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.example.com/gpu": "1",
    }


def test_init_containers_are_added_to_earlier_sidecars():
    used = _usage(
        _pod(
            _container("a", {"cpu": "1"}),
            _container("b", {"cpu": "1"}),
            initContainers=[
                _container("i", {"cpu": "2"}),
                _container("s", {"cpu": "1"}, restartPolicy="Always"),
                _container("j", {"cpu": "3"}),
            ],
            overhead={"cpu": "100m"},
        )
    )
    assert used["requests.cpu"] == "4100m"


def test_pod_level_resources_override_the_sum():
    used = _usage(_pod(_container("a", {"cpu": "1"}), resources={"requests": {"cpu": "5"}, "limits": {"memory": "1"}}))
    assert (used["requests.cpu"], used["limits.memory"]) == ("5", "1")


@pytest.mark.parametrize(
    ("conditions", "cpu"),
    [
        pytest.param([], "3", id="what is in effect counts until it is given back"),
        pytest.param([{"type": "PodResizePending", "reason": "Infeasible"}], "3", id="a resize that is none"),
    ],
)
def test_pod_being_resized_is_charged_for_the_maximum(conditions, cpu):
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}], "conditions": conditions}
    assert _usage(_pod(_container(requests={"cpu": "1"}), status=status))["requests.cpu"] == cpu


def test_infeasible_resize_is_not_charged():
    pending = {"type": "PodResizePending", "reason": "Infeasible"}
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "1"}}], "conditions": [pending]}
    assert _usage(_pod(_container(requests={"cpu": "9"}), status=status))["requests.cpu"] == "1"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_finished_pods_only_count_as_objects(phase):
    assert _usage(_pod(_container(requests={"cpu": "1"}), status={"phase": phase})) == {"count/pods": "1"}


@pytest.mark.parametrize(("deleted", "living"), [("2026-05-10T11:59:00Z", True), ("2026-05-10T11:58:00Z", False)])
def test_terminating_pods_stop_counting_after_their_grace_period(deleted, living):
    meta = {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 60}
    assert ("pods" in _usage(_pod(_container(), metadata=meta))) is living


def _in(scope, pod, operator="Exists", *values):
    requirement = ScopedResourceSelectorRequirement(scope_name=scope, operator=operator, values=values)
    return PodEvaluator().matches_scope(requirement, pod)


def test_every_pod_is_in_one_of_each_pair_of_scopes():
    plain, busy = _pod(_container()), _pod(_container(requests={"cpu": "1"}), activeDeadlineSeconds=0)
    assert [_in(s, plain) for s in ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating")] == [1, 0, 0, 1]
    assert [_in(s, busy) for s in ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating")] == [0, 1, 1, 0]


def test_pods_are_selected_by_their_priority_class():
    high, none = _pod(_container(), priorityClassName="high"), _pod(_container())
    assert _in("PriorityClass", high)
    assert not _in("PriorityClass", none)
    assert _in("PriorityClass", high, "In", "high", "low")
    assert not _in("PriorityClass", none, "In", "high")
    assert not _in("PriorityClass", high, "NotIn", "high")
    assert _in("PriorityClass", none, "NotIn", "high")
    assert _in("PriorityClass", none, "DoesNotExist")
    assert not _in("PriorityClass", high, "DoesNotExist")


@pytest.mark.parametrize("side", ["podAffinity", "podAntiAffinity"])
def test_affinity_to_other_namespaces_is_a_scope(side):
    far = {"topologyKey": "zone", "namespaceSelector": {}}
    required = {side: {"requiredDuringSchedulingIgnoredDuringExecution": [far]}}
    preferred = {side: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": far}]}}
    near = {side: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    scope = "CrossNamespacePodAffinity"
    assert _in(scope, _pod(_container(), affinity=required))
    assert _in(scope, _pod(_container(), affinity=preferred))
    assert not _in(scope, _pod(_container(), affinity=near))
    assert not _in(scope, _pod(_container()))


def test_one_of_several_values_matches_a_scope():
    scope = ScopedResourceSelectorRequirement(scope_name="VolumeAttributesClass", operator="In", values=("gold",))
    assert matches_scope_selector(scope, ["silver", "gold"])
    assert not matches_scope_selector(scope, ["silver"])


def test_a_quota_measures_pods_by_fixed_names_huge_pages_and_extended_requests():
    names = ["pods", "limits.cpu", "hugepages-1Gi", "requests.hugepages-1Gi", "requests.example.com/gpu"]
    others = ["services", "example.com/gpu", "limits.example.com/gpu", "requests.storage", "requests.kubernetes.io/x"]
    assert PodEvaluator().matching_resources(names + others) == sorted(names)
