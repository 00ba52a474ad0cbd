# SPDX-License-Identifier: Apache-2.0
"""Restart policy and back-off of terminated containers. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from kubeloop.api.generated.core_v1 import Container, ContainerRestartRule, Pod, PodSpec
from kubeloop.kubelet.runtime import ContainerRun

INITIAL_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 300.0
# The back-off is reset for a container that exits later than this after the last increase.
BACKOFF_RESET_SECONDS = 2 * MAX_BACKOFF_SECONDS
CRASH_LOOP = "CrashLoopBackOff"
RESTART_ALL = "RestartAllContainers"
RESTARTING_ALL = "RestartingAllContainers"  # reason of containers terminated by that


def should_restart(container: Container, spec: PodSpec, exit_code: int) -> bool:
    """Return True if a container of a running pod is restarted after it exited with this code."""
    if container.restart_policy is not None:
        if any(_applies(rule, exit_code) for rule in container.restart_policy_rules):
            return True
        return _by_policy(container.restart_policy, exit_code)
    return _by_policy(spec.restart_policy, exit_code)


def should_restart_after_kill(container: Container, spec: PodSpec) -> bool:
    """Return True if a container killed by a probe is restarted; rules do not apply without an exit code."""
    return (container.restart_policy or spec.restart_policy) != "Never"


def should_start(container: Container, pod: Pod, last: ContainerRun | None) -> bool:
    """Return True if a container that does not run should be started."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if last is None:
        return True
    return last.state == "exited" and (last.is_reset or should_restart(container, pod.spec, last.exit_code))


def should_restart_all(container: Container, exit_code: int) -> bool:
    """Return True if the exit of a container restarts all containers of its pod, including init containers."""
    found = next((rule for rule in container.restart_policy_rules if _applies(rule, exit_code)), None)
    return found is not None and found.action == RESTART_ALL


def can_restart_all(pod: Pod) -> bool:
    """Return True if the exit of any container could restart all containers."""
    containers = (*pod.spec.init_containers, *(pod.spec.containers or ()))
    return any(rule.action == RESTART_ALL for one in containers for rule in one.restart_policy_rules)


def _by_policy(policy: str, exit_code: int) -> bool:
    if policy == "OnFailure":
        return exit_code != 0
    return policy != "Never"


def _applies(rule: ContainerRestartRule, exit_code: int) -> bool:
    codes = rule.exit_codes
    if codes is None or rule.action not in ("Restart", RESTART_ALL):
        return False
    return (exit_code in codes.values) == (codes.operator == "In")


class RestartBackOff(msgspec.Struct, frozen=True):
    """Restart back-off: its delay, and when it was last increased."""

    delay: float
    raised_at: datetime

    def expiration(self, finished_at: datetime) -> datetime | None:
        """Return the end of the back-off after an exit; None if it was reset."""
        if finished_at - self.raised_at > timedelta(seconds=BACKOFF_RESET_SECONDS):
            return None
        return finished_at + timedelta(seconds=self.delay)


def next_backoff(
    before: RestartBackOff | None, finished_at: datetime, now: datetime, longest: float = MAX_BACKOFF_SECONDS
) -> RestartBackOff:
    """Return the back-off after a start: the first failure has no delay, the next one has this one."""
    if before is None or before.expiration(finished_at) is None:
        return RestartBackOff(min(INITIAL_BACKOFF_SECONDS, longest), now)
    return RestartBackOff(min(before.delay * 2, longest), now)
