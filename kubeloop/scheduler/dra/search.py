# SPDX-License-Identifier: Apache-2.0
"""Device search over nodes; a search that exceeds its time limit continues in a worker thread.

The thread works on copies. Its results are used by the next attempt if the inputs have not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kubeloop.api.generated.core_v1 import Node
from kubeloop.api.generated.resource_v1 import DeviceClass, ResourceClaim
from kubeloop.clock import Clock
from kubeloop.scheduler.dra.allocated import AllocatedState
from kubeloop.scheduler.dra.claim_attempt import NodeAllocation
from kubeloop.scheduler.framework.plugin import PluginTimeLimit, PluginTimeLimitExceeded

if TYPE_CHECKING:
    from kubeloop.scheduler.dra.allocator import DeviceAllocation, DeviceAllocator
    from kubeloop.scheduler.dra.inventory import DeviceInventory

_MOST_RESTARTS: Final = 3  # after that many changed inputs the search runs synchronously to its end


class DeviceSearchResult(NamedTuple):
    """Result of the search on a node: devices, or the failure."""

    device_allocations: Sequence[Sequence[DeviceAllocation]] | None = None
    is_invalid: bool = False  # some pools are invalid
    error: str = ""  # error that applies to all nodes


class DeviceSearchInputs(NamedTuple):
    """Inputs of a search: the pod and its claims, the inventory, and the allocated devices."""

    uid: str
    claims: Sequence[ResourceClaim]
    extended_resources: tuple[str, ...]
    inventory: DeviceInventory
    allocated_state: AllocatedState

    def is_same(self, other: DeviceSearchInputs) -> bool:
        """Return True if the inputs are equal."""
        same = (
            self.uid == other.uid
            and self.inventory is other.inventory
            and self.extended_resources == other.extended_resources
        )
        return same and self.claims == other.claims and self.allocated_state == other.allocated_state


@dataclass(slots=True)
class _ThreadResults:
    """Results of the thread."""

    basis: DeviceSearchInputs
    outcomes: dict[str, tuple[Node, DeviceSearchResult]] = field(default_factory=dict)
    restarts: int = 0


@dataclass(slots=True)
class _Limits:
    """Time limits of a search in seconds: per node (0 for none), and of synchronous work."""

    node: float
    pace: PluginTimeLimit


class DeviceSearch:
    """Keeps the results of the worker thread for the last pod that needed it."""

    def __init__(
        self, clock: Clock, seconds: float, pace: PluginTimeLimit, classes: Callable[[str], DeviceClass | None]
    ) -> None:
        self._clock = clock
        self._limits = _Limits(seconds, pace)
        self._classes = classes
        self._aside: _ThreadResults | None = None

    def start_round(self, basis: DeviceSearchInputs) -> DeviceSearchRound:
        """Return a search round over nodes with these inputs."""
        aside = self._aside
        if aside is not None and aside.basis.uid == basis.uid and not aside.basis.is_same(basis):
            aside = self._aside = _ThreadResults(_copy_inputs(basis), restarts=aside.restarts + 1)
        elif aside is None or aside.basis.uid != basis.uid:
            aside = None
        return DeviceSearchRound(self, basis, aside)

    def allocator(self, basis: DeviceSearchInputs) -> DeviceAllocator:
        """Return an allocator for the inputs."""
        from kubeloop.scheduler.dra.allocator import DeviceAllocator

        return DeviceAllocator(basis.inventory, self._classes, basis.allocated_state)

    def deadline_of(self, aside: _ThreadResults | None) -> float:
        """Return the end of synchronous work on the monotonic clock; infinite after too many restarts."""
        if aside is not None and aside.restarts > _MOST_RESTARTS:
            return float("inf")
        return self._clock.monotonic() + self._limits.pace.seconds

    def search_node(
        self, allocator: DeviceAllocator, node: Node, found: NodeAllocation, turn: Callable[[float], bool]
    ) -> DeviceSearchResult | None:
        """Search on one node; return None if `turn` ended the search early."""
        from kubeloop.scheduler.dra.allocator import AllocationError, AllocationTimeout, InvalidPoolsError

        began = self._clock.monotonic()
        limit = began + self._limits.node if self._limits.node else float("inf")

        def is_late() -> bool:
            now = self._clock.monotonic()
            return now > limit or turn(now)

        try:
            return DeviceSearchResult(allocator.allocate(node, found.claims, is_late))
        except InvalidPoolsError:
            return DeviceSearchResult(is_invalid=True)
        except AllocationTimeout:
            name = node.metadata.name
            is_over = self._clock.monotonic() > limit
            return DeviceSearchResult(error=f"node {name}: timed out trying to allocate devices") if is_over else None
        except AllocationError as error:
            return DeviceSearchResult(error=str(error))

    def defer_to_thread(
        self, basis: DeviceSearchInputs, aside: _ThreadResults | None, wanted: Iterable[tuple[Node, NodeAllocation]]
    ) -> PluginTimeLimitExceeded:
        """Return the exception that carries the remaining work, to be run in a thread."""
        aside = self._aside = aside or _ThreadResults(_copy_inputs(basis))

        def work(is_abandoned: Callable[[], bool]) -> None:
            allocator = self.allocator(aside.basis)
            for node, found in wanted:
                outcome = self.search_node(allocator, node, found, lambda _: is_abandoned())
                if outcome is None:
                    return
                aside.outcomes[node.metadata.name] = node, outcome
                if outcome.error:  # the results of other nodes are not needed
                    return

        return PluginTimeLimitExceeded(work)


class DeviceSearchRound:
    """Search on some nodes in one scheduling attempt."""

    def __init__(self, search: DeviceSearch, basis: DeviceSearchInputs, aside: _ThreadResults | None) -> None:
        self._search = search
        self._basis = basis
        self._aside = aside
        self._allocator = search.allocator(basis)
        self._deadline = search.deadline_of(aside)

    def search_node(
        self, node: Node, found: NodeAllocation, others: Callable[[], Iterable[tuple[Node, NodeAllocation]]]
    ) -> DeviceSearchResult:
        """Return the result for a node. Raises `PluginTimeLimitExceeded` to search this and other nodes in a thread."""
        known = None if self._aside is None else self._aside.outcomes.get(node.metadata.name)
        if known is not None and known[0] is node:
            return known[1]
        outcome = self._search.search_node(self._allocator, node, found, lambda now: now > self._deadline)
        if outcome is None:
            raise self._search.defer_to_thread(self._basis, self._aside, [(node, found), *others()])
        return outcome


def _copy_inputs(basis: DeviceSearchInputs) -> DeviceSearchInputs:
    use = basis.allocated_state
    consumed = {one: dict(amounts) for one, amounts in use.consumed_capacity.items()}
    return basis._replace(allocated_state=AllocatedState(use.devices.copy(), use.shared_devices.copy(), consumed))
