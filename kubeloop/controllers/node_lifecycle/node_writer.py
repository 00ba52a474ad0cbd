# SPDX-License-Identifier: Apache-2.0
"""Writes a node's taints and labels with its version as precondition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.api.requests import MERGE_PATCH
from kubeloop.client import Client


class NodeWriter:
    """Writer of taints and labels."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def write(self, node: Node, taints: tuple[Taint, ...], labels: Mapping[str, str] | None = None) -> bool:
        """Set these taints and add these labels; returns True if that took a write.

        Raises `Conflict` for a node that has changed meanwhile and must be evaluated again.
        """
        patch = patch_of(node, taints, labels or {})
        if patch is None:
            return False
        await self._client.patch(Node, node.metadata.name, patch, type=MERGE_PATCH)
        return True


def patch_of(node: Node, taints: tuple[Taint, ...], labels: Mapping[str, str]) -> dict[str, Any] | None:
    """Build a merge patch that fails if the node has changed meanwhile; None if there is nothing to change."""
    if taints == node.spec.taints and not labels:
        return None
    meta = node.metadata
    patch: dict[str, Any] = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}}
    if labels:
        patch["metadata"]["labels"] = dict(labels)
    if taints != node.spec.taints:
        patch["spec"] = {"taints": codec.to_plain(taints) or None}
    return patch
