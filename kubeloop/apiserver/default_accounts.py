"""Every namespace has a service account named `default`, without which no pod can be created in it.

Stands in for upstream's service account controller in a plane that runs no controllers yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kubeloop.api.generated.core_v1 import ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.own_objects import OwnObjects
from kubeloop.apiserver.storage import Registry, Storage
from kubeloop.store import Event, WatchOverflow

NAME = "default"


class DefaultAccounts:
    """Makes the account in every namespace that has none and is not being deleted."""

    def __init__(self, registry: Registry, own: OwnObjects) -> None:
        self._own = own
        self._namespaces = registry.named("", "v1", "namespaces")
        self._accounts = registry.named("", "v1", "serviceaccounts")

    async def ensure_all(self) -> int:
        """For all namespaces there are; the revision at which that was looked at."""
        found = self._namespaces.store.range(self._namespaces.prefix(""))
        await self._ensure(record.key.rpartition("/")[2] for record in found.records)
        return found.revision

    async def follow(self, revision: int) -> None:
        """For every namespace that is made, and whenever an account is deleted, until the store closes."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._follow(self._namespaces, revision, _namespace_made))
            both.create_task(self._follow(self._accounts, revision, _namespace_bereft))

    async def _follow(self, storage: Storage, revision: int, concerned: Callable[[Event], str]) -> None:
        while True:
            try:
                async for events in storage.store.watch(storage.prefix(""), revision):
                    await self._ensure(filter(None, map(concerned, events)))
                return
            except WatchOverflow:
                revision = await self.ensure_all()

    async def _ensure(self, namespaces: Iterable[str]) -> None:
        wanted = [name for name in namespaces if self._accounts.peek(name, NAME) is None and self._is_live(name)]
        resource = self._accounts.resource
        await self._own.ensure(
            (resource, ServiceAccount(metadata=ObjectMeta(name=NAME, namespace=name))) for name in wanted
        )

    def _is_live(self, name: str) -> bool:
        record = self._namespaces.peek("", name)
        return record is not None and self._namespaces.view.decode_record(record).metadata.deletion_timestamp is None


def _namespace_made(event: Event) -> str:
    return "" if event.deleted else event.key.rpartition("/")[2]


def _namespace_bereft(event: Event) -> str:
    *_, namespace, name = event.key.split("/")
    return namespace if event.deleted and name == NAME else ""
