"""What quotas are charged for a write: never more than there is, and exactly what was let in."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubeloop.api.codec import from_plain
from kubeloop.api.generated.core_v1 import Pod, ResourceQuota
from kubeloop.api.quota import QuotaExceeded, check_request, evaluator_of
from kubeloop.api.quota.amounts import format_amounts
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
def test_a_quota_holds_exactly_what_was_let_in_and_never_more_than_its_limit(requests):
    quota = _quota({"requests.cpu": "2", "pods": "6"})
    admitted = []
    for milli in requests:
        try:
            charges = check_request([quota], PODS, _pod(milli), None, NOON)
        except QuotaExceeded:
            fits = sum(admitted) + milli <= 2000 and len(admitted) < 6
            assert not fits
            continue
        used = {name: str(amount) for name, amount in charges[0].used.items()}
        quota = replace(quota, status=replace(quota.status, used=used))
        admitted.append(milli)
    assert parse_quantity(quota.status.used["requests.cpu"]).milli_value() == sum(admitted) <= 2000
    assert quota.status.used["pods"] == str(len(admitted))


def test_an_update_is_charged_for_its_growth_alone():
    (charge,) = check_request([_quota({"requests.cpu": "2"}, {"requests.cpu": "1"})], PODS, _pod(900), _pod(500), NOON)
    assert format_amounts(charge.used) == "requests.cpu=1400m"


def test_an_update_that_takes_less_is_free_and_gives_nothing_back():
    assert check_request([_quota({"requests.cpu": "2"})], PODS, _pod(100), _pod(500), NOON) == []


def test_a_pod_that_enters_a_scope_by_an_update_is_charged_in_full():
    quota = _quota({"pods": "2", "requests.cpu": "2"}, scopes=["Terminating"])
    (charge,) = check_request([quota], PODS, _pod(100, activeDeadlineSeconds=9), _pod(100), NOON)
    assert format_amounts(charge.used) == "pods=1,requests.cpu=100m"


def test_what_is_not_enforced_is_charged_beyond_the_limit():
    full = _quota({"requests.cpu": "1"}, {"requests.cpu": "1"})
    with pytest.raises(QuotaExceeded, match="exceeded quota: q"):
        check_request([full], PODS, _pod(100), None, NOON)
    (charge,) = check_request([full], PODS, _pod(100), None, NOON, enforced=False)
    assert format_amounts(charge.used) == "requests.cpu=1100m"


def test_a_quota_that_measures_nothing_of_a_kind_is_left_alone():
    assert check_request([_quota({"services": "0"})], PODS, _pod(), None, NOON) == []
