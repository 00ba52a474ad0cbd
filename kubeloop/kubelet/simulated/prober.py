"""Probe results of simulated containers: success, except where the script says otherwise. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from kubeloop.api.generated.core_v1 import Probe
from kubeloop.kubelet.runtime import ProbeKind, ProbeResult
from kubeloop.kubelet.simulated.script import Interval, Script

_ALWAYS_SUCCESS = ProbeResult(True, holds_forever=True)


def probe_container(
    kind: ProbeKind, probe: Probe, script: Script | None, started_at: datetime, now: datetime
) -> ProbeResult:
    """Return the result now, and until when it is valid."""
    failing = script.intervals(f"fail-{kind}") if script is not None else ()
    if not failing:
        return _ALWAYS_SUCCESS
    elapsed = (now - started_at).total_seconds()
    fails = any(begin <= elapsed and (end is None or elapsed < end) for begin, end in failing)
    if fails:  # each failure is reported, so each probe is run
        return ProbeResult(False, _failure_output(probe))
    turn = _next_edge(failing, elapsed)
    if turn is None:
        return _ALWAYS_SUCCESS
    return ProbeResult(True, holds_until=started_at + timedelta(seconds=turn))


def _next_edge(intervals: tuple[Interval, ...], elapsed: float) -> float | None:
    edges = [edge for interval in intervals for edge in interval if edge is not None and edge > elapsed]
    return min(edges, default=None)


def _failure_output(probe: Probe) -> str:
    """Return the kubelet's output for the most common failure of a probe."""
    if probe.http_get is not None:
        return "HTTP probe failed with statuscode: 500"
    if probe.grpc is not None:
        return 'service unhealthy (responded with "NOT_SERVING")'
    if probe.tcp_socket is not None:
        return f"dial tcp: connect to port {probe.tcp_socket.port}: connection refused"
    return ""
