"""What a pod's annotations make simulated containers do.

All begin with `sim.kubeloop.io/`; one that ends in `.CONTAINER` is about that container alone, and comes first.

    start-delay: 2s           until the container runs, as if its image had to be pulled
    start-error: ErrImagePull the container doesn't start, for this reason; `start-error-message` says more
    exit-after: 10s           it ends by itself after so long …
    exit-code: "1"            … with this code; alone: at once
    exit-reason: OOMKilled    what its status then says
    termination-message: text what it leaves as its last words
    stop-delay: 5s            how long it takes to end when it is told to
    stop-code: "143"          the code it then ends with (0 unless this is given)
    fail-startup, fail-liveness, fail-readiness: 10s-20s,30s-
                              when a probe fails, counted from the container's start; `always`
    fail-post-start: refused  why its postStart hook fails
    fail-pre-stop: refused    why its preStop hook fails
    resize-delay: 5s          how long it takes to get other resources
    cpu, memory: 250m, 64Mi   what it uses
    storage: 1Gi              what it has written to its node's disk
    log: text                 what it writes when it starts
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kubeloop.api.scalars.duration import SECOND, DurationError, parse_duration
from kubeloop.api.scalars.quantity import Quantity, QuantityError, parse_quantity

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

Interval = tuple[float, float | None]  # seconds after the start; without an end, for ever


class Script:
    """The directions for one container."""

    __slots__ = ("_annotations", "_container", "_rules")

    def __init__(
        self, annotations: Mapping[str, str], container: str, rules: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """The rules are what a stage file says, without the prefix."""
        self._annotations = annotations
        self._container = container
        self._rules = rules

    def text(self, key: str) -> str:
        own = self._annotations.get(f"{PREFIX}{key}.{self._container}")
        if own is None:
            own = self._annotations.get(PREFIX + key)
        return own if own is not None else self._rules.get(key, "")

    def seconds(self, key: str) -> float | None:
        """A duration, or a bare number of seconds; None for what can't be understood."""
        return seconds_of(self.text(key))

    def number(self, key: str) -> int | None:
        text = self.text(key)
        return int(text) if text.isdigit() else None

    def quantity(self, key: str) -> Quantity | None:
        text = self.text(key)
        try:
            return parse_quantity(text) if text else None
        except QuantityError:
            return None

    def intervals(self, key: str) -> tuple[Interval, ...]:
        """When something is the case."""
        text = self.text(key)
        if not text:
            return ()
        if text in ("always", "true"):
            return ((0.0, None),)
        return tuple(one for part in text.split(",") if (one := _interval(part)) is not None)


def is_scripted(annotations: Mapping[str, str]) -> bool:
    """Whether there are any directions at all; most pods have none, and need no looking."""
    return any(key.startswith(PREFIX) for key in annotations)


def _interval(text: str) -> Interval | None:
    first, dash, last = text.strip().partition("-")
    begin = seconds_of(first) if first else 0.0
    if begin is None or not dash:
        return None
    return begin, seconds_of(last)


def seconds_of(text: str) -> float | None:
    """A duration, or a bare number; None for what is neither."""
    if not text:
        return None
    try:
        return float(text) if text.replace(".", "", 1).isdigit() else parse_duration(text) / SECOND
    except DurationError:
        return None
