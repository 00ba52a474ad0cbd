"""What the loop remembers of a volume on a node between two looks; lost with the process, and no harm done."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Stay:
    """One volume on one node. Moments are of the monotonic clock."""

    unneeded_since: float | None = None  # since when no pod needs it there
    asked_at: float | None = None  # when it was asked to be attached, or last complained of
    leaving: bool = False  # the node is no longer told that it may mount it
    announced: bool = False  # pods were told that it is attached
    blocked_told: bool = False  # pods were told that another node has it
    failure_told: str = ""  # what was last told to be wrong


@dataclass(slots=True)
class Memory:
    """All stays, by volume and node."""

    _stays: dict[str, dict[str, Stay]] = field(default_factory=dict)

    def stay(self, volume: str, node: str) -> Stay:
        return self._stays.setdefault(volume, {}).setdefault(node, Stay())

    def is_leaving(self, volume: str, node: str) -> bool:
        stay = self._stays.get(volume, {}).get(node)
        return stay is not None and stay.leaving

    def asked(self, volume: str) -> set[str]:
        """The nodes that it was asked to be attached to, and was not seen to be."""
        return {node for node, stay in self._stays.get(volume, {}).items() if stay.asked_at is not None}

    def keep_only(self, volume: str, nodes: set[str]) -> None:
        """Forget the stays on other nodes."""
        stays = self._stays.get(volume, {})
        for node in set(stays) - nodes:
            del stays[node]
        if not stays:
            self._stays.pop(volume, None)
