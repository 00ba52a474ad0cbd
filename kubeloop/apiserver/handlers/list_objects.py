# SPDX-License-Identifier: Apache-2.0
"""Lists: selects and pages committed records, without decoding them unless a selector requires it."""

from __future__ import annotations

import asyncio

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.request.list_options import ListOptions, decode_continue, encode_continue
from kubeloop.apiserver.watch.counters import ListCounters
from kubeloop.store import CompactedError, FutureRevision, RangeResult, Record, Store

_INCONSISTENT = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


# Number of records that a selector examines between two turns of the event loop, and of requirements that take as long
# as reading a record's fields.
_SLICE = 1_000
_TESTS = 20


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


async def list_page(store: Store, prefix: str, options: ListOptions, counters: ListCounters) -> ListPage:
    """Return the page of records under a prefix that the list options select."""
    start_after, at = "", 0
    if options.continue_token:
        at, name = decode_continue(options.continue_token)
        if options.resource_version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        start_after, at = prefix + name, max(at, 0)
    try:
        asked = options.revision()
    except ValueError as error:
        raise errors.bad_request(f"invalid resource version: {error}") from None
    if asked and (options.match == "Exact" or (options.limit and not options.match)):
        at = asked
    if asked > store.revision:
        raise errors.too_large_resource_version(asked, store.revision, 0 if options.match == "Exact" else 1)
    # Upstream answers "any version" from memory, all at once.
    limit = 0 if options.resource_version == "0" else options.limit
    found = _range(store, prefix, start_after, limit if options.selector.is_empty else 0, at)
    page = await _select(found, prefix, at, options, limit)
    counters.count += 1
    counters.fetched += len(found.records)
    counters.returned += len(page.records)
    return page


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


async def _select(found: RangeResult, prefix: str, at: int, options: ListOptions, limit: int) -> ListPage:
    selection = options.selector
    if selection.is_empty:
        page = ListPage(found.records, at or found.revision)
        if found.has_more:
            page.continue_token = encode_continue(page.revision, found.records[-1].key.removeprefix(prefix))
            page.remaining = found.remaining
        return page
    # The number of remaining matches is unknown without evaluating the selector; upstream omits it, too.
    page = ListPage([], at or found.revision)
    slice_size = _SLICE // (1 + selection.size // _TESTS)
    for start in range(0, len(found.records), slice_size):
        if start:
            await asyncio.sleep(0)  # let the event loop run: the records are a snapshot
        for record in selection.select(found.records[start : start + slice_size]):
            if limit and len(page.records) == limit:
                page.continue_token = encode_continue(page.revision, page.records[-1].key.removeprefix(prefix))
                return page
            page.records.append(record)
    return page
