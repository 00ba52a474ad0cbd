"""Lists of thousands, decoded in slices, so that everything else on the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from kubeloop.api.answers import decode_items, list_of, split_list
from kubeloop.api.calls import Call, ListResult

# Bytes from which on a list is large, and items a slice: some 5 ms of decoding.
LARGE = 1 << 20
_SLICE = 250


async def decode_large_list(body: bytes, call: Call) -> ListResult:
    """The same as decoding it at once."""
    raw, meta = split_list(body)
    items: list[Any] = []
    for start in range(0, len(raw), _SLICE):
        items += _decode_slice(raw[start : start + _SLICE], call)
        await asyncio.sleep(0)
    return list_of(items, meta)


def _decode_slice(raw: Any, call: Call) -> list[Any]:
    # All that is made here is kept, so looking for garbage among it finds none and takes longer than decoding.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return decode_items(raw, call.resource, call.metadata_only)
    finally:
        if collecting:
            gc.enable()
