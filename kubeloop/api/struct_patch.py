# SPDX-License-Identifier: Apache-2.0
"""Strategic merge patches that also yield the patched struct, so that in-process writes skip encoding and merging."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop.api.scalars.times import format_micro_time
from kubeloop.api.scalars.wire import MicroTime

if TYPE_CHECKING:
    from kubeloop.api.generated.coordination_v1 import LeaseSpec


class StructPatch:
    """Strategic merge patch of one part of an object; no abstract class, because every call tests for it."""

    part: str
    uid: str  # of the patched object; empty for any object of the name

    @property
    def document(self) -> dict[str, Any]:
        """Patch as it appears on the wire."""
        raise NotImplementedError

    def apply_to(self, present: Any) -> Any | None:
        """Return the patched part as a struct; None if the patch requires a generic merge."""
        raise NotImplementedError


class LeaseRenewalPatch(StructPatch):
    """Patch that renews a lease: only renewTime changes, every few seconds, for thousands of nodes."""

    part = "spec"
    uid = ""

    def __init__(self, now: datetime) -> None:
        self.renew_time = MicroTime(format_micro_time(now))

    @property
    def document(self) -> dict[str, Any]:
        """Body of the patch."""
        return {"spec": {"renewTime": self.renew_time}}

    def apply_to(self, present: LeaseSpec) -> LeaseSpec:
        """Return the spec with the new renewTime."""
        return msgspec.structs.replace(present, renew_time=self.renew_time)
