"""The taints by which a cloud speaks about nodes, put on and taken off by patches that fail if others were faster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, Taint
from kubeloop.client import Client

UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN = Taint(key="node.cloudprovider.kubernetes.io/shutdown", effect="NoSchedule")


def has_taint(node: Node, key: str) -> bool:
    return any(one.key == key for one in node.spec.taints)


def without_taint(taints: Iterable[Taint], key: str) -> tuple[Taint, ...]:
    return tuple(one for one in taints if one.key != key)


def identity_of(node: Node) -> dict[str, Any]:
    """For a patch that must meet exactly this state: a list is replaced as a whole, and nobody's taint may be lost."""
    return {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}


def plain(taints: Iterable[Taint]) -> list[Any]:
    return [codec.to_plain(one) for one in taints]


async def ensure_shutdown_taint(client: Client, node: Node) -> None:
    if not _is_shut_down(node):
        await _write(client, node, (*node.spec.taints, SHUTDOWN))


async def remove_shutdown_taint(client: Client, node: Node) -> None:
    if _is_shut_down(node):
        await _write(client, node, tuple(one for one in node.spec.taints if not _is_about_shutdown(one)))


def _is_shut_down(node: Node) -> bool:
    return any(map(_is_about_shutdown, node.spec.taints))


def _is_about_shutdown(taint: Taint) -> bool:
    return (taint.key, taint.effect) == (SHUTDOWN.key, SHUTDOWN.effect)


async def _write(client: Client, node: Node, taints: tuple[Taint, ...]) -> None:
    patch = {"metadata": identity_of(node), "spec": {"taints": plain(taints)}}
    await client.patch(Node, node.metadata.name, patch)
