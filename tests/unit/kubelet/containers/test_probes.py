# SPDX-License-Identifier: Apache-2.0
"""Records of probes: results count, errors do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from kubeloop.api.generated.core_v1 import Container, Pod, Probe
from kubeloop.kubelet.containers.probes import DueProbe, ProbeRecord, update_record
from kubeloop.kubelet.events.pod_events import PodEvents
from kubeloop.kubelet.runtime import ContainerRun, ProbeResult

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = ContainerRun(container="c", id="r", attempt=0, image="", image_id="", state="running", created_at=NOW)
DUE = DueProbe(Container(name="c"), RUN, "liveness", Probe(period_seconds=7, failure_threshold=2), NOW)


@pytest.mark.parametrize("before", [None, ProbeRecord(run="r", result=True, last_result=False, result_run=1)])
def test_error_changes_no_result_and_no_count(before: ProbeRecord | None) -> None:
    after = update_record(before, DUE, ProbeResult(False, "down", is_error=True), NOW)
    expected = before or ProbeRecord(run="r")
    assert after == msgspec.structs.replace(expected, next_at=NOW + timedelta(seconds=7))


class Events:
    """Reasons and messages of events."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def event(self, obj: object, type: str, reason: str, message: str, **others: object) -> None:
        """Record an event."""
        self.seen.append((reason, message))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ProbeResult(True, "fine"), []),
        (ProbeResult(True, "away", is_warning=True), [("ProbeWarning", "Liveness probe warning: away")]),
        (ProbeResult(False, "no"), [("Unhealthy", "Liveness probe failed: no")]),
        (
            ProbeResult(False, "down", is_error=True),
            [("Unhealthy", "Liveness probe errored and resulted in unknown state: down")],
        ),
    ],
)
def test_events_of_probes(answer: ProbeResult, expected: list[tuple[str, str]]) -> None:
    events = Events()
    PodEvents(events, "all").record_probe(Pod(), DUE, answer)
    assert events.seen == expected
