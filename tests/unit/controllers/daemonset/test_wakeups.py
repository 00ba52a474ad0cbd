"""What wakes a set at once, and what is mostly the echo of its own words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubeloop.api.generated.apps_v1 import DaemonSet, DaemonSetSpec, DaemonSetStatus
from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry, ObjectMeta
from kubeloop.controllers.daemonset.wakeups import is_not_status_only, is_status_only

BEFORE = DaemonSet(metadata=ObjectMeta(name="a", uid="u", resource_version="1"))


def later(**metadata: Any) -> DaemonSet:
    """As after a write of the status."""
    meta = replace(BEFORE.metadata, **{"resource_version": "2", "managed_fields": (ManagedFieldsEntry(),), **metadata})
    return replace(BEFORE, metadata=meta, status=DaemonSetStatus(number_ready=1))


def test_a_status_that_changes_is_told_apart() -> None:
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
def test_everything_else_wakes_a_set_at_once(old: Any, new: Any) -> None:
    assert is_not_status_only(old, new)
