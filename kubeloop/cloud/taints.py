# SPDX-License-Identifier: Apache-2.0
"""Cloud taints of nodes, added and removed by patches with the version as precondition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.client import Client

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN = Taint(key="node.cloudprovider.kubernetes.io/shutdown", effect="NoSchedule")


def has_taint(node: Node, key: str) -> bool:
    """Return True if the node has a taint with this key."""
    return any(one.key == key for one in node.spec.taints)


def without_taint(taints: Iterable[Taint], key: str) -> tuple[Taint, ...]:
    """Return the taints without those of this key."""
    return tuple(one for one in taints if one.key != key)


def preconditions_of(node: Node) -> dict[str, Any]:
    """Return the UID and version with which a patch applies only to this state, so that no other taint is lost."""
    return {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}


def plain_taints(taints: Iterable[Taint]) -> list[Any]:
    """Convert taints to their plain form."""
    return [codec.to_plain(one) for one in taints]


async def ensure_shutdown_taint(client: Client, node: Node) -> None:
    """Add the shutdown taint if it is missing."""
    if not _is_shut_down(node):
        await _write(client, node, (*node.spec.taints, SHUTDOWN))


async def remove_shutdown_taint(client: Client, node: Node) -> None:
    """Remove the shutdown taint if the node has it."""
    if _is_shut_down(node):
        await _write(client, node, tuple(one for one in node.spec.taints if not _is_about_shutdown(one)))


def _is_shut_down(node: Node) -> bool:
    return any(map(_is_about_shutdown, node.spec.taints))


def _is_about_shutdown(taint: Taint) -> bool:
    return (taint.key, taint.effect) == (SHUTDOWN.key, SHUTDOWN.effect)


async def _write(client: Client, node: Node, taints: tuple[Taint, ...]) -> None:
    patch = {"metadata": preconditions_of(node), "spec": {"taints": plain_taints(taints)}}
    await client.patch(Node, node.metadata.name, patch)
