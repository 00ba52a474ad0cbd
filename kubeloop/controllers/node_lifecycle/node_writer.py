"""Writes a node's taints and labels, unless somebody else has written the node meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.client import Client


class NodeWriter:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def write(self, node: Node, taints: tuple[Taint, ...], labels: Mapping[str, str] | None = None) -> bool:
        """Give a node these taints, and these labels beside its own; whether that took a write.

        Raises `Conflict` for a node that is no longer as it was judged: it is to be judged again.
        """
        patch = patch_of(node, taints, labels or {})
        if patch is None:
            return False
        await self._client.patch(Node, node.metadata.name, patch, type=MERGE_PATCH)
        return True


def patch_of(node: Node, taints: tuple[Taint, ...], labels: Mapping[str, str]) -> dict[str, Any] | None:
    """A merge patch that fails if the node has changed meanwhile; None if there is nothing to change."""
    if taints == node.spec.taints and not labels:
        return None
    meta = node.metadata
    patch: dict[str, Any] = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}}
    if labels:
        patch["metadata"]["labels"] = dict(labels)
    if taints != node.spec.taints:
        patch["spec"] = {"taints": codec.to_plain(taints) or None}
    return patch
