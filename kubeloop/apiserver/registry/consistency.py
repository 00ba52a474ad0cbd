# SPDX-License-Identifier: Apache-2.0
"""Consistency of reads and writes, by resourceVersion, if several servers share a store.

reads
    no resourceVersion   at least everything acknowledged to any client before the request
    "0"                  the state this server has
    any other            at least that revision, which the client may have from another server; also for continued lists
writes                   start from this server's state: the store compares revisions, so no write is based on an
                         outdated object. Only a rejection can be wrong, if this server's state was stale or included
                         a write that failed later; it is therefore repeated on the current state, and returned
                         once everything it can have seen is durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kubeloop.api import errors
from kubeloop.apiserver.request.list_options import decode_continue, parse_revision
from kubeloop.apiserver.request.query import Query
from kubeloop.store import DependentConflict, Store

_READS = frozenset({"get", "list", "watch"})
_OBJECT_WRITES = frozenset({"create", "update", "patch", "delete"})
_ATTEMPTS = 10  # retries of a quota that several servers charge at once: one of them makes progress each time
_OVERLOADED = 429

Answer = TypeVar("Answer")


async def with_consistency(store: Store, verb: str, query: Query, answer: Callable[[], Awaitable[Answer]]) -> Answer:
    """Return the answer computed on a store state that is new enough; raises `StoreError` if that is unknown."""
    if verb in _OBJECT_WRITES:
        return await _retry_stale_rejection(store, answer)
    if store.is_shared:
        await wait_for_request_revision(store, verb, query)
    return await answer()


async def _retry_stale_rejection(store: Store, answer: Callable[[], Awaitable[Answer]]) -> Answer:
    knows_everything = not store.is_shared
    for _ in range(_ATTEMPTS - 1):
        known, lost = store.revision, store.rollbacks
        try:
            return await answer()
        except errors.ApiError as error:
            if error.code == _OVERLOADED:
                raise
            await store.wait_settled()
            await store.wait_current()
            if store.rollbacks == lost and (knows_everything or store.revision == known):
                raise
        except DependentConflict:
            await store.wait_current()
        knows_everything = True
    return await answer()


async def wait_for_request_revision(store: Store, verb: str, query: Query) -> None:
    """Wait until the store's state is new enough for a request; raises `StoreError` if that is unknown."""
    needed = _required_revision(verb, query)
    if needed is None:
        await store.wait_current()
    elif needed > store.revision:
        await store.wait_revision(needed)


def _required_revision(verb: str, query: Query) -> int | None:
    """Return the required revision, or None for the newest; an invalid request is reported by its handler."""
    if verb not in _READS:
        return None
    try:
        if token := query.text("continue"):
            revision = decode_continue(token)[0]
            return revision if revision > 0 else None
        asked = query.text("resourceVersion")
        return parse_revision(asked) if asked else None
    except (ValueError, errors.ApiError):
        return 0
