# SPDX-License-Identifier: Apache-2.0
"""Environment values from ConfigMaps and Secrets, looked up when a container is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import ConfigMap, Container, EnvVarSource, Pod, Secret
from kubeloop.client import Client
from kubeloop.kubelet.runtime import ContainerStartError, EnvSourceValues

CONFIG_ERROR = "CreateContainerConfigError"


class EnvSources(Protocol):
    """Source of environment values."""

    async def resolve(self, pod: Pod, container: Container) -> EnvSourceValues | None:
        """Return the values a container's environment refers to; None without any. Raises `ContainerStartError`."""


class _Reference(NamedTuple):
    """Reference to a ConfigMap or Secret by name."""

    is_secret: bool
    name: str
    is_optional: bool


class ApiEnvSources:
    """Reads values from the API server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def resolve(self, pod: Pod, container: Container) -> EnvSourceValues | None:
        """Return the values a container's environment refers to; None without any. Raises `ContainerStartError`."""
        if not has_env_references(container):
            return None
        return EnvSourceValues(await self._env_from_values(pod, container), await self._env_values(pod, container))

    async def _env_from_values(self, pod: Pod, container: Container) -> dict[str, str]:
        """Return all entries of the envFrom sources, with their prefixes."""
        values: dict[str, str] = {}
        for source in container.env_from:
            for one, is_secret in ((source.config_map_ref, False), (source.secret_ref, True)):
                if one is not None:
                    held = await self._fetch(pod, _Reference(is_secret, one.name, bool(one.optional)))
                    values.update({f"{source.prefix}{key}": value for key, value in (held or {}).items()})
        return values

    async def _env_values(self, pod: Pod, container: Container) -> dict[str, str]:
        """Return the entries of valueFrom references, by variable."""
        values: dict[str, str] = {}
        for variable in container.env:
            value = await self._value(pod, variable.value_from) if variable.value_from is not None else None
            if value is not None:
                values[variable.name] = value
        return values

    async def _value(self, pod: Pod, source: EnvVarSource) -> str | None:
        one = source.config_map_key_ref or source.secret_key_ref
        if one is None:
            return None
        reference = _Reference(source.secret_key_ref is not None, one.name, bool(one.optional))
        held = await self._fetch(pod, reference)
        if held is None:
            return None
        if one.key not in held and not reference.is_optional:
            kind = "Secret" if reference.is_secret else "ConfigMap"
            message = f"couldn't find key {one.key} in {kind} {pod.metadata.namespace}/{one.name}"
            raise ContainerStartError(CONFIG_ERROR, message)
        return held.get(one.key)

    async def _fetch(self, pod: Pod, reference: _Reference) -> Mapping[str, str] | None:
        """Return the entries of a ConfigMap or Secret; None if it is missing and optional."""
        try:
            if not reference.is_secret:
                return (await self._client.get(ConfigMap, reference.name, pod.metadata.namespace)).data
            secret = await self._client.get(Secret, reference.name, pod.metadata.namespace)
            return {key: value.decode("utf-8", "replace") for key, value in secret.data.items()}
        except NotFound:
            if reference.is_optional:
                return None
            kind = "secret" if reference.is_secret else "configmap"
            raise ContainerStartError(CONFIG_ERROR, f'{kind} "{reference.name}" not found') from None


def has_env_references(container: Container) -> bool:
    """Return True if a container refers to ConfigMaps or Secrets."""
    if container.env_from:
        return True
    sources = (one.value_from for one in container.env if one.value_from is not None)
    return any(one.config_map_key_ref is not None or one.secret_key_ref is not None for one in sources)
