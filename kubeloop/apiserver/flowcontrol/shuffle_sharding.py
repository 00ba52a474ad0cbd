"""Shuffle sharding: deals each flow a fixed hand of a level's queues. Pure functions.

Two flows seldom share all their queues, so that a flow which fills its own leaves others a free one.
"""

from __future__ import annotations

import hashlib


def deal_hand(schema: str, distinguisher: str, queues: int, size: int) -> tuple[int, ...]:
    """Return the queue indices of a flow, all different, by the hash of its name."""
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode()).digest()
    entropy = int.from_bytes(digest[:8], "little")
    deck, hand = list(range(queues)), []
    for left in range(queues, queues - min(size, queues), -1):
        entropy, drawn = divmod(entropy, left)
        hand.append(deck.pop(drawn))
    return tuple(hand)
