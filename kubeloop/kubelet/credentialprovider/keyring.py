# SPDX-License-Identifier: Apache-2.0
"""Keyring: finds the credentials of an image among those of registries, with the source of each. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from kubeloop.kubelet.credentialprovider.docker_config import DockerConfig, DockerConfigEntry
from kubeloop.kubelet.credentialprovider.registry_url import RegistryUrlError, is_match, parse_registry_url
from kubeloop.kubelet.cri.messages.image import AuthConfig
from kubeloop.kubelet.images.pull_records import ImagePullCredentials, ImagePullSecret, ImagePullServiceAccount

_DEFAULT_REGISTRY, _DEFAULT_REGISTRY_KEY = "docker.io", "index.docker.io"
# Characters that Go's JSON encoder escapes besides those that JSON requires.
_GO_ESCAPES = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectCoordinates:
    """Secret or service account that credentials come from."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class CredentialSource:
    """Source of credentials; without one they are the node's, for all pods."""

    secret: ObjectCoordinates | None = None
    service_account: ObjectCoordinates | None = None


NODE_SOURCE = CredentialSource()


@dataclass(frozen=True, slots=True)
class TrackedAuthConfig:
    """Credentials of a registry with their source."""

    entry: DockerConfigEntry
    source: CredentialSource = NODE_SOURCE

    @property
    def auth(self) -> AuthConfig:
        """Credentials as the container runtime gets them."""
        return AuthConfig(username=self.entry.username, password=self.entry.password)

    @property
    def pull_credentials(self) -> ImagePullCredentials:
        """Credentials as records of pulls have them."""
        if (secret := self.source.secret) is not None:
            found = ImagePullSecret(
                uid=secret.uid,
                namespace=secret.namespace,
                name=secret.name,
                credential_hash=hash_credentials(self.entry),
            )
            return ImagePullCredentials(kubernetes_secrets=(found,))
        if (account := self.source.service_account) is not None:
            owner = ImagePullServiceAccount(uid=account.uid, namespace=account.namespace, name=account.name)
            return ImagePullCredentials(kubernetes_service_accounts=(owner,))
        return ImagePullCredentials(node_pods_accessible=True)


class DockerKeyring:
    """Credentials by registry and path, in the order in which they were added."""

    def __init__(self) -> None:
        self._found: dict[str, list[TrackedAuthConfig]] = {}

    def add(self, config: DockerConfig, source: CredentialSource = NODE_SOURCE) -> None:
        """Add the entries of a configuration; malformed registries are logged and left out."""
        for server, entry in config.items():
            try:
                key = _key_of(server)
            except RegistryUrlError as error:
                log.error('Entry "%s" in dockercfg invalid (%s), ignoring', server, error)
                continue
            self._found.setdefault(key, []).append(TrackedAuthConfig(entry, source))

    def lookup(self, repository: str) -> list[TrackedAuthConfig]:
        """Return the credentials for a repository: those of the longest names first."""
        names = sorted(self._found, reverse=True)
        found = [one for name in names if is_match(name, repository) for one in self._found[name]]
        if not found and _is_in_default_registry(repository):
            return list(self._found.get(_DEFAULT_REGISTRY_KEY, ()))
        return found


def hash_credentials(entry: DockerConfigEntry) -> str:
    """Return the hash of credentials: of the JSON that upstream makes of them."""
    fields: Mapping[str, str] = {"username": entry.username, "password": entry.password, "email": entry.email}
    text = msgspec.json.encode({name: value for name, value in fields.items() if value}).decode()
    return sha256(text.translate(_GO_ESCAPES).encode()).hexdigest()


def _key_of(server: str) -> str:
    """Return the host and path of an entry; the paths of the registries' versions mean the whole host."""
    url = parse_registry_url(server.removeprefix("https://").removeprefix("http://"))
    path = url.path[3:] if url.path.startswith(("/v1/", "/v2/")) else url.path
    return url.host if path == "/" else f"{url.host}{path}"


def _is_in_default_registry(repository: str) -> bool:
    first, slash, _ = repository.partition("/")
    if not first or not slash or first in (_DEFAULT_REGISTRY, _DEFAULT_REGISTRY_KEY):
        return bool(first)
    return "." not in first and ":" not in first
