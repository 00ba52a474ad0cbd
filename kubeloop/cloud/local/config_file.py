# SPDX-License-Identifier: Apache-2.0
"""Reads `--cloud-config` for the local provider, again whenever the file changes, and finds its instances there."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import Node, NodeAddress
from kubeloop.cloud.provider import InstanceMetadata, InstanceNotFound
from kubeloop.cloud.provider_registry import InvalidProvider

NETWORK = "127.10.0.0/16"
LOOPBACK = IPv4Network("127.0.0.0/8")


class _ConfigSection(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class LoadBalancerSettings(_ConfigSection, frozen=True, kw_only=True):
    """Settings of load balancers."""

    network: str = NETWORK


class RouteSettings(_ConfigSection, frozen=True, kw_only=True):
    """Settings of routes."""

    namespace: str = ""  # the network namespace whose table is used; empty for our own


class LocalNode(_ConfigSection, frozen=True, kw_only=True):
    """A node in the file."""

    name: str
    provider_id: str = msgspec.field(default="", name="providerID")
    instance_type: str = ""
    zone: str = ""
    region: str = ""
    addresses: tuple[NodeAddress, ...] = ()
    labels: dict[str, str] = {}
    shut_down: bool = False


class LocalConfig(_ConfigSection, frozen=True, kw_only=True):
    """Content of the file."""

    load_balancers: LoadBalancerSettings = LoadBalancerSettings()
    nodes: tuple[LocalNode, ...] | None = None  # None: this provider does not manage nodes
    routes: RouteSettings | None = None  # None: the kernel's table is not changed


class LocalFile:
    """The configuration file; defaults apply without a path."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._stamp: tuple[int, int] | None = None
        self._document = LocalConfig()

    def read(self) -> LocalConfig:
        """Return the current content. Raises `InvalidProvider`; then the former content is no longer valid either."""
        if self._path is None:
            return self._document
        try:
            about = self._path.stat()
            stamp = (about.st_mtime_ns, about.st_size)
            if stamp != self._stamp:
                self._document = _parsed(self._path.read_text())
                self._stamp = stamp
        except (OSError, msgspec.ValidationError, ValueError) as error:
            raise InvalidProvider(f"--cloud-config {self._path}: {error}") from None
        return self._document


def _parsed(text: str) -> LocalConfig:
    import yaml

    try:
        plain: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"invalid YAML: {error}") from None
    found = msgspec.convert(plain, LocalConfig)
    if not IPv4Network(found.load_balancers.network).subnet_of(LOOPBACK):
        raise ValueError(f"loadBalancers.network: {found.load_balancers.network} is not within {LOOPBACK}")
    return found


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
