"""Storage of one version of a custom resource."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.unstructured import Unstructured
from kubeloop.apiserver.apiextensions.resource import CustomResource
from kubeloop.apiserver.apiextensions.serializer import CustomSerializer
from kubeloop.apiserver.apiextensions.strategy import custom_resource_strategy_of
from kubeloop.apiserver.registry.selector_fields import SelectorFieldCache
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.watch.hub import WatchHub
from kubeloop.store import Record, Store


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

    def unconverted(self, record: Record) -> Any:
        """Return an object in its stored version, to be stored again."""
        if self.conversion is None:
            return self.view.decode_record(record)
        from kubeloop.apiserver.apiextensions.conversion.serializer import decode_unconverted

        return decode_unconverted(record)

    def decoded(self, record: Record, revision: int) -> Any:
        """Decode a record to the client's form: a document with kind and apiVersion."""
        return Unstructured(msgspec.json.decode(self.view.object(record.value, revision)))
