"""Instances of the local provider, from its file."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Node
from kubeloop.cloud.local.file import LocalFile, LocalNode
from kubeloop.cloud.provider import InstanceMetadata, InstanceNotFound


class LocalInstances:
    """Finds instances by provider ID, or else by name; an unreadable file is an error, not an absence."""

    def __init__(self, file: LocalFile) -> None:
        self._file = file

    async def exists(self, node: Node) -> bool:
        """Return True if the file lists the node."""
        return self._find(node) is not None

    async def is_shut_down(self, node: Node) -> bool:
        """Return True if the file marks the node as shut down."""
        return self._get(node).shut_down

    async def metadata(self, node: Node) -> InstanceMetadata:
        """Return the metadata of the node; raises InstanceNotFound."""
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
