# SPDX-License-Identifier: Apache-2.0
"""Docker configurations: credentials by registry, of pull secrets and of the node's own files."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from kubeloop.clock import Clock

_NODE_CONFIG_SECONDS = 300.0

log = logging.getLogger(__name__)

T = TypeVar("T")


class DockerConfigError(ValueError):
    """Raised for a docker configuration that cannot be decoded."""


@dataclass(frozen=True, slots=True)
class DockerConfigEntry:
    """Credentials of a registry."""

    username: str = ""
    password: str = ""
    email: str = ""


DockerConfig = Mapping[str, DockerConfigEntry]


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    username: str | None = None
    password: str | None = None
    email: str | None = None
    auth: str | None = None


class _DockerConfigJSON(msgspec.Struct, frozen=True, kw_only=True):
    auths: Mapping[str, _Entry] | None = None


def decode_docker_config_json(content: bytes) -> DockerConfig:
    """Decode a `config.json`. Raises `DockerConfigError`."""
    return _entries(_decode(content, _DockerConfigJSON).auths)


def decode_dockercfg(content: bytes) -> DockerConfig:
    """Decode a `.dockercfg`, which has the entries only. Raises `DockerConfigError`."""
    return _entries(_decode(content, dict[str, _Entry]))


def _decode(content: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DockerConfigError(str(error)) from None


def _entries(found: Mapping[str, _Entry] | None) -> DockerConfig:
    return {server: _entry(one) for server, one in (found or {}).items()}


def _entry(found: _Entry) -> DockerConfigEntry:
    username, password = found.username or "", found.password or ""
    if found.auth:
        username, password = _decode_auth(found.auth)
    return DockerConfigEntry(username, password, found.email or "")


def _decode_auth(text: str) -> tuple[str, str]:
    """Return user name and password of the field `auth`, whose padding may be missing."""
    plain = text.replace("\r", "").replace("\n", "")
    padding = "" if text.strip().endswith("=") else "=" * (-len(plain) % 4)
    try:
        decoded = base64.b64decode(plain + padding, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise DockerConfigError(f"illegal base64 data: {error}") from None
    username, colon, password = decoded.partition(":")
    if not colon:
        raise DockerConfigError("unable to parse auth field, must be formatted as base64(username:password)")
    return username, password


class NodeDockerConfig:
    """Credentials of the node itself, for all of its pods; the files are read again after five minutes.

    Of the first folder with a valid `config.json` it is taken, else of the first with a valid `.dockercfg`. The
    folders are those of upstream: the root folder of the kubelet, the working folder, those below home and `/`.
    """

    def __init__(self, root: Path, home: Path, clock: Clock) -> None:
        here, top = Path(), Path("/")
        self._json_folders = (root, here, home / ".docker", top / ".docker")
        self._old_folders = (root, here, home, top)
        self._clock = clock
        self._entries: DockerConfig = {}
        self._expires_at = float("-inf")

    def entries(self) -> DockerConfig:
        """Return the credentials by registry."""
        now = self._clock.monotonic()
        if now >= self._expires_at:
            self._entries, self._expires_at = self._read(), now + _NODE_CONFIG_SECONDS
        return self._entries

    def _read(self) -> DockerConfig:
        files = [(one / "config.json", decode_docker_config_json) for one in self._json_folders]
        files += [(one / ".dockercfg", decode_dockercfg) for one in self._old_folders]
        for file, decode in files:
            try:
                return decode(file.read_bytes())
            except FileNotFoundError:
                continue
            except (OSError, DockerConfigError) as error:
                log.debug("while trying to read %s: %s", file, error)
        return {}
