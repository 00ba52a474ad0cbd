"""Every namespace that lives has its default service account."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubeloop.api.kinds import RESOURCES
from kubeloop.apiserver.default_accounts import DefaultAccounts
from kubeloop.apiserver.own_objects import OwnObjects
from kubeloop.apiserver.storage import Registry
from kubeloop.clock import SystemClock
from kubeloop.store import Event
from kubeloop.store.memory import MemoryStore

ACCOUNTS = "/registry/serviceaccounts/"


def namespace(name: str, more: bytes = b"") -> bytes:
    return b'{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"%b"%b}}' % (name.encode(), more)


def on_a_server(scenario: Callable[[MemoryStore, DefaultAccounts], Awaitable[None]]) -> None:
    async def run() -> None:
        store = MemoryStore()
        await store.start()
        registry = Registry(store, RESOURCES)
        await asyncio.wait_for(scenario(store, DefaultAccounts(registry, OwnObjects(registry, SystemClock()))), 10)
        await store.close()

    asyncio.run(run())


async def next_account(store: MemoryStore, after: int) -> Event:
    """The next account that is made."""
    async for events in store.watch(ACCOUNTS, after):
        for event in events:
            if not event.deleted:
                return event
    raise AssertionError("the store has closed")


def test_namespaces_that_are_there_get_one_unless_they_are_being_deleted() -> None:
    async def scenario(store: MemoryStore, accounts: DefaultAccounts) -> None:
        await store.write("/registry/namespaces/live", namespace("live"))
        leaving = namespace("leaving", b',"deletionTimestamp":"2030-01-01T00:00:00Z"')
        await store.write("/registry/namespaces/leaving", leaving)
        await accounts.ensure_all()
        assert [record.key for record in store.range(ACCOUNTS).records] == [f"{ACCOUNTS}live/default"]

    on_a_server(scenario)


def test_new_namespace_gets_one_and_a_deleted_one_comes_back() -> None:
    async def scenario(store: MemoryStore, accounts: DefaultAccounts) -> None:
        following = asyncio.create_task(accounts.follow(store.revision))
        await store.write("/registry/namespaces/new", namespace("new"))
        made = await next_account(store, 1)
        assert made.key == f"{ACCOUNTS}new/default"
        deleted = await store.write(made.key, None)
        again = await next_account(store, deleted.revision)
        assert again.key == made.key
        following.cancel()

    on_a_server(scenario)


def test_account_that_is_there_is_left_alone() -> None:
    async def scenario(store: MemoryStore, accounts: DefaultAccounts) -> None:
        await store.write("/registry/namespaces/live", namespace("live"))
        await accounts.ensure_all()
        revision = store.revision
        await accounts.ensure_all()
        assert store.revision == revision

    on_a_server(scenario)
