# SPDX-License-Identifier: Apache-2.0
"""Tests of the patch of a node's status: the struct must be what a strategic merge of the document yields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, NodeCondition, NodeStatus
from kubeloop.api.patch import apply_strategic_merge_patch
from kubeloop.api.scalars.wire import Time
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.kubelet.node_status.registration import node_conditions
from kubeloop.kubelet.node_status.status_patch import NodeStatusPatch

_TYPES = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "NetworkUnavailable")
_TIME = Time("2030-01-01T00:00:00Z")
_OTHER_TIME = Time("2029-01-01T00:00:00Z")


def _condition(type: str, status: str, reason: str, message: str, time: Time | None) -> NodeCondition:
    return NodeCondition(
        type=type,
        status=status,
        reason=reason,
        message=message,
        last_heartbeat_time=time,
        last_transition_time=time,
    )


_CONDITIONS = st.lists(
    st.builds(
        _condition,
        st.sampled_from(_TYPES),
        st.sampled_from(["True", "False"]),
        st.sampled_from(["", "Reason"]),
        st.sampled_from(["", "message"]),
        st.sampled_from([None, _TIME, _OTHER_TIME]),
    ),
    max_size=5,
    unique_by=lambda one: one.type,
).map(tuple)
_OTHERS = st.sampled_from([{}, {"images": [{"names": ["a"], "sizeBytes": 1}]}])
_VOLUMES = st.sampled_from([None, (), ("v1",), ("v1", "v2")])


def _merged(present: NodeStatus, patch: NodeStatusPatch) -> NodeStatus:
    node = Node(status=present)
    schema = resource_of_class(Node).schema_node
    merged = apply_strategic_merge_patch(codec.to_plain(node), codec.to_plain(patch.document), schema)
    status: NodeStatus = codec.from_plain(merged, Node).status
    return status


@given(_CONDITIONS, _CONDITIONS, _VOLUMES, _VOLUMES, _OTHERS)
def test_patched_struct_is_that_of_a_strategic_merge(
    before: tuple[NodeCondition, ...],
    after: tuple[NodeCondition, ...],
    used: tuple[str, ...] | None,
    uses: tuple[str, ...] | None,
    others: dict[str, Any],
) -> None:
    present = NodeStatus(conditions=before, volumes_in_use=used or ())
    patch = NodeStatusPatch(after, uses, others)
    found = patch.apply_to(present)
    assert found is None or found == _merged(present, patch)


def test_report_of_a_kubelet_needs_no_merge() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    own = node_conditions((), (), now)
    foreign = _condition("NetworkUnavailable", "False", "RouteCreated", "route", _TIME)
    present = NodeStatus(conditions=(*own, foreign))
    later = node_conditions(("MemoryPressure",), own, now.replace(minute=5))
    found = NodeStatusPatch(later).apply_to(present)
    assert found is not None
    assert found.conditions == (*later, foreign)
