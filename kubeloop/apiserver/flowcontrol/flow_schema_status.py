# SPDX-License-Identifier: Apache-2.0
"""Dangling condition of FlowSchemas: says if the named priority level exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from kubeloop.api.meta import object_meta
from kubeloop.apiserver.flowcontrol.config import FlowSchemaConfig
from kubeloop.apiserver.registry.internal_status import write_status
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.clock import Clock
from kubeloop.store import Record

_DANGLING = "Dangling"
_NAMED = "This FlowSchema references the PriorityLevelConfiguration object named"


class DanglingConditions:
    """Maintains the Dangling condition of all FlowSchemas in one server's store."""

    def __init__(self, registry: StorageRegistry, clock: Clock) -> None:
        self._storage = registry.storage_named("flowcontrol.apiserver.k8s.io", "v1", "flowschemas")
        self._clock = clock

    def reconcile(self, schemas: Sequence[FlowSchemaConfig], levels: set[str]) -> None:
        """Correct the conditions that are wrong; only these objects are fully decoded and written."""
        for schema in schemas:
            record = self._storage.peek("", schema.metadata.name)
            if record is not None and not _has_condition(record, schema.level, schema.level in levels):
                self._write_condition(record, schema.level, schema.level in levels)

    def _write_condition(self, record: Record, level: str, found: bool) -> None:
        from kubeloop.api.generated.flowcontrol_v1 import FlowSchemaCondition

        now = object_meta.time_of(self._clock.now())
        status, reason, message = dangling_condition_text(level, found)

        def corrected(schema: Any) -> Any:
            others = tuple(one for one in schema.status.conditions if one.type != _DANGLING)
            before = next((one for one in schema.status.conditions if one.type == _DANGLING), None)
            since = before.last_transition_time if before is not None and before.status == status else now
            condition = FlowSchemaCondition(
                type=_DANGLING, status=status, reason=reason, message=message, last_transition_time=since
            )
            return replace(schema, status=replace(schema.status, conditions=(*others, condition)))

        write_status(self._storage, record, corrected, self._clock)


def dangling_condition_text(level: str, found: bool) -> tuple[str, str, str]:
    """Return status, reason and message of the condition."""
    if found:
        return "False", "Found", f'{_NAMED} "{level}" and it exists'
    return "True", "NotFound", f'{_NAMED} "{level}" but there is no such object'


def _has_condition(record: Record, level: str, found: bool) -> bool:
    """Return True if the bytes contain the right message already; it occurs nowhere else in a FlowSchema."""
    message = dangling_condition_text(level, found)[2].replace('"', '\\"')
    return message.encode() in record.value
