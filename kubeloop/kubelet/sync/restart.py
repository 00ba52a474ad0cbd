"""Restart policy and back-off of terminated containers. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from kubeloop.api.generated.core_v1 import Container, ContainerRestartRule, Pod, PodSpec
from kubeloop.kubelet.runtime import Run

FIRST_DELAY = 10.0
LONGEST_DELAY = 300.0
# The back-off is reset for a container that exits later than this after the last increase.
RESET_AFTER = 2 * LONGEST_DELAY
CRASH_LOOP = "CrashLoopBackOff"
RESTART_ALL = "RestartAllContainers"
RESTARTING_ALL = "RestartingAllContainers"  # reason of containers terminated by that


def restarts(container: Container, spec: PodSpec, exit_code: int) -> bool:
    """Return True if a container of a running pod is restarted after it exited with this code."""
    if container.restart_policy is not None:
        if any(_applies(rule, exit_code) for rule in container.restart_policy_rules):
            return True
        return _by_policy(container.restart_policy, exit_code)
    return _by_policy(spec.restart_policy, exit_code)


def restarts_after_kill(container: Container, spec: PodSpec) -> bool:
    """Return True if a container killed by a probe is restarted; rules do not apply without an exit code."""
    return (container.restart_policy or spec.restart_policy) != "Never"


def should_run(container: Container, pod: Pod, last: Run | None) -> bool:
    """Return True if a container that does not run should be started."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if last is None:
        return True
    return last.state == "exited" and (last.put_aside or restarts(container, pod.spec, last.exit_code))


def restarts_all(container: Container, exit_code: int) -> bool:
    """Return True if the exit of a container restarts all containers of its pod, including init containers."""
    found = next((rule for rule in container.restart_policy_rules if _applies(rule, exit_code)), None)
    return found is not None and found.action == RESTART_ALL


def may_restart_all(pod: Pod) -> bool:
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


class BackOff(msgspec.Struct, frozen=True):
    """Restart back-off: its delay, and when it was last increased."""

    delay: float
    raised_at: datetime

    def ends(self, finished_at: datetime) -> datetime | None:
        """Return the end of the back-off after an exit; None if it was reset."""
        if finished_at - self.raised_at > timedelta(seconds=RESET_AFTER):
            return None
        return finished_at + timedelta(seconds=self.delay)


def raised(before: BackOff | None, finished_at: datetime, now: datetime) -> BackOff:
    """Return the back-off after a start: the first failure has no delay, the next one has this one."""
    if before is None or before.ends(finished_at) is None:
        return BackOff(FIRST_DELAY, now)
    return BackOff(min(before.delay * 2, LONGEST_DELAY), now)
