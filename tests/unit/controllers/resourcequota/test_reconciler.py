# SPDX-License-Identifier: Apache-2.0
"""Tests of a quota's status changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus
from kubeloop.api.quota import evaluator_of
from kubeloop.api.quota.evaluator import QuotaEvaluator
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.controllers.resourcequota.reconciler import calculate_usage, lacks_usage, status_patch
from kubeloop.sim.loop import START


@dataclass
class QuotaCase:
    meter: QuotaEvaluator
    is_synced: bool = True
    present: Sequence[Any] = field(default_factory=list)

    def objects(self, namespace: str) -> Sequence[Any]:
        return self.present


def quota(
    hard: dict[str, Any], told: dict[str, Any] | None = None, used: dict[str, Any] | None = None
) -> ResourceQuota:
    return ResourceQuota(
        spec=ResourceQuotaSpec(hard=hard), status=ResourceQuotaStatus(hard=told or {}, used=used or {})
    )


def test_kinds_are_counted_under_all_of_their_names() -> None:
    kinds = [
        QuotaCase(evaluator_of("secrets"), present=["a", "b"]),
        QuotaCase(evaluator_of("jobs.batch"), present=["c"]),
    ]
    found = calculate_usage(
        quota({"secrets": "9", "count/secrets": "9", "count/jobs.batch": "9", "pods": "1"}), kinds, START
    )
    assert {name: str(amount) for name, amount in found.used.items()} == {
        "secrets": "2",
        "count/secrets": "2",
        "count/jobs.batch": "1",
    }
    assert not found.unknown


def test_kinds_without_informer_are_not_counted() -> None:
    kinds = [QuotaCase(evaluator_of("secrets"), is_synced=False, present=["a"]), QuotaCase(evaluator_of("configmaps"))]
    found = calculate_usage(quota({"secrets": "9", "configmaps": "9"}), kinds, START)
    assert (list(found.used), list(found.unknown)) == (["configmaps"], ["secrets"])


@pytest.mark.parametrize(
    ("given", "counted", "change"),
    [
        (quota({"pods": "1"}), {"pods": "0"}, {"hard": {"pods": "1"}, "used": {"pods": "0"}}),
        (quota({"pods": "1"}, {"pods": "1"}, {"pods": "0"}), {"pods": "0"}, {}),
        (quota({"cpu": "1"}, {"cpu": "1000m"}, {"cpu": "500m"}), {"cpu": "0.5"}, {}),
        (quota({"pods": "1"}, {"pods": "1", "cpu": "1"}, {"cpu": "1"}), {"pods": "0"},
         {"hard": {"cpu": None}, "used": {"pods": "0", "cpu": None}}),
        (quota({"pods": "1", "cpu": "1"}, {"pods": "1", "cpu": "1"}, {"pods": "1", "cpu": "1"}), {"pods": "0"},
         {"used": {"pods": "0"}}),
    ],
    ids=["new", "as it was", "spelled otherwise", "no longer limited", "not countable now"],
)  # fmt: skip
def test_status_patch_has_only_differences(
    given: ResourceQuota, counted: dict[str, str], change: dict[str, Any]
) -> None:
    amounts = {name: parse_quantity(text) for name, text in counted.items()}
    assert status_patch(given, amounts) == change


def test_quota_that_blocks_creates_is_counted_first() -> None:
    meters = [evaluator_of("pods")]
    assert lacks_usage(quota({"pods": "1"}), meters)
    assert lacks_usage(quota({"pods": "1"}, {"pods": "1"}), meters)
    assert not lacks_usage(quota({"pods": "1"}, {"pods": "1"}, {"pods": "0"}), meters)
    assert not lacks_usage(quota({"count/things": "1"}, {"count/things": "1"}), meters)
