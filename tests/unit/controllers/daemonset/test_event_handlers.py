# SPDX-License-Identifier: Apache-2.0
"""Tests of events that enqueue a DaemonSet immediately, and of its own status writes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import DaemonSet, DaemonSetSpec, DaemonSetStatus
from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry, ObjectMeta
from kubeloop.controllers.daemonset.event_handlers import is_not_status_only, is_status_only

BEFORE = DaemonSet(metadata=ObjectMeta(name="a", uid="u", resource_version="1"))


def later(**metadata: Any) -> DaemonSet:
    """Return the set as after a status write."""
    meta = replace(BEFORE.metadata, **{"resource_version": "2", "managed_fields": (ManagedFieldsEntry(),), **metadata})
    return replace(BEFORE, metadata=meta, status=DaemonSetStatus(number_ready=1))


def test_relevant_status_changes_are_detected() -> None:
    assert is_status_only(BEFORE, later())
    assert not is_not_status_only(BEFORE, later())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, BEFORE),
        (BEFORE, None),
        (BEFORE, later(labels={"a": "b"})),
        (BEFORE, later(generation=2)),
        (BEFORE, replace(later(), spec=DaemonSetSpec(min_ready_seconds=5))),
        (BEFORE, replace(later(), status=DaemonSetStatus(collision_count=1))),
    ],
)
def test_other_changes_enqueue_immediately(old: Any, new: Any) -> None:
    assert is_not_status_only(old, new)
