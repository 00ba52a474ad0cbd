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
from typing import NamedTuple, TypeVar

from kubeloop.api import errors
from kubeloop.apiserver.request.list_options import decode_continue, parse_revision
from kubeloop.apiserver.request.query import Query
from kubeloop.store import DependentConflict, Store

_READS = frozenset({"get", "list", "watch"})
OBJECT_WRITES = frozenset({"create", "update", "patch", "delete"})
_ATTEMPTS = 10  # retries of a quota that several servers charge at once: one of them makes progress each time
_OVERLOADED = 429

Answer = TypeVar("Answer")


class StoreState(NamedTuple):
    """State of a store when a write began."""

    revision: int
    rollbacks: int


async def retry_stale_rejection(
    store: Store,
    before: StoreState,
    rejection: errors.ApiError | DependentConflict,
    answer: Callable[[], Awaitable[Answer]],
) -> Answer:
    """Repeat a rejected write, unless it was decided on the store's current state; raises a rejection that is final."""
    knows_everything = not store.is_shared
    for _ in range(_ATTEMPTS - 2):
        await _wait_unless_final(store, before, rejection, knows_everything=knows_everything)
        knows_everything, before = True, StoreState(store.revision, store.rollbacks)
        try:
            return await answer()
        except (errors.ApiError, DependentConflict) as error:
            rejection = error
    await _wait_unless_final(store, before, rejection, knows_everything=True)
    return await answer()


async def _wait_unless_final(
    store: Store, before: StoreState, rejection: errors.ApiError | DependentConflict, *, knows_everything: bool
) -> None:
    """Wait until the store has what the rejected write may have missed; raises the rejection if that is nothing."""
    if isinstance(rejection, errors.ApiError):
        if rejection.code == _OVERLOADED:
            raise rejection
        await store.wait_settled()
        await store.wait_current()
        if store.rollbacks == before.rollbacks and (knows_everything or store.revision == before.revision):
            raise rejection
    else:
        await store.wait_current()


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
