# SPDX-License-Identifier: Apache-2.0
"""Events keep everything between the core group and events.k8s.io."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.conversions.events import to_core, to_events
from kubeloop.api.generated import core_v1, events_v1

TEXTS = st.sampled_from(["", "a", "b"])
EVENTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"metadata": st.just({"name": "e", "namespace": "n"}), "involvedObject": st.just({"kind": "Pod", "name": "p"})},
    optional={
        "action": TEXTS,
        "count": st.integers(0, 5),
        "eventTime": st.just("2026-01-31T09:30:00.000001Z"),
        "firstTimestamp": st.just("2026-01-31T09:30:00Z"),
        "lastTimestamp": st.just("2026-01-31T09:30:01Z"),
        "message": TEXTS,
        "reason": TEXTS,
        "related": st.just({"kind": "Node", "name": "x"}),
        "reportingComponent": TEXTS,
        "reportingInstance": TEXTS,
        "series": st.just({"count": 3, "lastObservedTime": "2026-01-31T09:30:00.000001Z"}),
        "source": st.just({"component": "c", "host": "h"}),
        "type": TEXTS,
    },
)


def test_fields_are_renamed() -> None:
    core = codec.from_plain(
        {
            "involvedObject": {"name": "p"},
            "message": "m",
            "reportingComponent": "r",
            "source": {"host": "h"},
            "count": 2,
            "firstTimestamp": "2026-01-31T09:30:00Z",
        },
        core_v1.Event,
    )
    shown = codec.to_plain(to_events(core))
    assert shown["apiVersion"] == "events.k8s.io/v1"
    assert shown["regarding"] == {"name": "p"}
    assert (shown["note"], shown["reportingController"]) == ("m", "r")
    assert (shown["deprecatedSource"], shown["deprecatedCount"]) == ({"host": "h"}, 2)
    assert shown["deprecatedFirstTimestamp"] == "2026-01-31T09:30:00Z"


@settings(max_examples=50)
@given(EVENTS)
def test_event_round_trips(document: dict[str, Any]) -> None:
    core = codec.from_plain(document, core_v1.Event)
    shown = to_events(core)
    assert isinstance(shown, events_v1.Event)
    assert to_core(shown) == core
    assert to_events(to_core(shown)) == shown
