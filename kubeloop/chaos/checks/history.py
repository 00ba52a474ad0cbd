# SPDX-License-Identifier: Apache-2.0
"""History of client operations, from which the guarantees are checked.

Every write gives its object unique content (its `mark`), so that a reader knows which write it sees. A conditional
write names the mark that it found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

import msgspec

Action = Literal["create", "update", "delete", "get"]
# Response of the client. `unknown`: no response, or an unknown outcome; it may have happened, or may
# still happen.
Outcome = Literal["ok", "exists", "conflict", "missing", "unknown"]


class ClientOperation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Call on one object, from request to response."""

    key: str
    action: Action
    outcome: Outcome
    called: float
    returned: float
    mark: str = ""  # what a create or an update wrote, or what a get saw
    expected: str = ""  # the mark that the object had to have; empty for a write on no condition
    client: str = ""


def by_key(operations: Iterable[ClientOperation]) -> dict[str, list[ClientOperation]]:
    """Group operations by object: objects are independent of each other."""
    found: dict[str, list[ClientOperation]] = defaultdict(list)
    for operation in operations:
        found[operation.key].append(operation)
    return dict(found)
