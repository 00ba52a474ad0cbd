"""How a pod ends: why, with how much grace, and what goes first. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from kubeloop.api.generated.core_v1 import Container, Pod, Probe
from kubeloop.api.scalars.times import parse_time
from kubeloop.kubelet.runtime import Observation, Run
from kubeloop.kubelet.sync.containers import ephemeral_of, one_shots_of, regular_of, sidecars_of
from kubeloop.kubelet.sync.decision import Decision, Kill
from kubeloop.kubelet.sync.pod_state import Memory, Verdict

TERMINAL = ("Succeeded", "Failed")
DEFAULT_GRACE = 30.0
# Upstream always gives containers so long to end, whatever grace is left.
LEAST_GRACE = 2.0
DEADLINE_EXCEEDED = Verdict("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


class Ending(NamedTuple):
    """How much time containers have, and whether that is less than they were told before."""

    grace: float
    is_sooner: bool


def is_to_end(pod: Pod) -> bool:
    """Whether somebody has said that a pod must no longer run."""
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in TERMINAL


def is_over_deadline(pod: Pod, memory: Memory, now: datetime, decision: Decision) -> bool:
    """Whether a pod has been active for too long; if it will be, the decision wakes then."""
    if pod.spec.active_deadline_seconds is None or is_to_end(pod):
        return False
    deadline = parse_time(memory.met_at) + timedelta(seconds=pod.spec.active_deadline_seconds)
    if now < deadline:
        decision.wake(deadline)
    return now >= deadline


def end(pod: Pod, seen: Observation, memory: Memory, now: datetime, decision: Decision) -> None:
    """End what runs; sidecars once everything that may need them is over, the last one first.

    The hooks of sidecars begin with the others'; when their turn comes, they have what is left of the grace.
    """
    why = decision.verdict or memory.verdict
    grace = grace_of(pod) if why is None or why.grace is None else why.grace
    sooner = memory.grace is None or grace < memory.grace
    first = (*regular_of(pod), *one_shots_of(pod), *ephemeral_of(pod))
    _stop(first, seen, Ending(grace, sooner), decision)
    sidecars = [one for one in reversed(sidecars_of(pod)) if is_alive(seen.last(one.name))]
    if any(is_alive(seen.last(one.name)) for one in first):
        _warn(sidecars, seen, grace, decision)
    elif sidecars:
        past = (now - memory.told_at).total_seconds() if memory.told_at is not None else 0.0
        _warn(sidecars[1:], seen, grace, decision)
        _stop(sidecars[:1], seen, Ending(max(grace - past, LEAST_GRACE), sooner), decision)
    else:
        decision.ended = True


def grace_of(pod: Pod, probe: Probe | None = None) -> float:
    """How long a container may take to end: as who deletes the pod says, or the probe that failed, or the pod."""
    own = pod.metadata.deletion_grace_period_seconds
    if own is None and probe is not None:
        own = probe.termination_grace_period_seconds
    if own is None:
        own = pod.spec.termination_grace_period_seconds
    return DEFAULT_GRACE if own is None else max(float(own), LEAST_GRACE)


def is_alive(run: Run | None) -> bool:
    return run is not None and run.state != "exited"


def _warn(containers: Iterable[Container], seen: Observation, grace: float, decision: Decision) -> None:
    """Begin the hooks of containers whose turn to end has yet to come."""
    for container in containers:
        run, kill = seen.last(container.name), Kill(container, "", grace)
        if kill.hook is not None and run is not None and run.state == "running" and not (run.warned or run.stopping):
            decision.warnings.append(kill)


def _stop(containers: Iterable[Container], seen: Observation, ending: Ending, decision: Decision) -> None:
    """Tell containers to end; those that were told already, if they have less time now."""
    for container in containers:
        run = seen.last(container.name)
        if run is not None and run.state != "exited" and (ending.is_sooner or not run.stopping):
            decision.kills.append(Kill(container, f"Stopping container {container.name}", ending.grace))
            decision.grace = ending.grace
