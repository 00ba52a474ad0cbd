# SPDX-License-Identifier: Apache-2.0
"""Builds the status condition of a rule that reports the progress of its evictions. Pure."""

from __future__ import annotations

from typing import NamedTuple

IN_PROGRESS = "EvictionInProgress"


class EvictionProgress(NamedTuple):
    """Counts that the status reports."""

    pods: int  # to be evicted, or with effect None that would be
    namespaces: int
    evicted: int  # since the controller started
    published: int = 0  # number of devices, with effect None
    allocated: int = 0


class RuleCondition(NamedTuple):
    """Status, reason and message of the condition."""

    status: str
    reason: str
    message: str


def rule_condition(effect: str, progress: EvictionProgress) -> RuleCondition:
    """Build the condition from the effect and the counts."""
    status, reason, message = _said(effect, progress)
    if progress.evicted:
        pods = "1 pod" if progress.evicted == 1 else f"{progress.evicted} pods"
        message = f"{message} {pods} evicted since starting the controller.".lstrip()
    return RuleCondition(status, reason, message)


def _said(effect: str, progress: EvictionProgress) -> RuleCondition:
    where = "1 namespace" if progress.namespaces == 1 else f"{progress.namespaces} different namespaces"
    if effect == "NoExecute":
        if progress.pods:
            pods = "1 pod needs" if progress.pods == 1 else f"{progress.pods} pods need"
            return RuleCondition("True", "PodsPendingEviction", f"{pods} to be evicted in {where}.")
        return RuleCondition("False", "Completed" if progress.evicted else "NotStarted", "")
    if effect == "None":
        pods = "1 pod" if progress.pods == 1 else f"{progress.pods} pods"
        selected = f"{_devices(progress.published, 'published')} {_devices(progress.allocated, 'allocated')}"
        message = (
            f"{selected} {pods} would be evicted in {where} if the effect was NoExecute. This information will not be "
            "updated again. Recreate the DeviceTaintRule to trigger an update."
        )
        return RuleCondition("False", "NoEffect", message)
    return RuleCondition("False", "OtherEffect", "Eviction only happens for the NoExecute effect.")


def _devices(count: int, which: str) -> str:
    return f"1 {which} device selected." if count == 1 else f"{count} {which} devices selected."
