# SPDX-License-Identifier: Apache-2.0
"""Certificates of one control plane: created at first start, kept in a folder, renewed when needed.

A start that changes nothing never imports the cryptography package: a stamp file records for which files and
names they were last checked, and until when that holds.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from kubeloop.cli.program.files import write_private, write_public

# User of the API server's client certificate for kubelets.
KUBELET_CLIENT_USER = "kube-apiserver-kubelet-client"
_STAMP = "checked.json"
_RULES = 3  # the number of the rules in `issuing`; files that were checked by older rules are checked again


class PkiFileError(ValueError):
    """File in the folder with unexpected content; the message is one sentence for a user."""


@dataclass(frozen=True, slots=True)
class Pki:
    """Paths of a folder's files, with kubeadm's names."""

    folder: Path

    @property
    def ca(self) -> Path:
        """Certificate of the cluster's CA."""
        return self.folder / "ca.crt"

    @property
    def serving_certificate(self) -> Path:
        """Serving certificate of the API server."""
        return self.folder / "apiserver.crt"

    @property
    def serving_key(self) -> Path:
        """Key of the serving certificate."""
        return self.folder / "apiserver.key"

    @property
    def admin_certificate(self) -> Path:
        """Client certificate of the administrator."""
        return self.folder / "admin.crt"

    @property
    def admin_key(self) -> Path:
        """Key of the administrator's certificate."""
        return self.folder / "admin.key"

    @property
    def account_key(self) -> Path:
        """Key that signs service account tokens."""
        return self.folder / "sa.key"

    @property
    def front_proxy_ca(self) -> Path:
        """CA of front proxy client certificates, which may assert user names."""
        return self.folder / "front-proxy-ca.crt"

    @property
    def front_proxy_certificate(self) -> Path:
        """Client certificate for extension API servers."""
        return self.folder / "front-proxy-client.crt"

    @property
    def front_proxy_key(self) -> Path:
        """Key of the front proxy certificate."""
        return self.folder / "front-proxy-client.key"

    @property
    def kubelet_client_certificate(self) -> Path:
        """Client certificate for kubelets."""
        return self.folder / "apiserver-kubelet-client.crt"

    @property
    def kubelet_client_key(self) -> Path:
        """Key of the kubelet client certificate."""
        return self.folder / "apiserver-kubelet-client.key"

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, CA first."""
        pairs = ("ca", "apiserver", "apiserver-kubelet-client", "admin", "front-proxy-ca", "front-proxy-client")
        names = (*(f"{name}.{end}" for name in pairs for end in ("key", "crt")), "sa.key", "sa.pub")
        return tuple(self.folder / name for name in names)


def ensure_pki(folder: Path, names: Iterable[str], now: datetime) -> Pki:
    """Ensure valid files whose serving certificate covers all names; writes only what is needed."""
    pki = Pki(folder)
    wanted = sorted(set(names))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if _still_good(pki, wanted, now):
        return pki
    from kubeloop.cli.pki.issue import UnusableFile, issue_missing

    found = {path.name: path.read_bytes() for path in pki.files if path.exists()}
    try:
        issued = issue_missing(found, wanted, now)
    except UnusableFile as error:
        raise PkiFileError(f"{folder / error.name}: {error}") from None
    for path in pki.files:
        content = issued.files[path.name]
        if content != found.get(path.name):
            (write_private if path.suffix == ".key" else write_public)(path, content)
    stamp = {"digest": _digest(pki, wanted), "renew": issued.renew_after.isoformat()}
    write_private(folder / _STAMP, json.dumps(stamp).encode())
    return pki


def serving_names(addresses: Iterable[str], service_network: str, hostname: str) -> list[str]:
    """Return every name and address by which clients may reach the server."""
    names = [
        "localhost",
        hostname if hostname.isascii() else "",
        "127.0.0.1",
        "::1",
        str(first_service_address(service_network)),
    ]
    names += ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    names += [one for one in addresses if not _is_any_address(one)]
    return sorted({name for name in names if name})


def first_service_address(service_network: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address of the `kubernetes` Service."""
    return ipaddress.ip_network(service_network)[1]


def _is_any_address(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False


def _still_good(pki: Pki, names: list[str], now: datetime) -> bool:
    try:
        stamp = json.loads((pki.folder / _STAMP).read_bytes())
        return bool(datetime.fromisoformat(stamp["renew"]) > now and stamp["digest"] == _digest(pki, names))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


def _digest(pki: Pki, names: list[str]) -> str:
    digest = hashlib.sha256(json.dumps([_RULES, names]).encode())
    for path in pki.files:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)} ".encode() + content)
    return digest.hexdigest()
