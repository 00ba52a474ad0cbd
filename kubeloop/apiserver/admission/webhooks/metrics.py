"""What webhooks cost and refuse, under upstream's names, in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25)
_PREFIX: Final = "apiserver_admission_webhook_"
_HIGHEST_CODE: Final = 600


class _Durations:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS) + 1)
        self.total = 0.0


class WebhookMetrics:
    """Of one server; `kind` is "admit" for those that change, "validating" for those that only refuse."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, str, str, str]] = Counter()
        self._rejections: Counter[tuple[str, str, str, str, str]] = Counter()
        self._ignored: Counter[tuple[str, str]] = Counter()
        self._durations: dict[tuple[str, str, str, str], _Durations] = {}

    def called(self, name: str, kind: str, operation: str, code: int, seconds: float, *, rejected: bool) -> None:
        told = "true" if rejected else "false"
        self._requests[name, kind, operation, str(min(code, _HIGHEST_CODE)), told] += 1
        found = self._durations.setdefault((name, kind, operation, told), _Durations())
        found.counts[bisect_left(_BUCKETS, seconds)] += 1
        found.total += seconds

    def rejected(self, name: str, kind: str, operation: str, error_type: str, code: int) -> None:
        self._rejections[name, kind, operation, error_type, str(min(code, _HIGHEST_CODE))] += 1

    def ignored(self, name: str, kind: str) -> None:
        """A call that failed, and was forgiven."""
        self._ignored[name, kind] += 1

    def lines(self) -> Iterator[str]:
        """Nothing at all, as long as there was no call."""
        if not self._requests:
            return
        labels = ("name", "type", "operation", "code", "rejected")
        yield from _counters("request_total", labels, self._requests)
        labels = ("name", "type", "operation", "error_type", "rejection_code")
        yield from _counters("rejection_count", labels, self._rejections)
        yield from _counters("fail_open_count", ("name", "type"), self._ignored)
        yield f"# TYPE {_PREFIX}admission_duration_seconds histogram"
        for key, durations in self._durations.items():
            yield from _histogram(_labels(("name", "type", "operation", "rejected"), key), durations)


def _counters(name: str, labels: tuple[str, ...], counted: Mapping[Any, int]) -> Iterator[str]:
    yield f"# TYPE {_PREFIX}{name} counter"
    for key, count in counted.items():
        yield f"{_PREFIX}{name}{{{_labels(labels, key)}}} {count}"


def _histogram(labels: str, durations: _Durations) -> Iterator[str]:
    name, running = f"{_PREFIX}admission_duration_seconds", 0
    for bound, count in zip((*_BUCKETS, "+Inf"), durations.counts, strict=True):
        running += count
        yield f'{name}_bucket{{{labels},le="{bound}"}} {running}'
    yield f"{name}_sum{{{labels}}} {durations.total}"
    yield f"{name}_count{{{labels}}} {running}"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in zip(names, values, strict=True))
