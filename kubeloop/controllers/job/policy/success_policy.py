# SPDX-License-Identifier: Apache-2.0
"""Evaluates an indexed job's `successPolicy`. Pure."""

from __future__ import annotations

from kubeloop.api.generated.batch_v1 import SuccessPolicy, SuccessPolicyRule
from kubeloop.controllers.job.indexes import Indexes


def match_success_policy(policy: SuccessPolicy | None, completions: int, succeeded: Indexes) -> int | None:
    """Return the index of the first rule that is met, or None."""
    if policy is None or not succeeded.spans:
        return None
    rules = enumerate(policy.rules or ())
    return next((number for number, rule in rules if _is_met(rule, completions, succeeded)), None)


def _is_met(rule: SuccessPolicyRule, completions: int, succeeded: Indexes) -> bool:
    enough = rule.succeeded_count
    if rule.succeeded_indexes is None:
        return enough is not None and len(succeeded) >= enough
    wanted = Indexes.parse(rule.succeeded_indexes, completions)
    if not wanted.spans:
        return False
    common = wanted.count_common(succeeded)
    return common == len(wanted) or (enough is not None and common >= enough)
