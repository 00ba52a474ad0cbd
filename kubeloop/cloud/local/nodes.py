"""Instances of the local cloud: what a file tells of nodes."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node
from kubeloop.cloud.local.file import LocalFile, LocalNode
from kubeloop.cloud.provider import InstanceMetadata, InstanceNotFound


class LocalInstances:
    """Found by provider id if the node has one, else by name. A file that can't be read is an error, not an answer."""

    def __init__(self, file: LocalFile) -> None:
        self._file = file

    async def exists(self, node: Node) -> bool:
        return self._find(node) is not None

    async def is_shut_down(self, node: Node) -> bool:
        return self._get(node).shut_down

    async def metadata(self, node: Node) -> InstanceMetadata:
        found = self._get(node)
        return InstanceMetadata(
            provider_id=_id_of(found),
            instance_type=found.instance_type,
            addresses=found.addresses,
            zone=found.zone,
            region=found.region,
            labels=found.labels,
        )

    def _get(self, node: Node) -> LocalNode:
        found = self._find(node)
        if found is None:
            raise InstanceNotFound
        return found

    def _find(self, node: Node) -> LocalNode | None:
        wanted, name = node.spec.provider_id, node.metadata.name
        for one in self._file.read().nodes or ():
            if _id_of(one) == wanted if wanted else one.name == name:
                return one
        return None


def _id_of(node: LocalNode) -> str:
    return node.provider_id or f"local://{node.name}"
