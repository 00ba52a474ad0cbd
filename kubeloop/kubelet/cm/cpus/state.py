# SPDX-License-Identifier: Apache-2.0
"""State of the CPU manager in the checkpoint `cpu_manager_state`: CPUs of containers, and the shared pool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kubeloop.kubelet.checkpoints.checksum import fnv32a, go_map, go_struct, string_checksum
from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint
from kubeloop.kubelet.cm.cpus.cpuset import EMPTY, CpuSet, InvalidCpuSet, format_cpuset, parse_cpuset

CHECKPOINT = "cpu_manager_state"

Entries = Mapping[str, Mapping[str, str]]


class _CpuManagerData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    policy_name: str
    default_cpu_set: str
    entries: dict[str, dict[str, str]] = {}


class _CpuManagerCheckpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Upstream's fourth format: data with a checksum of its own, besides the fields of the second one."""

    policy_name: str = ""
    default_cpu_set: str = ""
    entries: dict[str, dict[str, str]] | msgspec.UnsetType = msgspec.UNSET
    checksum: int = 0
    data: str = ""
    data_checksum: int = 0


class CpuManagerState:
    """CPUs of containers by pod UID and name, and the shared pool. Each change is durable before it returns."""

    def __init__(self, store: CheckpointStore, policy: str) -> None:
        self._store = store
        self._policy = policy
        self.default_cpus: CpuSet = EMPTY
        self._assignments: dict[str, dict[str, CpuSet]] = {}

    def restore(self) -> None:
        """Read the checkpoint, or create it. Raises `CorruptCheckpoint`."""
        content = self._store.read(CHECKPOINT)
        if content is None:
            self._write()
            return
        try:
            self._decode(content)
        except (CorruptCheckpoint, InvalidCpuSet) as error:
            raise CorruptCheckpoint(
                f"could not restore state from checkpoint: {error}, please drain this node and delete the CPU manager "
                f'checkpoint file "{self._store.path(CHECKPOINT)}" before restarting Kubelet'
            ) from None

    @property
    def assignments(self) -> Mapping[str, Mapping[str, CpuSet]]:
        """Exclusive CPUs by pod UID and container."""
        return self._assignments

    def get(self, uid: str, container: str) -> CpuSet | None:
        """Return the exclusive CPUs of a container; None if it has none."""
        return self._assignments.get(uid, {}).get(container)

    def assigned_cpus(self) -> CpuSet:
        """Return the exclusive CPUs of all containers."""
        return EMPTY.union(*(cpus for pod in self._assignments.values() for cpus in pod.values()))

    def set_default(self, cpus: CpuSet) -> None:
        """Set the shared pool."""
        self.default_cpus = cpus
        self._write()

    def assign(self, uid: str, container: str, cpus: CpuSet) -> None:
        """Assign CPUs to a container alone."""
        self._assignments.setdefault(uid, {})[container] = cpus
        self.default_cpus -= cpus
        self._write()

    def release(self, uid: str) -> CpuSet:
        """Return the CPUs of a pod to the shared pool."""
        released = EMPTY.union(*self._assignments.pop(uid, {}).values())
        if released:
            self.default_cpus |= released
            self._write()
        return released

    def _write(self) -> None:
        entries = {
            uid: {name: format_cpuset(cpus) for name, cpus in sorted(pod.items())}
            for uid, pod in sorted(self._assignments.items())
        }
        text = format_cpuset(self.default_cpus)
        data = _CpuManagerData(policy_name=self._policy, default_cpu_set=text, entries=entries)
        encoded = msgspec.json.encode(data).decode()
        checkpoint = _CpuManagerCheckpoint(
            policy_name=self._policy,
            default_cpu_set=text,
            entries=entries or msgspec.UNSET,
            checksum=legacy_checksum(self._policy, text, entries),
            data=encoded,
            data_checksum=string_checksum(encoded),
        )
        self._store.write(CHECKPOINT, msgspec.json.encode(checkpoint))

    def _decode(self, content: bytes) -> None:
        data = _read_data(content)
        if data.policy_name != self._policy:
            raise CorruptCheckpoint(
                f'configured policy "{self._policy}" differs from state checkpoint policy "{data.policy_name}"'
            )
        self.default_cpus = parse_cpuset(data.default_cpu_set)
        self._assignments = {
            uid: {name: parse_cpuset(text) for name, text in pod.items()} for uid, pod in data.entries.items()
        }


def legacy_checksum(policy: str, default: str, entries: Entries, version: str = "", *, has_pods: bool = False) -> int:
    """Return the checksum of the second format, or of the third one, which has a map of pods."""
    fields = {
        "PolicyName": ("string", policy),
        "DefaultCPUSet": ("string", default),
        "Entries": ("map[string]map[string]string", go_map({uid: go_map(pod) for uid, pod in entries.items()})),
        **({"PodEntries": ("state.PodCPUAssignments", go_map({}))} if has_pods else {}),
        "Checksum": ("checksum.Checksum", "0"),
    }
    return fnv32a(f"(*state.CPUManagerCheckpoint{version}){go_struct(fields)}")


def _read_data(content: bytes) -> _CpuManagerData:
    """Return the data of a checkpoint in the second or fourth format. Raises `CorruptCheckpoint`."""
    try:
        found = msgspec.json.decode(content, type=_CpuManagerCheckpoint)
        if found.data or found.data_checksum:
            if found.data_checksum != string_checksum(found.data):
                raise CorruptCheckpoint("could not load v4 checkpoint: checkpoint is corrupted")
            return msgspec.json.decode(found.data, type=_CpuManagerData)
    except msgspec.MsgspecError as error:
        raise CorruptCheckpoint(str(error)) from None
    entries: Any = {} if found.entries is msgspec.UNSET else found.entries
    about = (found.policy_name, found.default_cpu_set, entries)
    second = {legacy_checksum(*about, version) for version in ("", "V2")}
    third = {legacy_checksum(*about, version, has_pods=True) for version in ("", "V3")}
    if found.checksum not in second | third | {0}:  # the oldest files have none
        raise CorruptCheckpoint("checkpoint is corrupted")
    return _CpuManagerData(policy_name=found.policy_name, default_cpu_set=found.default_cpu_set, entries=entries)
