"""Decodes large lists in slices, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from kubeloop.api.requests import Call, ListResult
from kubeloop.api.responses import decode_items, list_result, split_list
from kubeloop.client.interner import Interner

# Bytes from which on a list is large: a page of 500 small objects; and items a slice: some 10 ms of work.
LARGE = 1 << 18
_SLICE = 250


async def decode_large_list(body: bytes, call: Call, sharing: Interner) -> ListResult:
    """Decode a list in slices and intern its items, because large lists are kept."""
    raw, meta = split_list(body)
    items: list[Any] = []
    for start in range(0, len(raw), _SLICE):
        items += _decode_slice(raw[start : start + _SLICE], call, sharing)
        await asyncio.sleep(0)
    return list_result(items, meta)


def _decode_slice(raw: Any, call: Call, sharing: Interner) -> list[Any]:
    # All objects created here are kept, so a garbage collection would find nothing and take longer than decoding.
    collecting = gc.isenabled()
    gc.disable()
    try:
        items = decode_items(raw, call.resource, call.metadata_only)
        for one in items:
            sharing.share(one)
        return items
    finally:
        if collecting:
            gc.enable()
