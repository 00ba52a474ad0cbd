"""Create and update strategy of custom objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.strategy.base import RESETS_METADATA, Strategy
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.api.structural.model import META_FIELDS
from kubeloop.apiserver.apiextensions.resource import CustomResource

_TERMINATING: Final = "create not allowed while custom resource definition is terminating"


@dataclass(frozen=True, kw_only=True)
class CustomResourceStrategy(Strategy):
    """Strategy with a separate status if declared; any change except of metadata increments the generation."""

    resource: CustomResource
    terminating: bool = False

    def prepare_create(self, obj: CustomResourceObject) -> None:
        """Reset status and generation; raises Forbidden if the CRD is being deleted."""
        if self.terminating:
            raise errors.forbidden(self.resource.group, self.resource.plural, obj.metadata.name, _TERMINATING)
        if self.has_status:
            obj.pop("status", None)
        force_setattr(obj.metadata, "generation", 1)

    def prepare_update(self, new: CustomResourceObject, old: CustomResourceObject) -> None:
        """Keep the old status, and increment the generation if anything but metadata changed."""
        if self.has_status:
            _take_over(new, old, "status")
        changed = any(new.get(name) != old.get(name) for name in (new.keys() | old.keys()) - META_FIELDS)
        force_setattr(new.metadata, "generation", old.metadata.generation + changed)

    def prepare_status_update(self, new: CustomResourceObject, old: CustomResourceObject) -> None:
        """Keep everything of the old object except status and managedFields."""
        mine = new.metadata
        meta = replace(old.metadata, managed_fields=mine.managed_fields, resource_version=mine.resource_version)
        status = {"status": new["status"]} if "status" in new else {}
        new.clear()
        new.update({**old, "metadata": meta})
        new.pop("status", None)
        new.update(status)


def _take_over(new: dict[str, Any], old: dict[str, Any], name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def custom_resource_strategy_of(resource: CustomResource, terminating: bool) -> CustomResourceStrategy:
    """Return the strategy of a custom resource."""
    return CustomResourceStrategy(
        resource=resource,
        terminating=terminating,
        has_status=resource.rules.has_status,
        reset_fields=RESETS_METADATA if resource.rules.has_status else {},
        allow_unconditional_update=False,
    )
