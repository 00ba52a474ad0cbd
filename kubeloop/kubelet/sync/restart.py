"""Whether a container that has ended is started again, and how long it has to wait. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from kubeloop.api.generated.core_v1 import Container, ContainerRestartRule, Pod, PodSpec
from kubeloop.kubelet.runtime import Run

FIRST_DELAY = 10.0
LONGEST_DELAY = 300.0
# A container that failed no sooner than so long after its back-off was last raised begins anew.
RESET_AFTER = 2 * LONGEST_DELAY
CRASH_LOOP = "CrashLoopBackOff"
RESTART_ALL = "RestartAllContainers"
RESTARTING_ALL = "RestartingAllContainers"  # what a container has ended of that was taken away for that


def restarts(container: Container, spec: PodSpec, exit_code: int) -> bool:
    """Whether a container of a pod that is to run on is started again after it has ended with this code."""
    if container.restart_policy is not None:
        if any(_applies(rule, exit_code) for rule in container.restart_policy_rules):
            return True
        return _by_policy(container.restart_policy, exit_code)
    return _by_policy(spec.restart_policy, exit_code)


def restarts_after_kill(container: Container, spec: PodSpec) -> bool:
    """The same for a container that is ended because a probe failed: it has no code yet that rules could look at."""
    return (container.restart_policy or spec.restart_policy) != "Never"


def should_run(container: Container, pod: Pod, last: Run | None) -> bool:
    """Whether a container that doesn't run should be started."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if last is None:
        return True
    return last.state == "exited" and (last.put_aside or restarts(container, pod.spec, last.exit_code))


def restarts_all(container: Container, exit_code: int) -> bool:
    """Whether the end of a container makes all containers of its pod begin anew, init containers included."""
    found = next((rule for rule in container.restart_policy_rules if _applies(rule, exit_code)), None)
    return found is not None and found.action == RESTART_ALL


def may_restart_all(pod: Pod) -> bool:
    """Whether the end of any container could do that."""
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
    """How long a container waits after an end, and when that was last raised."""

    delay: float
    raised_at: datetime

    def ends(self, finished_at: datetime) -> datetime | None:
        """Until when a container that ended then has to wait; None if the past no longer counts."""
        if finished_at - self.raised_at > timedelta(seconds=RESET_AFTER):
            return None
        return finished_at + timedelta(seconds=self.delay)


def raised(before: BackOff | None, finished_at: datetime, now: datetime) -> BackOff:
    """The back-off after a start: the first failure costs nothing, the next one this."""
    if before is None or before.ends(finished_at) is None:
        return BackOff(FIRST_DELAY, now)
    return BackOff(min(before.delay * 2, LONGEST_DELAY), now)
