"""Patch that renews a node's lease: only renewTime changes, every few seconds, for thousands of nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from kubeloop.api.generated.coordination_v1 import LeaseSpec
from kubeloop.api.scalars.times import format_micro_time
from kubeloop.api.scalars.wire import MicroTime
from kubeloop.api.struct_patch import StructPatch


class LeaseRenewalPatch(StructPatch):
    """Patch of a lease."""

    part = "spec"
    uid = ""

    def __init__(self, now: datetime) -> None:
        self._time = MicroTime(format_micro_time(now))

    @property
    def document(self) -> dict[str, Any]:
        """Body of the patch."""
        return {"spec": {"renewTime": self._time}}

    def laid_over(self, present: LeaseSpec) -> LeaseSpec:
        """Return the spec with the new renewTime."""
        return msgspec.structs.replace(present, renew_time=self._time)
