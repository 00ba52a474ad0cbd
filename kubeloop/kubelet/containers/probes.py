# SPDX-License-Identifier: Apache-2.0
"""Probe results of containers, and their update by a new result. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod, Probe
from kubeloop.kubelet.runtime import ContainerRun, ProbeKind, ProbeResult


class ProbeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """State of one probe for one run."""

    run: str
    result: bool | None = None  # result, once a threshold was reached
    last_result: bool | None = None
    result_run: int = 0  # consecutive results equal to the last
    next_at: datetime | None = None  # None: not probed any more in this run


ProbeRecords = Mapping[tuple[str, ProbeKind], ProbeRecord]
KINDS: tuple[ProbeKind, ...] = ("startup", "liveness", "readiness")


class DueProbe(msgspec.Struct, frozen=True):
    """Probe of a run with its due time."""

    container: Container
    run: ContainerRun
    kind: ProbeKind
    probe: Probe
    due_at: datetime


def initial_records(pod: Pod, now: datetime) -> ProbeRecords:
    """Return records of a pod that ran before this agent started; ready and started containers stay so at first."""
    records: dict[tuple[str, ProbeKind], ProbeRecord] = {}
    statuses = {one.name: one for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)}
    for container in (*pod.spec.init_containers, *(pod.spec.containers or ())):
        status = statuses.get(container.name)
        if status is None or status.state.running is None:
            continue
        if container.startup_probe is not None and status.started:
            records[container.name, "startup"] = ProbeRecord(run=status.container_id, result=True)
        if container.readiness_probe is not None and status.ready:
            records[container.name, "readiness"] = ProbeRecord(run=status.container_id, result=True, next_at=now)
    return records


def probe_of(container: Container, kind: ProbeKind) -> Probe | None:
    """Return the probe of a kind, or None."""
    if kind == "startup":
        return container.startup_probe
    return container.liveness_probe if kind == "liveness" else container.readiness_probe


def probe_result(records: ProbeRecords, container: Container, run: ContainerRun, kind: ProbeKind) -> bool | None:
    """Return the result of a probe for a run; None without any result or probe."""
    record = records.get((container.name, kind))
    return record.result if record is not None and record.run == run.id else None


def has_started(records: ProbeRecords, container: Container, run: ContainerRun | None) -> bool:
    """Return True if a run has passed its startup probe."""
    if run is None or run.state != "running":
        return False
    return container.startup_probe is None or probe_result(records, container, run, "startup") is True


def is_ready(records: ProbeRecords, container: Container, run: ContainerRun | None) -> bool:
    """Return True if a run has started and passed its readiness probe."""
    if run is None or not has_started(records, container, run):
        return False
    return container.readiness_probe is None or probe_result(records, container, run, "readiness") is True


def active_probes(records: ProbeRecords, pod: Pod, container: Container, run: ContainerRun) -> Iterator[DueProbe]:
    """Yield the active probes of a running container."""
    started = has_started(records, container, run)
    for kind in KINDS:
        probe = probe_of(container, kind)
        if probe is None or (kind == "startup") == started:
            continue
        if kind != "readiness" and pod.metadata.deletion_timestamp is not None:
            continue
        record = records.get((container.name, kind))
        if record is None or record.run != run.id:
            begin = run.started_at or run.created_at
            yield DueProbe(container, run, kind, probe, begin + timedelta(seconds=probe.initial_delay_seconds))
        elif record.next_at is not None:
            yield DueProbe(container, run, kind, probe, record.next_at)


def update_record(before: ProbeRecord | None, due: DueProbe, answer: ProbeResult, now: datetime) -> ProbeRecord:
    """Return the record after a probe result."""
    run, kind, probe = due.run, due.kind, due.probe
    if before is None or before.run != run.id:
        before = ProbeRecord(run=run.id)
    if answer.is_error:
        return msgspec.structs.replace(before, next_at=now + _period(probe))
    streak = before.result_run + 1 if before.last_result is answer.ok else 1
    needed = (probe.success_threshold if answer.ok else probe.failure_threshold) or 1
    reached = streak >= needed
    decided = answer.ok if reached else before.result
    over = reached and (kind == "startup" or (kind == "liveness" and not answer.ok))
    return ProbeRecord(
        run=run.id,
        result=decided,
        last_result=answer.ok,
        result_run=streak,
        next_at=None if over else _next(probe, answer, reached, now),
    )


def _next(probe: Probe, answer: ProbeResult, reached: bool, now: datetime) -> datetime | None:
    """Return the time of the next probe; a result known to stay valid is not probed before it may change."""
    period = _period(probe)
    if not reached:
        return now + period
    if answer.is_valid_forever:
        return None
    if answer.valid_until is None:
        return now + period
    periods = max(-((now - answer.valid_until) // period), 1)
    return now + periods * period


def _period(probe: Probe) -> timedelta:
    return timedelta(seconds=probe.period_seconds or 10)
