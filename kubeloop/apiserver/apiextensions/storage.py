"""Storage of one version of a custom resource."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.unstructured import Custom
from kubeloop.apiserver.apiextensions.resource import CustomResource
from kubeloop.apiserver.apiextensions.serializer import CustomView
from kubeloop.apiserver.apiextensions.strategy import strategy_of_instances
from kubeloop.apiserver.registry.selector_fields import Memory
from kubeloop.apiserver.registry.storage import Storage
from kubeloop.apiserver.watch.hub import Hub
from kubeloop.store import Record, Store


class CustomStorage(Storage):
    """Storage that is recreated when the CRD changes; its hub, with the watchers, is reused."""

    def __init__(self, store: Store, resource: CustomResource, hub: Hub | None, since: int, terminating: bool) -> None:
        names = ("metadata.name", "metadata.namespace") if resource.namespaced else ("metadata.name",)
        conversion = resource.conversion
        if conversion is None:
            memory = Memory(resource, (*names, *resource.selectable))
            super().__init__(store, resource, hub, CustomView(resource, since), memory)
        else:
            from kubeloop.apiserver.apiextensions.conversion.serializer import ConvertedMemory, ConvertedView
            from kubeloop.apiserver.apiextensions.conversion.watch_hub import ConvertingHub

            memory = ConvertedMemory(resource, (*names, *resource.selectable), conversion)
            view = ConvertedView(resource, since, conversion)
            hub = hub or ConvertingHub(store, resource.key_prefix, resource.namespaced, memory, conversion)
            super().__init__(store, resource, hub, view, memory)
            self.conversion = conversion
        self._strategy = strategy_of_instances(resource, terminating)

    def unconverted(self, record: Record) -> Any:
        """Return an object in its stored version, to be stored again."""
        if self.conversion is None:
            return self.view.decode_record(record)
        from kubeloop.apiserver.apiextensions.conversion.serializer import as_stored

        return as_stored(record)

    def decoded(self, record: Record, revision: int) -> Any:
        """Decode a record to the client's form: a document with kind and apiVersion."""
        return Custom(msgspec.json.decode(self.view.object(record.value, revision)))
