# SPDX-License-Identifier: Apache-2.0
"""Credentials of a pod for an image: of its pull secrets, then of the node's files, then of plugins."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Pod, Secret
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.credentialprovider.docker_config import (
    DockerConfig,
    NodeDockerConfig,
    decode_docker_config_json,
    decode_dockercfg,
)
from kubeloop.kubelet.credentialprovider.exec_plugin import ExecPlugin, PluginError
from kubeloop.kubelet.credentialprovider.keyring import (
    CredentialSource,
    DockerKeyring,
    ObjectCoordinates,
    TrackedAuthConfig,
)
from kubeloop.kubelet.credentialprovider.plugin_provider import PluginProvider
from kubeloop.kubelet.credentialprovider.plugin_tokens import PluginTokens
from kubeloop.kubelet.credentialprovider.provider_config import CredentialProvider

_SECRET_FORMS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson", decode_docker_config_json),
    "kubernetes.io/dockercfg": (".dockercfg", decode_dockercfg),
}

log = logging.getLogger(__name__)


class PullKeyring:
    """Finds the credentials of image pulls."""

    def __init__(self, client: Client, node: NodeDockerConfig, plugins: Iterable[PluginProvider] = ()) -> None:
        self._client = client
        self._node = node
        self._plugins = tuple(plugins)

    async def lookup(self, pod: Pod, repository: str) -> list[TrackedAuthConfig]:
        """Return the credentials in the order in which they are tried. Raises `DockerConfigError`."""
        secrets, node, plugins = DockerKeyring(), DockerKeyring(), DockerKeyring()
        for secret in await self._read_secrets(pod):
            about = secret.metadata
            source = CredentialSource(secret=ObjectCoordinates(about.uid, about.namespace, about.name))
            secrets.add(decode_pull_secret(secret), source)
        node.add(self._node.entries())
        for plugin in self._plugins:
            try:
                config, source = await plugin.provide(pod, repository)
            except PluginError as error:
                log.error("Failed to provide credentials for image %s, provider %s: %s", repository, plugin.name, error)
                continue
            plugins.add(config, source)
        return [one for keyring in (secrets, node, plugins) for one in keyring.lookup(repository)]

    async def _read_secrets(self, pod: Pod) -> list[Secret]:
        """Return the pull secrets of a pod; the pull is tried without those that cannot be read, as upstream does."""
        found = []
        namespace = pod.metadata.namespace
        for name in (one.name for one in pod.spec.image_pull_secrets):
            if not name:
                continue
            try:
                found.append(await self._client.get(Secret, name, namespace))
            except ApiError as error:
                about = f"{namespace}/{pod.metadata.name}"
                log.info("Unable to retrieve pull secret %s/%s for pod %s: %s", namespace, name, about, error)
        return found


def decode_pull_secret(secret: Secret) -> DockerConfig:
    """Return the credentials of a secret; none if its type is another one. Raises `DockerConfigError`."""
    form = _SECRET_FORMS.get(secret.type)
    if form is None:
        return {}
    key, decode = form
    content = secret.data.get(key, b"")
    return decode(content) if content else {}


def new_plugin_providers(
    providers: Iterable[CredentialProvider], folder: Path, tokens: PluginTokens | None, clock: Clock
) -> tuple[PluginProvider, ...]:
    """Return the plugins of a configuration, whose programs are in a folder."""
    return tuple(PluginProvider(one, ExecPlugin(one, folder), tokens, clock) for one in providers)
