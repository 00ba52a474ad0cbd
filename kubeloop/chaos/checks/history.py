"""What clients did to objects, and what they were told: the evidence from which promises are checked.

Every write gives its object a content that no other write has (its `mark`), so that whoever reads an object knows which
write it sees. A write on a condition names the mark that it found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

import msgspec

Action = Literal["create", "update", "delete", "get"]
# What the client was told. `unknown`: the answer never came, or said that nobody knows; it may have happened, or may
# still happen.
Outcome = Literal["ok", "exists", "conflict", "missing", "unknown"]


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call on one object, from the moment when it left to the moment when its answer was there."""

    key: str
    action: Action
    outcome: Outcome
    called: float
    returned: float
    mark: str = ""  # what a create or an update wrote, or what a get saw
    expected: str = ""  # the mark that the object had to have; empty for a write on no condition
    client: str = ""


def by_key(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    """The operations on each object: objects are independent of each other."""
    found: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        found[operation.key].append(operation)
    return dict(found)
