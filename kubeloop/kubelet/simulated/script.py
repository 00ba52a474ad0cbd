# SPDX-License-Identifier: Apache-2.0
"""Directions for simulated containers in annotations of their pod.

All annotations begin with `sim.kubeloop.io/`; one that ends in `.CONTAINER` applies to that container only and takes
precedence.

    start-delay: 2s           delay before the container runs, as if its image had to be pulled
    start-error: ErrImagePull the container does not start, for this reason; `start-error-message` is the message
    exit-after: 10s           it exits after this time …
    exit-code: "1"            … with this code; without exit-after: at once
    exit-reason: OOMKilled    reason in its status
    termination-message: text its termination message
    stop-delay: 5s            time it takes to stop
    stop-code: "143"          its exit code when stopped (0 by default)
    fail-startup, fail-liveness, fail-readiness: 10s-20s,30s-
                              intervals after its start in which a probe fails; `always`
    fail-post-start: refused  error of its postStart hook
    fail-pre-stop: refused    error of its preStop hook
    resize-delay: 5s          time until a resize takes effect
    cpu, memory: 250m, 64Mi   its usage
    storage: 1Gi              bytes written to its node's disk
    log: text                 output at its start
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from kubeloop.api.generated.core_v1 import Container, Probe
from kubeloop.api.scalars.duration import SECOND, DurationError, parse_duration
from kubeloop.api.scalars.quantity import Quantity, QuantityError, parse_quantity
from kubeloop.kubelet.runtime import ContainerUsage, ProbeKind, ProbeResult

PREFIX = "sim.kubeloop.io/"
DIRECTIONS = frozenset(
    {
        *("start-delay", "start-error", "start-error-message"),
        *("exit-after", "exit-code", "exit-reason", "stop-delay", "stop-code", "resize-delay", "termination-message"),
        *(
            "fail-startup",
            "fail-liveness",
            "fail-readiness",
            "fail-post-start",
            "fail-pre-stop",
            "cpu",
            "memory",
            "storage",
            "log",
        ),
    }
)

Interval = tuple[float, float | None]  # seconds after the start; None for no end
# Usage of a container without requests.
_DEFAULT_CPU = Quantity.of_milli(1)
_DEFAULT_MEMORY = Quantity.of(16 * 2**20)
_ALWAYS_SUCCESS = ProbeResult(True, is_valid_forever=True)


class Script:
    """Directions for one container."""

    __slots__ = ("_annotations", "_container", "_rules")

    def __init__(
        self, annotations: Mapping[str, str], container: str, rules: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Use annotations first, then the rules of a stage file, which are keyed without the prefix."""
        self._annotations = annotations
        self._container = container
        self._rules = rules

    def text(self, key: str) -> str:
        """Return a direction; empty without any."""
        own = self._annotations.get(f"{PREFIX}{key}.{self._container}")
        if own is None:
            own = self._annotations.get(PREFIX + key)
        return own if own is not None else self._rules.get(key, "")

    def seconds(self, key: str) -> float | None:
        """Return a duration or a plain number of seconds; None if it is neither."""
        return parse_seconds(self.text(key))

    def number(self, key: str) -> int | None:
        """Return a non-negative integer, or None."""
        text = self.text(key)
        return int(text) if text.isdigit() else None

    def quantity(self, key: str) -> Quantity | None:
        """Return a quantity, or None."""
        text = self.text(key)
        try:
            return parse_quantity(text) if text else None
        except QuantityError:
            return None

    def intervals(self, key: str) -> tuple[Interval, ...]:
        """Return the intervals of a direction."""
        text = self.text(key)
        if not text:
            return ()
        if text in ("always", "true"):
            return ((0.0, None),)
        return tuple(one for part in text.split(",") if (one := _interval(part)) is not None)


def has_directions(annotations: Mapping[str, str]) -> bool:
    """Return True if there are any directions; most pods have none."""
    return any(key.startswith(PREFIX) for key in annotations)


def _interval(text: str) -> Interval | None:
    first, dash, last = text.strip().partition("-")
    begin = parse_seconds(first) if first else 0.0
    if begin is None or not dash:
        return None
    return begin, parse_seconds(last)


def parse_seconds(text: str) -> float | None:
    """Return the seconds of a duration or plain number; None if it is neither."""
    if not text:
        return None
    try:
        return float(text) if text.replace(".", "", 1).isdigit() else parse_duration(text) / SECOND
    except DurationError:
        return None


def simulated_usage(container: Container, script: Script | None) -> ContainerUsage:
    """Return the usage of a container: as in the script, else half of its requests."""
    cpu, memory = _used("cpu", container, script), _used("memory", container, script)
    storage = script.quantity("storage") if script is not None else None
    written = storage.value() if storage is not None else 0
    return ContainerUsage((cpu or _DEFAULT_CPU).nanos, (memory or _DEFAULT_MEMORY).value(), written)


def _used(name: str, container: Container, script: Script | None) -> Quantity | None:
    said = script.quantity(name) if script is not None else None
    if said is not None:
        return said
    requested = container.resources.requests.get(name)
    return Quantity(parse_quantity(requested).nanos // 2) if requested else None


def probe_container(
    kind: ProbeKind, probe: Probe, script: Script | None, started_at: datetime, now: datetime
) -> ProbeResult:
    """Return the result now, and until when it is valid: success, except where the script says otherwise."""
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
    return ProbeResult(True, valid_until=started_at + timedelta(seconds=turn))


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
