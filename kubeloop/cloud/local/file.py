"""What `--cloud-config` says to the local cloud, read anew when the file changes."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.api.generated.core_v1 import NodeAddress
from kubeloop.cloud.provider_registry import UnusableProvider

NETWORK = "127.10.0.0/16"
LOOPBACK = IPv4Network("127.0.0.0/8")


class _Said(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class LoadBalancing(_Said, frozen=True, kw_only=True):
    network: str = NETWORK


class Routing(_Said, frozen=True, kw_only=True):
    namespace: str = ""  # the network namespace whose table is used; empty for our own


class LocalNode(_Said, frozen=True, kw_only=True):
    name: str
    provider_id: str = msgspec.field(default="", name="providerID")
    instance_type: str = ""
    zone: str = ""
    region: str = ""
    addresses: tuple[NodeAddress, ...] = ()
    labels: dict[str, str] = {}
    shut_down: bool = False


class Document(_Said, frozen=True, kw_only=True):
    load_balancers: LoadBalancing = LoadBalancing()
    nodes: tuple[LocalNode, ...] | None = None  # None: nodes are none of this cloud's business
    routes: Routing | None = None  # None: the kernel's table is left alone


class LocalFile:
    """The file, or nothing where no name is given."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._stamp: tuple[int, int] | None = None
        self._document = Document()

    def read(self) -> Document:
        """Raises `UnusableProvider`; what the file said before is then not believed any longer either."""
        if self._path is None:
            return self._document
        try:
            about = self._path.stat()
            stamp = (about.st_mtime_ns, about.st_size)
            if stamp != self._stamp:
                self._document = _parsed(self._path.read_text())
                self._stamp = stamp
        except (OSError, msgspec.ValidationError, ValueError) as error:
            raise UnusableProvider(f"--cloud-config {self._path}: {error}") from None
        return self._document


def _parsed(text: str) -> Document:
    import yaml

    try:
        plain: Any = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(f"no YAML: {error}") from None
    found = msgspec.convert(plain, Document)
    if not IPv4Network(found.load_balancers.network).subnet_of(LOOPBACK):
        raise ValueError(f"loadBalancers.network: {found.load_balancers.network} is not within {LOOPBACK}")
    return found
