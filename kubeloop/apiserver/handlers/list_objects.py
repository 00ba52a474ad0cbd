"""Lists: selects and pages committed records, without decoding them unless a selector requires it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.request.list_options import ListOptions, decode_continue, encode_continue
from kubeloop.store import CompactedError, FutureRevision, RangeResult, Record, Store

_INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


class ListPage(msgspec.Struct):
    """One page of a list: records and list metadata."""

    records: list[Record]
    revision: int
    continue_token: str = ""
    remaining: int | None = None

    def metadata(self) -> bytes:
        """Return the encoded ListMeta."""
        fields: dict[str, str | int] = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            fields["continue"] = self.continue_token
        if self.remaining is not None:
            fields["remainingItemCount"] = self.remaining
        return msgspec.json.encode(fields)


def list_page(store: Store, prefix: str, options: ListOptions) -> ListPage:
    """Return the page of records under a prefix that the list options select."""
    try:
        asked = options.revision()
    except ValueError as error:
        raise errors.bad_request(f"invalid resource version: {error}") from None
    start_after, at = "", 0
    if options.continue_token:
        if asked:
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        at, name = decode_continue(options.continue_token)
        start_after, at = prefix + name, max(at, 0)
    elif asked and (options.match == "Exact" or (options.limit and not options.match)):
        at = asked
    if asked > store.revision:
        raise errors.too_large_resource_version(asked, store.revision, 0 if options.match == "Exact" else 1)
    return _select(lambda after, limit: _range(store, prefix, after, limit, at), prefix, start_after, at, options)


def _range(store: Store, prefix: str, start_after: str, limit: int, at: int) -> RangeResult:
    try:
        return store.range(prefix, start_after=start_after, limit=limit, revision=at)
    except FutureRevision:
        raise errors.too_large_resource_version(at, store.revision) from None
    except CompactedError:
        if not start_after:
            raise errors.expired() from None
        token = encode_continue(-1, start_after.removeprefix(prefix))
        raise errors.expired(_INCONSISTENT, token) from None


def _select(
    fetch: Callable[[str, int], RangeResult], prefix: str, start_after: str, at: int, options: ListOptions
) -> ListPage:
    selection, limit = options.selection, options.limit
    if selection.everything:
        found = fetch(start_after, limit)
        page = ListPage(found.records, at or found.revision)
        if found.more:
            page.continue_token = encode_continue(page.revision, found.records[-1].key.removeprefix(prefix))
            page.remaining = found.remaining
        return page
    # The number of remaining matches is unknown without evaluating the selector; upstream omits it, too.
    found = fetch(start_after, 0)
    page = ListPage([], at or found.revision)
    for record in found.records:
        if selection.matches(record):
            if limit and len(page.records) == limit:
                page.continue_token = encode_continue(page.revision, page.records[-1].key.removeprefix(prefix))
                break
            page.records.append(record)
    return page
