# SPDX-License-Identifier: Apache-2.0
"""Tests of quota decisions: exact charges, and limits that are never exceeded."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Pod, ResourceQuota
from kubeloop.api.quota import QuotaExceeded, QuotaRequest, UncoveredScopes, check_request, evaluator_of
from kubeloop.api.quota.amounts import format_amounts
from kubeloop.api.quota.limited_resources import LimitedResource, LimitedResources
from kubeloop.api.scalars.quantity import parse_quantity

NOON = datetime(2026, 5, 10, 12, tzinfo=UTC)
PODS = evaluator_of("pods")


def _quota(hard, used=None, **spec):
    used = dict.fromkeys(hard, "0") if used is None else used
    return from_plain({"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used}}, ResourceQuota)


def _pod(milli=100, **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": f"{milli}m"}}}
    return from_plain({"spec": {"containers": [container], **spec}}, Pod)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 900), max_size=20))
def test_quota_usage_is_exact_and_never_exceeds_the_limit(requests):
    quota = _quota({"requests.cpu": "2", "pods": "6"})
    admitted = []
    for milli in requests:
        try:
            charges = check_request([quota], PODS, QuotaRequest(_pod(milli), None, NOON))
        except QuotaExceeded:
            fits = sum(admitted) + milli <= 2000 and len(admitted) < 6
            assert not fits
            continue
        used = {name: str(amount) for name, amount in charges[0].used.items()}
        quota = replace(quota, status=replace(quota.status, used=used))
        admitted.append(milli)
    assert parse_quantity(quota.status.used["requests.cpu"]).milli_value() == sum(admitted) <= 2000
    assert quota.status.used["pods"] == str(len(admitted))


def test_update_is_charged_for_its_increase():
    (charge,) = check_request(
        [_quota({"requests.cpu": "2"}, {"requests.cpu": "1"})], PODS, QuotaRequest(_pod(900), _pod(500), NOON)
    )
    assert format_amounts(charge.used) == "requests.cpu=1400m"


def test_update_with_a_decrease_is_free():
    assert check_request([_quota({"requests.cpu": "2"})], PODS, QuotaRequest(_pod(100), _pod(500), NOON)) == []


def test_a_pod_that_enters_a_scope_by_an_update_is_charged_in_full():
    quota = _quota({"pods": "2", "requests.cpu": "2"}, scopes=["Terminating"])
    (charge,) = check_request([quota], PODS, QuotaRequest(_pod(100, activeDeadlineSeconds=9), _pod(100), NOON))
    assert format_amounts(charge.used) == "pods=1,requests.cpu=100m"


def test_unenforced_changes_are_charged_beyond_the_limit():
    full = _quota({"requests.cpu": "1"}, {"requests.cpu": "1"})
    with pytest.raises(QuotaExceeded, match="exceeded quota: q"):
        check_request([full], PODS, QuotaRequest(_pod(100), None, NOON))
    (charge,) = check_request([full], PODS, QuotaRequest(_pod(100), None, NOON, enforced=False))
    assert format_amounts(charge.used) == "requests.cpu=1100m"


def test_quota_without_matching_resources_is_unchanged():
    assert check_request([_quota({"services": "0"})], PODS, QuotaRequest(_pod(), None, NOON)) == []


# -- resources that are limited by default ----------------------------------------------------------------------------

SCOPE = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}


def _limits(group_resource="pods", **entry):
    return LimitedResources([msgspec.convert({"resource": "pods", **entry}, LimitedResource)], group_resource)


def _covered(quotas, limited, pod, old=None):
    return check_request(quotas, PODS, QuotaRequest(pod, old, NOON), limited)


def test_a_limited_resource_needs_a_quota():
    limited = _limits(matchContains=["cpu"])
    with pytest.raises(QuotaExceeded, match=r"^insufficient quota to consume: cpu,requests.cpu$"):
        _covered([], limited, _pod(100))
    with pytest.raises(QuotaExceeded, match=r"^insufficient quota to consume: cpu$"):
        _covered([_quota({"requests.cpu": "2"})], limited, _pod(100))
    assert len(_covered([_quota({"requests.cpu": "2", "cpu": "2"})], limited, _pod(100))) == 1


def test_a_limit_of_another_resource_does_not_matter():
    assert _covered([], _limits("services", matchContains=["cpu"]), _pod(100)) == []
    assert _covered([], _limits(matchContains=["nothing"]), _pod(100)) == []


def test_an_update_that_adds_nothing_needs_no_quota():
    assert _covered([], _limits(matchContains=["cpu"]), _pod(100), _pod(100)) == []


def test_a_limited_scope_needs_a_quota():
    limited = _limits(matchScopes=[SCOPE])
    with pytest.raises(UncoveredScopes) as caught:
        _covered([], limited, _pod(100, priorityClassName="high"))
    assert str(caught.value) == "insufficient quota to match these scopes: [{PriorityClass In [high]}]"
    assert _covered([], limited, _pod(100, priorityClassName="low")) == []
    scoped = _quota({"pods": "5"}, {"pods": "0"})
    scoped = replace(scoped, spec=msgspec.convert({"scopeSelector": {"matchExpressions": [SCOPE]}}, type(scoped.spec)))
    assert len(_covered([scoped], limited, _pod(100, priorityClassName="high"))) == 1
