# SPDX-License-Identifier: Apache-2.0
"""Record of the real node of a local cluster, and the removal of its pods without its kubelet."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import msgspec

from kubeloop.cli.program.files import write_private
from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError
from kubeloop.kubelet.cm.cgroups.pods import remove_pod_group
from kubeloop.kubelet.cri.config.labels import POD_NAME, POD_NAMESPACE, POD_UID
from kubeloop.kubelet.cri.node import RuntimeConnection, connect_runtime
from kubeloop.kubelet.volumes.host.mounts import remove_tree, unmount_all

_FILE: Final = "node.json"
_CALL_SECONDS: Final = 120.0


class NodeRecordError(Exception):
    """Pods that cannot be removed; the message is one sentence for a user."""


class NodeRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Settings of a real node that are needed to remove its pods."""

    name: str
    endpoint: str  # of the container runtime
    root: str  # folder of the pods' volumes and files
    cgroup_root: str

    def pod_uids(self) -> list[str]:
        """Return the UIDs of the pods that have a folder: the kubelet creates it before the sandbox."""
        pods = Path(self.root) / "pods"
        return sorted(one.name for one in pods.iterdir()) if pods.is_dir() else []


def node_folder(data: Path) -> Path:
    """Return the folder of the real node in the data folder of a cluster."""
    return data / "kubelet"


def save_node_record(data: Path, record: NodeRecord) -> None:
    """Save the record of a cluster's real node."""
    folder = node_folder(data)
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    write_private(folder / _FILE, msgspec.json.encode(record))


def load_node_record(data: Path) -> NodeRecord | None:
    """Return the record of a cluster's real node, if it has one."""
    try:
        return msgspec.json.decode((node_folder(data) / _FILE).read_bytes(), type=NodeRecord)
    except (OSError, msgspec.DecodeError):
        return None


def remove_node_pods(data: Path) -> None:
    """Remove the pods of a cluster's real node, if it has one. Raises `NodeRecordError`."""
    record = load_node_record(data)
    if record is None or not record.pod_uids():
        return
    if os.geteuid() != 0:
        raise NodeRecordError(f"node {record.name} has containers: removing them requires root")
    try:
        asyncio.run(_remove_pods(record))
    except RpcError as error:
        raise NodeRecordError(
            f"the containers of node {record.name} could not be removed, as the container runtime at {record.endpoint} "
            f"failed: {error.details}"
        ) from None


async def remove_pods_of(record: NodeRecord, connection: RuntimeConnection) -> None:
    """Remove the sandboxes, containers, mounts, control groups and folders of a node's pods. Raises `RpcError`."""
    for uid in record.pod_uids():
        for sandbox in await connection.runtime.list_pod_sandboxes({POD_UID: uid}):
            await connection.runtime.stop_pod_sandbox(sandbox.id)
            await connection.runtime.remove_pod_sandbox(sandbox.id)
        folder = Path(record.root) / "pods" / uid
        unmount_all(folder)
        try:
            await remove_pod_group(uid, record.cgroup_root)
        except CgroupError as error:
            raise NodeRecordError(str(error)) from None
        if not remove_tree(folder):
            raise NodeRecordError(f"{folder}: something is still mounted there")


async def foreign_pods(record: NodeRecord, connection: RuntimeConnection) -> list[str]:
    """Return the pods of a container runtime that are not of this node, as namespace/name. Raises `RpcError`."""
    own = set(record.pod_uids())
    labels = [one.labels for one in await connection.runtime.list_pod_sandboxes({})]
    found = (one for one in labels if POD_UID in one and one[POD_UID] not in own)
    return sorted({f"{one.get(POD_NAMESPACE, '')}/{one.get(POD_NAME, '')}" for one in found})


async def _remove_pods(record: NodeRecord) -> None:
    connection = await connect_runtime(record.endpoint, _CALL_SECONDS)
    try:
        await remove_pods_of(record, connection)
    finally:
        await connection.channel.close()
