"""Where the objects of one version of a custom resource lie."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api.dynamic import Custom
from kubeloop.apiserver.custom.resource import CustomResource
from kubeloop.apiserver.custom.strategy import strategy_of_instances
from kubeloop.apiserver.custom.view import CustomView
from kubeloop.apiserver.selection import Memory
from kubeloop.apiserver.storage import Storage
from kubeloop.apiserver.watching import Hub
from kubeloop.store import Record, Store


class CustomStorage(Storage):
    """Made anew whenever the definition changes; the hub, and so the watchers, outlive that."""

    def __init__(self, store: Store, resource: CustomResource, hub: Hub | None, since: int, terminating: bool) -> None:
        names = ("metadata.name", "metadata.namespace") if resource.namespaced else ("metadata.name",)
        conversion = resource.conversion
        if conversion is None:
            memory = Memory(resource, (*names, *resource.selectable))
            super().__init__(store, resource, hub, CustomView(resource, since), memory)
        else:
            from kubeloop.apiserver.custom.conversion_hub import ConvertingHub
            from kubeloop.apiserver.custom.conversion_view import ConvertedMemory, ConvertedView

            memory = ConvertedMemory(resource, (*names, *resource.selectable), conversion)
            view = ConvertedView(resource, since, conversion)
            hub = hub or ConvertingHub(store, resource.key_prefix, resource.namespaced, memory, conversion)
            super().__init__(store, resource, hub, view, memory)
            self.conversion = conversion
        self._strategy = strategy_of_instances(resource, terminating)

    def unconverted(self, record: Record) -> Any:
        """An object in the version that it is stored in, to be stored so again."""
        if self.conversion is None:
            return self.view.decode_record(record)
        from kubeloop.apiserver.custom.conversion_view import as_stored

        return as_stored(record)

    def decoded(self, record: Record, revision: int) -> Any:
        """As clients know custom objects: a document that says what it is."""
        return Custom(msgspec.json.decode(self.view.object(record.value, revision)))
