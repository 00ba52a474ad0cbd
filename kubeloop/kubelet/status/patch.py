"""Patch from the status last written or read to the status as it should be, and its result. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import PodCondition, PodStatus
from kubeloop.api.struct_patch import StructPatch
from kubeloop.kubelet.status.generate import (
    MERGED_LISTS,
    MERGED_MAPS,
    REPLACED_FIELDS,
    build_status_patch,
    merge_reported_status,
    removed_conditions,
)

_FIELDS = tuple(field for field, _ in (*REPLACED_FIELDS, *MERGED_LISTS, *MERGED_MAPS))


class KubeletStatusPatch(StructPatch):
    """Status patch; true if there is anything to write."""

    part = "status"

    def __init__(self, uid: str, before: PodStatus, after: PodStatus) -> None:
        self.uid = uid
        self._before = before
        self._after = after

    def __bool__(self) -> bool:
        before, after = self._before, self._after
        return (
            any(getattr(before, field) != getattr(after, field) for field in _FIELDS)
            or any(one not in before.conditions for one in after.conditions)
            or bool(removed_conditions(before.conditions, after.conditions))
        )

    @property
    def document(self) -> dict[str, Any]:
        """Body of the strategic merge patch."""
        return {"metadata": {"uid": self.uid}, "status": build_status_patch(self._before, self._after)}

    def laid_over(self, present: PodStatus) -> PodStatus | None:
        """Return the patched status; None if another client has changed it or conditions are removed.

        In these cases a real merge is required.
        """
        if present is not self._before and present != self._before:
            return None
        conditions = _merged_conditions(present.conditions, self._after.conditions)
        if conditions is None:
            return None
        said = {field: getattr(self._after, field) for field in _FIELDS}
        return msgspec.structs.replace(present, **said, conditions=conditions)

    @property
    def outcome(self) -> PodStatus:
        """Status after the patch was applied."""
        laid = self.laid_over(self._before)
        return merge_reported_status(self._before, self._after) if laid is None else laid


def _merged_conditions(
    before: tuple[PodCondition, ...], after: tuple[PodCondition, ...]
) -> tuple[PodCondition, ...] | None:
    """Return the conditions as a strategic merge patch leaves them; None except in simple cases."""
    said = {one.type: one for one in after if one not in before}
    known = [one.type for one in before]
    if len(set(known)) < len(known) or removed_conditions(before, after):
        return None
    if said.keys() >= set(known):
        return tuple(said.values())
    changed = [type for type in known if type in said]
    if changed != list(said):  # some are new, or their order differs
        return None
    return tuple(said.get(one.type, one) for one in before)
