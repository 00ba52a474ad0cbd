"""Administrator's kubeconfig: written if there is none, merged into an existing one."""

from __future__ import annotations

import base64
import ipaddress
from pathlib import Path
from typing import Any

from kubeloop.cli.pki.files import Pki
from kubeloop.cli.program.files import write_private

NAME = "kubeloop"
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


def admin_kubeconfig(pki: Pki, ca: Path, server: str) -> str:
    """Return a kubeconfig that needs no other file."""
    return _TEMPLATE.format(
        name=NAME,
        server=server,
        ca=_encoded(ca),
        certificate=_encoded(pki.admin_certificate),
        key=_encoded(pki.admin_key),
    )


def write_kubeconfig(path: Path, text: str) -> None:
    """Write or merge the kubeconfig; other clusters, users and contexts in it stay."""
    found = path.read_text() if path.exists() else ""
    if found == text:
        return
    if found.strip() and _frame_of(found) != _frame_of(text):
        text = _merged(path, found, text)
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


def _merged(path: Path, found: str, text: str) -> str:
    import yaml

    try:
        old = yaml.safe_load(found)
    except yaml.YAMLError:
        old = None
    if not isinstance(old, dict) or old.get("kind", "Config") != "Config":
        raise KubeconfigError(f"{path} exists and is not a kubeconfig; it is not overwritten")
    new = yaml.safe_load(text)
    for part in ("clusters", "users", "contexts"):
        old[part] = [*_others(old.get(part)), *new[part]]
    old |= {"apiVersion": "v1", "kind": "Config", "current-context": NAME}
    merged: str = yaml.safe_dump(old, sort_keys=False)
    return merged


def _others(entries: Any) -> list[Any]:
    return [entry for entry in entries or [] if not (isinstance(entry, dict) and entry.get("name") == NAME)]
