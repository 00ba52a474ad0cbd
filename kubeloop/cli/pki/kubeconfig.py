# SPDX-License-Identifier: Apache-2.0
"""Administrator's kubeconfig: written if there is none, merged into an existing one, and removed again."""

from __future__ import annotations

import base64
import ipaddress
from pathlib import Path
from typing import Any

from kubeloop.cli.pki.files import Pki
from kubeloop.cli.program.files import write_private

NAME = "kubeloop"
_PARTS = ("clusters", "users", "contexts")
_TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {name}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
current-context: {name}
"""


class KubeconfigError(ValueError):
    """File to merge into that is not a kubeconfig; the message is one sentence for a user."""


def admin_kubeconfig(pki: Pki, ca: Path, server: str, name: str = NAME) -> str:
    """Return a kubeconfig that needs no other file; cluster, user and context have one name."""
    return _TEMPLATE.format(
        name=name,
        server=server,
        ca=_encoded(ca),
        certificate=_encoded(pki.admin_certificate),
        key=_encoded(pki.admin_key),
    )


def write_kubeconfig(path: Path, text: str, *, switch: bool = False) -> None:
    """Write or merge the kubeconfig; other clusters, users and contexts in it stay.

    A current context stays too, unless `switch` is set.
    """
    found = path.read_text() if path.exists() else ""
    if found == text:
        return
    if found.strip() and _frame_of(found) != _frame_of(text):
        text = _merged(path, found, text, switch)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path.resolve(), text.encode())


def server_url(bind_address: str, port: int) -> str:
    """Return the URL by which a local client reaches a server bound to an address."""
    address = ipaddress.ip_address(bind_address)
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    host = f"[{address}]" if address.version == 6 else str(address)
    return f"https://{host}:{port}"


def _frame_of(text: str) -> list[str]:
    """Return a kubeconfig without its variable parts: equal for two that we wrote ourselves."""
    return [line.partition(": ")[0] if "-data: " in line or "server: " in line else line for line in text.splitlines()]


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def remove_context(path: Path, name: str) -> None:
    """Remove a context with its cluster and user from a kubeconfig; a file without any other is deleted."""
    import yaml

    try:
        document = _parsed(path, path.read_text())
    except FileNotFoundError:
        return
    for part in _PARTS:
        document[part] = _others(document.get(part), name)
    if not any(document[part] for part in _PARTS):
        path.unlink()
        return
    if document.get("current-context") == name:
        document["current-context"] = ""
    write_private(path.resolve(), yaml.safe_dump(document, sort_keys=False).encode())


def _merged(path: Path, found: str, text: str, switch: bool) -> str:
    import yaml

    old, new = _parsed(path, found), yaml.safe_load(text)
    name = new["current-context"]
    for part in _PARTS:
        old[part] = [*_others(old.get(part), name), *new[part]]
    current = name if switch else old.get("current-context") or name
    merged: str = yaml.safe_dump(
        old | {"apiVersion": "v1", "kind": "Config", "current-context": current}, sort_keys=False
    )
    return merged


def _parsed(path: Path, text: str) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        document = None
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise KubeconfigError(f"{path} exists and is not a kubeconfig; it is not overwritten")
    return document


def _others(entries: Any, name: str) -> list[Any]:
    return [entry for entry in entries or [] if not (isinstance(entry, dict) and entry.get("name") == name)]
