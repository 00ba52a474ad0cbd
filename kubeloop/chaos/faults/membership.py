# SPDX-License-Identifier: Apache-2.0
"""Replaces an etcd member by an empty one, through etcd's JSON gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

_TRIES = 400  # members count as well only when they have known each other for five seconds, and others go wrong too
_BETWEEN = 0.25
_ANSWERS_WITHIN = 5.0


class MemberReplaceError(RuntimeError):
    """Failure to replace a member: none of the others accepted it."""


async def replace_member(others: Sequence[str], name: str, peer: str) -> None:
    """Replace a member by name; `others` are the URLs of available members, `peer` its peer URL."""
    error: Exception | None = None
    for attempt in range(_TRIES):
        try:
            await asyncio.to_thread(_replace, others[attempt % len(others)], name, peer)
            return
        except (OSError, ValueError) as failure:  # no leader yet, or not enough members are there
            error = failure
            await asyncio.sleep(_BETWEEN)
    raise MemberReplaceError(f"{name} cannot be replaced: {error}")


def _replace(url: str, name: str, peer: str) -> None:
    present = _ask(url, "list", {}).get("members", [])
    for member in present:
        if peer in member["peerURLs"]:
            if not member.get("name"):
                return  # one that was added before, and has not started yet
            _ask(url, "remove", {"ID": member["ID"]})
    _ask(url, "add", {"peerURLs": [peer]})


def _ask(url: str, what: str, body: dict[str, Any]) -> dict[str, Any]:
    request = Request(f"{url}/v3/cluster/member/{what}", json.dumps(body).encode(), method="POST")
    try:
        with urlopen(request, timeout=_ANSWERS_WITHIN) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except HTTPError as error:
        raise ValueError(error.read().decode(errors="replace")) from None
