"""How new an answer has to be: as new as Kubernetes promises, and no newer, however many servers share a store.

reads
    no resourceVersion   everything that was acknowledged to anybody before the request
    "0"                  whatever this server has
    any other            at least that, which another server may have told the client; likewise of a list's next page
writes                   begin with whatever this server has: the store compares, so that nothing is built on what has
                         changed since. Only a refusal may come from having known too little, or from having seen a
                         write that came to nothing; it counts if it is repeated by somebody who knows everything, and
                         is told when all that it can have seen is durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kubeloop.api import errors
from kubeloop.apiserver.request.list_options import decode_continue, parse_revision
from kubeloop.apiserver.request.query import Query
from kubeloop.store import Overtaken, Store

_READS = frozenset({"get", "list", "watch"})
_WRITES_OF_ONE = frozenset({"create", "update", "patch", "delete"})
_ATTEMPTS = 10  # of a quota that servers charge at once, each time one of them gets further
_OVERLOADED = 429

Answer = TypeVar("Answer")


async def fresh_enough(store: Store, verb: str, query: Query, answer: Callable[[], Awaitable[Answer]]) -> Answer:
    """An answer from a store as far as it has to be. `StoreError` when that cannot be found out."""
    if verb in _WRITES_OF_ONE:
        return await _written(store, answer)
    if store.shared:
        await catch_up(store, verb, query)
    return await answer()


async def _written(store: Store, answer: Callable[[], Awaitable[Answer]]) -> Answer:
    knows_everything = not store.shared
    for _ in range(_ATTEMPTS - 1):
        known, lost = store.revision, store.lost
        try:
            return await answer()
        except errors.ApiError as error:
            if error.code == _OVERLOADED:
                raise
            await store.settled()
            await store.current()
            if store.lost == lost and (knows_everything or store.revision == known):
                raise
        except Overtaken:
            await store.current()
        knows_everything = True
    return await answer()


async def catch_up(store: Store, verb: str, query: Query) -> None:
    """Returns when the store is as far as a request needs it. `StoreError` when that cannot be found out."""
    needed = _needed(verb, query)
    if needed is None:
        await store.current()
    elif needed > store.revision:
        await store.reached(needed)


def _needed(verb: str, query: Query) -> int | None:
    """The revision, or None for the newest; what is wrong with the request is told by who answers it."""
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
