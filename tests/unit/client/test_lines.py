# SPDX-License-Identifier: Apache-2.0
"""Watch events from bytes, however those are cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.kinds import Resource
from kubeloop.api.requests import Call
from kubeloop.api.unstructured import Unstructured
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.errors import ProtocolError
from kubeloop.client.http.lines import WatchDecoder
from kubeloop.client.interner import Interner

NODES = Call(verb="watch", resource=resource_of_class(Node))
WIDGETS = Call(verb="watch", resource=Resource("example.com", "v1", "widgets", "Widget"))
LINES = (
    '{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"é","resourceVersion":"1"}}}\n'
    '{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"2"}}}\n'
    '{"type":"DELETED","object":{"metadata":{"name":"日本","resourceVersion":"3"}}}\n'
).encode()


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(LINES)), max_size=6))
def test_events_do_not_depend_on_chunk_boundaries(cuts: list[int]) -> None:
    lines, events = WatchDecoder(NODES, Interner()), []
    edges = [0, *sorted(cuts), len(LINES)]
    for start, end in pairwise(edges):
        events += lines.feed(LINES[start:end])
    assert [(one.type, one.resource_version) for one in events] == [("ADDED", "1"), ("BOOKMARK", "2"), ("DELETED", "3")]
    assert [one.object and one.object.metadata.name for one in events] == ["é", None, "日本"]
    assert lines.is_between_events


def test_custom_resources_are_mappings_with_metadata() -> None:
    line = b'{"type":"ADDED","object":{"kind":"Widget","metadata":{"name":"w","resourceVersion":"4"},"spec":{"n":1}}}\n'
    (event,) = WatchDecoder(WIDGETS, Interner()).feed(line)
    assert isinstance(event.object, Unstructured)
    assert (event.object["spec"], event.object.metadata.name, event.resource_version) == ({"n": 1}, "w", "4")


@pytest.mark.parametrize(
    "line",
    [b"nonsense\n", b'{"type":"ODD","object":{}}\n', b'{"type":"ADDED"}\n', b'{"type":"ADDED","object":{"spec":7}}\n'],
)
def test_invalid_event_is_reported(line: bytes) -> None:
    with pytest.raises(ProtocolError, match="the watch sent"):
        WatchDecoder(NODES, Interner()).feed(line)
