"""How new an answer has to be, where several servers share a store: as new as Kubernetes promises, and no newer.

no resourceVersion   everything that was acknowledged to anybody before the request; writes, too, start from there
"0"                  whatever this server has
any other            at least that, which another server may have told the client; likewise of a list's next page
"""

from __future__ import annotations

from kubeloop.api import errors
from kubeloop.apiserver.list_options import decode_continue, parse_revision
from kubeloop.apiserver.query import Query
from kubeloop.store import Store

_READS = frozenset({"get", "list", "watch"})


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
