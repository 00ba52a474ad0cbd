"""A pod's status as the agent found or left it, and as it should be: a patch, and what comes of that. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import PodCondition, PodStatus
from kubeloop.api.struct_patch import Overlay
from kubeloop.kubelet.status.generate import MERGED_LISTS, MERGED_MAPS, WRITTEN, changes, gone, merged

_FIELDS = tuple(field for field, _ in (*WRITTEN, *MERGED_LISTS, *MERGED_MAPS))


class StatusChange(Overlay):
    """What the agent has to say that it has not said yet."""

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
            or bool(gone(before.conditions, after.conditions))
        )

    @property
    def document(self) -> dict[str, Any]:
        return {"metadata": {"uid": self.uid}, "status": changes(self._before, self._after)}

    def laid_over(self, present: PodStatus) -> PodStatus | None:
        """None if somebody else has changed the status since, or conditions go: then merging is an art."""
        if present is not self._before and present != self._before:
            return None
        conditions = _merged_conditions(present.conditions, self._after.conditions)
        if conditions is None:
            return None
        said = {field: getattr(self._after, field) for field in _FIELDS}
        return msgspec.structs.replace(present, **said, conditions=conditions)

    @property
    def outcome(self) -> PodStatus:
        """The status once the patch went through."""
        laid = self.laid_over(self._before)
        return merged(self._before, self._after) if laid is None else laid


def _merged_conditions(
    before: tuple[PodCondition, ...], after: tuple[PodCondition, ...]
) -> tuple[PodCondition, ...] | None:
    """As a strategic merge patch of those that are new or differ leaves them, in the plain cases."""
    said = {one.type: one for one in after if one not in before}
    known = [one.type for one in before]
    if len(set(known)) < len(known) or gone(before, after):
        return None
    if said.keys() >= set(known):
        return tuple(said.values())
    changed = [type for type in known if type in said]
    if changed != list(said):  # some are new, or in another order
        return None
    return tuple(said.get(one.type, one) for one in before)
