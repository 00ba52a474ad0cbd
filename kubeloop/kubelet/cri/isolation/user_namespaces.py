# SPDX-License-Identifier: Apache-2.0
"""User namespaces of pods: allocates a range of IDs to each pod, and records it in the pod's folder.

The record is the file `userns` with upstream's content, so that a kubelet that is started again, of either kind,
continues with the same ranges.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

import msgspec

from kubeloop.kubelet.cri.config.paths import NodePaths

ID_UNIT = 65536
_USER, _TOOL = "kubelet", "getsubids"
_FILE = "userns"
_ALL_IDS = 1 << 32


class UserNamespaceError(Exception):
    """Raised if a pod cannot have a user namespace of its own."""


class IDRange(NamedTuple):
    """Range of user and group IDs on the node."""

    first: int
    length: int


class UserNamespaceMapping(msgspec.Struct, frozen=True, rename="camel"):
    """Mapping of a range in the record of a pod."""

    host_id: int
    container_id: int
    length: int


class UserNamespaceRecord(msgspec.Struct, frozen=True, rename={"uids": "uidMappings", "gids": "gidMappings"}):
    """Record of a pod's user namespace."""

    uids: tuple[UserNamespaceMapping, ...]
    gids: tuple[UserNamespaceMapping, ...]


def read_kubelet_range(ids_per_pod: int) -> IDRange:
    """Return the IDs for all pods: those of the user `kubelet`, or all above the first range. Raises ValueError."""
    whole = IDRange(ids_per_pod, _ALL_IDS - ids_per_pod)
    try:
        pwd.getpwnam(_USER)
    except KeyError:
        return whole
    if (tool := shutil.which(_TOOL)) is None:
        return whole
    uids, gids = (_sub_ids(tool, *options) for options in ((), ("-g",)))
    if uids != gids:
        raise ValueError(f'mismatched subuids and subgids for user "{_USER}"')
    return parse_sub_ids(uids)


def parse_sub_ids(text: str) -> IDRange:
    """Parse the only line of `getsubids`, such as `0: kubelet 65536 7208960`. Raises ValueError."""
    lines = text.strip().splitlines()
    if len(lines) != 1:
        raise ValueError(f'error parsing line "{text}": there must be exactly one range')
    parts = lines[0].split()
    if len(parts) != 4 or not (parts[2].isdecimal() and parts[3].isdecimal()):
        raise ValueError(f'invalid line "{lines[0]}"')
    return IDRange(int(parts[2]), int(parts[3]))


def _sub_ids(tool: str, *options: str) -> str:
    try:
        done = subprocess.run([tool, *options, _USER], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f'error retrieving additional IDs for user "{_USER}": {error}') from None
    return done.stdout


class UserNamespaceManager:
    """Allocates ranges of `ids_per_pod` IDs. Raises ValueError for a range that is not enough for all pods."""

    def __init__(self, paths: NodePaths, available: IDRange, ids_per_pod: int, max_pods: int, random: Random) -> None:
        _check_range(available, ids_per_pod, max_pods)
        self._paths = paths
        self._ids_per_pod = ids_per_pod
        self._offset = available.first // ids_per_pod
        self._count = available.length // ids_per_pod
        self._random = random
        self._slots: dict[str, int] = {}  # of pods by UID
        self._used: set[int] = set()
        self._read_records()

    def get_or_create(self, uid: str) -> UserNamespaceRecord:
        """Return the namespace of a pod, as recorded or newly allocated. Raises `UserNamespaceError`."""
        try:
            if (found := self._read(uid)) is not None:
                return found
        except (OSError, ValueError) as error:
            raise UserNamespaceError(f"user namespace: {error}") from None
        try:
            return self._create(uid)
        except OSError as error:
            self.release(uid)
            raise UserNamespaceError(f"create user namespace: {error}") from None

    def release(self, uid: str) -> None:
        """Release the range of a pod, if it has one."""
        if (slot := self._slots.pop(uid, None)) is not None:
            self._used.discard(slot)
            (self._paths.pod(uid) / _FILE).unlink(missing_ok=True)

    def _create(self, uid: str) -> UserNamespaceRecord:
        slot = self._free_slot()
        self._slots[uid] = slot
        self._used.add(slot)
        first = (slot + self._offset) * self._ids_per_pod
        mappings = (UserNamespaceMapping(first, 0, self._ids_per_pod),)
        made = UserNamespaceRecord(mappings, mappings)
        folder = self._paths.pod(uid)
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        _write_durably(folder / _FILE, msgspec.json.encode(made))
        return made

    def _free_slot(self) -> int:
        """Return a free slot, the next after a random one: a range is not soon used again."""
        if len(self._used) >= self._count:
            message = "create user namespace: could not find an empty slot to allocate a user namespace"
            raise UserNamespaceError(message)
        slot = self._random.randrange(self._count)
        while slot in self._used:
            slot = (slot + 1) % self._count
        return slot

    def _read_records(self) -> None:
        folder = self._paths.root / "pods"
        for one in folder.iterdir() if folder.is_dir() else ():
            try:
                self._read(one.name)
            except (OSError, ValueError) as error:
                raise ValueError(f'record pod mappings for existing pod "{one.name}": {error}') from None

    def _read(self, uid: str) -> UserNamespaceRecord | None:
        """Return the record of a pod and mark its range as used; None without a record. Raises ValueError, OSError."""
        try:
            content = (self._paths.pod(uid) / _FILE).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not content:
            return None
        try:
            found = msgspec.json.decode(content, type=UserNamespaceRecord)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise ValueError(f"invalid user namespace mappings file: {error}") from None
        _check_record(found)
        self._occupy(uid, found.uids[0])
        return found

    def _occupy(self, uid: str, mapping: UserNamespaceMapping) -> None:
        if mapping.length != self._ids_per_pod:
            raise ValueError(f"wrong user namespace length {mapping.length}")
        if mapping.host_id % self._ids_per_pod:
            raise ValueError(f"wrong user namespace offset specified {mapping.host_id}")
        slot = mapping.host_id // self._ids_per_pod - self._offset
        known = self._slots.get(uid)
        if known == slot:
            return
        if known is not None:
            raise ValueError(f'different user namespace range already used by pod "{uid}"')
        if not 0 <= slot < self._count:
            raise ValueError(f"id {mapping.host_id} is out of range")
        if slot in self._used:
            raise ValueError(f'range picked for pod "{uid}" already taken')
        self._slots[uid] = slot
        self._used.add(slot)


def _check_range(available: IDRange, ids_per_pod: int, max_pods: int) -> None:
    first, length = available
    if ids_per_pod % ID_UNIT:
        raise ValueError(f"kubelet user namespace length {ids_per_pod} is not a multiple of {ID_UNIT}")
    if first % ids_per_pod:
        raise ValueError(f"kubelet user assigned ID {first} is not a multiple of {ids_per_pod}")
    if first < ids_per_pod:  # the IDs of the node itself must not be mapped
        raise ValueError(f"kubelet user assigned ID {first} must be greater or equal to {ids_per_pod}")
    if length % ids_per_pod:
        raise ValueError(f"kubelet user assigned IDs length {length} is not a multiple of {ids_per_pod}")
    if length // ids_per_pod < max_pods:
        raise ValueError(f"kubelet user assigned IDs are not enough to support {max_pods} pods")


def _check_record(found: UserNamespaceRecord) -> None:
    wrong = "invalid user namespace configuration"
    if len(found.uids) != 1:
        raise ValueError(f"{wrong}: no more than one mapping allowed.")
    if found.uids != found.gids:
        raise ValueError(f"{wrong}: GID and UID mapping should be identical")
    if found.uids[0].container_id:
        raise ValueError(f"{wrong}: UID 0 must be mapped")


def _write_durably(path: Path, content: bytes) -> None:
    """Write a file so that it is whole or missing after a crash."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
