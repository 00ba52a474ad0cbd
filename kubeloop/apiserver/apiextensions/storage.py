# SPDX-License-Identifier: Apache-2.0
"""Storage of one version of a custom resource, and the strategy of its objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.strategy.base import RESETS_METADATA, Strategy
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.api.structural.model import META_FIELDS
from kubeloop.api.unstructured import Unstructured
from kubeloop.apiserver.apiextensions.resource import CustomResource
from kubeloop.apiserver.apiextensions.serializer import CustomSerializer
from kubeloop.apiserver.registry.selector_fields import SelectorFieldCache
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.watch.hub import WatchHub
from kubeloop.store import Record, Store

_TERMINATING: Final = "create not allowed while custom resource definition is terminating"


@dataclass(frozen=True, kw_only=True)
class CustomResourceStrategy(Strategy):
    """Strategy with a separate status if declared; any change except of metadata increments the generation."""

    resource: CustomResource
    terminating: bool = False

    def prepare_create(self, obj: CustomResourceObject, features: Features) -> None:
        """Reset status and generation; raises Forbidden if the CRD is being deleted."""
        if self.terminating:
            raise errors.forbidden(self.resource.group, self.resource.plural, obj.metadata.name, _TERMINATING)
        if self.has_status:
            obj.pop("status", None)
        force_setattr(obj.metadata, "generation", 1)

    def prepare_update(self, new: CustomResourceObject, old: CustomResourceObject, features: Features) -> None:
        """Keep the old status, and increment the generation if anything but metadata changed."""
        if self.has_status:
            _take_over(new, old, "status")
        changed = any(new.get(name) != old.get(name) for name in (new.keys() | old.keys()) - META_FIELDS)
        force_setattr(new.metadata, "generation", old.metadata.generation + changed)

    def prepare_status_update(self, new: CustomResourceObject, old: CustomResourceObject, features: Features) -> None:
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


class CustomStorage(ResourceStorage):
    """Storage that is recreated when the CRD changes; its hub, with the watchers, is reused."""

    def __init__(
        self, store: Store, resource: CustomResource, hub: WatchHub | None, since: int, terminating: bool
    ) -> None:
        names = ("metadata.name", "metadata.namespace") if resource.namespaced else ("metadata.name",)
        conversion = resource.conversion
        if conversion is None:
            memory = SelectorFieldCache(resource, (*names, *resource.selectable))
            super().__init__(store, resource, hub, CustomSerializer(resource, since), memory)
        else:
            from kubeloop.apiserver.apiextensions.conversion.serializer import ConvertedFieldCache, ConvertedSerializer
            from kubeloop.apiserver.apiextensions.conversion.watch_hub import ConvertingWatchHub

            memory = ConvertedFieldCache(resource, (*names, *resource.selectable), conversion)
            view = ConvertedSerializer(resource, since, conversion)
            hub = hub or ConvertingWatchHub(store, resource.key_prefix, resource.namespaced, memory, conversion)
            super().__init__(store, resource, hub, view, memory)
            self.conversion = conversion
        self._strategy = custom_resource_strategy_of(resource, terminating)

    def decode_unconverted(self, record: Record) -> Any:
        """Return an object in its stored version, to be stored again."""
        if self.conversion is None:
            return self.serializer.decode_record(record)
        from kubeloop.apiserver.apiextensions.conversion.serializer import decode_unconverted

        return decode_unconverted(record)

    def decode(self, record: Record, revision: int) -> Any:
        """Decode a record to the client's form: a document with kind and apiVersion."""
        return Unstructured(msgspec.json.decode(self.serializer.object(record.value, revision)))
