"""Which few of a level's queues a flow may use: dealt like a hand of cards, the same one every time. Pure.

Two flows seldom have all their queues in common, so that one which fills its own leaves others a way around.
"""

from __future__ import annotations

import hashlib


def hand_of(schema: str, distinguisher: str, queues: int, size: int) -> tuple[int, ...]:
    """Different queues, by the hash of the flow's name."""
    digest = hashlib.sha256(f"{schema}\0{distinguisher}".encode()).digest()
    entropy = int.from_bytes(digest[:8], "little")
    deck, hand = list(range(queues)), []
    for left in range(queues, queues - min(size, queues), -1):
        entropy, drawn = divmod(entropy, left)
        hand.append(deck.pop(drawn))
    return tuple(hand)
