# SPDX-License-Identifier: Apache-2.0
"""State of the memory manager in the checkpoint `memory_manager_state`: memory of containers and of NUMA nodes."""

from __future__ import annotations

import msgspec

from kubeloop.kubelet.checkpoints.checksum import string_checksum
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint
from kubeloop.kubelet.cm.memory.machine_memory import MachineMemoryState, MemoryBlock, NumaMemory

CHECKPOINT = "memory_manager_state"

MemoryEntries = dict[str, dict[str, list[MemoryBlock]]]


class _MemoryManagerData(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    policy_name: str
    machine_state: dict[int, NumaMemory] | None
    entries: MemoryEntries = {}


class _MemoryManagerCheckpoint(msgspec.Struct, kw_only=True, rename="camel"):
    """Upstream's third format."""

    data: str
    data_checksum: int


class MemoryManagerState:
    """Memory of containers by pod UID and name, and of NUMA nodes; `write` makes changes durable."""

    def __init__(self, store: CheckpointStore, policy: str) -> None:
        self._store = store
        self._policy = policy
        self.machine = MachineMemoryState({})
        self.assignments: MemoryEntries = {}

    def restore(self) -> None:
        """Read the checkpoint, or create it. Raises `CorruptCheckpoint`."""
        content = self._store.read(CHECKPOINT)
        if content is None:
            self.write()
            return
        try:
            data = _decode(content)
            if data.policy_name != self._policy:
                raise CorruptCheckpoint(
                    f'[memorymanager] configured policy "{self._policy}" differs from state checkpoint policy '
                    f'"{data.policy_name}"'
                )
        except CorruptCheckpoint as error:
            raise CorruptCheckpoint(
                f"could not restore state from checkpoint: {error}, please drain this node and delete the memory "
                f'manager checkpoint file "{self._store.path(CHECKPOINT)}" before restarting Kubelet'
            ) from None
        self.machine, self.assignments = MachineMemoryState(data.machine_state or {}), data.entries

    def set_machine(self, machine: MachineMemoryState) -> None:
        """Set the memory of the NUMA nodes."""
        self.machine = machine
        self.write()

    def get(self, uid: str, container: str) -> list[MemoryBlock] | None:
        """Return the blocks of a container; None if it has none."""
        return self.assignments.get(uid, {}).get(container)

    def write(self) -> None:
        """Write the checkpoint."""
        nodes, entries = self.machine.nodes, self.assignments
        data = _MemoryManagerData(policy_name=self._policy, machine_state=nodes, entries=entries)
        text = msgspec.json.encode(data).decode()
        checkpoint = _MemoryManagerCheckpoint(data=text, data_checksum=string_checksum(text))
        self._store.write(CHECKPOINT, msgspec.json.encode(checkpoint))


def _decode(content: bytes) -> _MemoryManagerData:
    try:
        found = msgspec.json.decode(content, type=_MemoryManagerCheckpoint)
        if found.data_checksum != string_checksum(found.data):
            raise CorruptCheckpoint("could not load v3 checkpoint: checkpoint is corrupted")
        return msgspec.json.decode(found.data, type=_MemoryManagerData)
    except msgspec.MsgspecError as error:
        raise CorruptCheckpoint(str(error)) from None
