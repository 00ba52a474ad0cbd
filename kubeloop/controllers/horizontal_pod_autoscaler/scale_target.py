# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the scale subresource of an autoscaler's target, found through discovery."""

from __future__ import annotations

from typing import Any

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.generated.autoscaling_v1 import Scale, ScaleSpec
from kubeloop.api.generated.autoscaling_v2 import CrossVersionObjectReference
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.client import Client
from kubeloop.client.errors import NoKindMatchError, TransportError

_TRIES = 5  # attempts to write a scale that others write too


class ScaleError(Exception):
    """Raised if the scale can't be read or written; the message gives the reason."""


class InvalidReference(ScaleError):
    """Raised if the autoscaler's reference is invalid."""


class ScaleTarget:
    """An object with a scale."""

    def __init__(self, client: Client, resource: Resource, namespace: str, scale: Scale) -> None:
        self._client = client
        self._resource = resource
        self._namespace = namespace
        self.scale = scale

    async def resize(self, replicas: int) -> None:
        """Write the size, overwriting concurrent changes."""
        for attempt in range(1, _TRIES + 1):
            try:
                await self._write(replicas)
                return
            except errors.Conflict as error:
                if attempt == _TRIES:
                    raise ScaleError(str(error)) from error
                self.scale = await _read(self._client, self._resource, self._namespace, self.scale.metadata.name)
            except (errors.ApiError, TransportError, TimeoutError) as error:
                raise ScaleError(str(error)) from error

    async def _write(self, replicas: int) -> None:
        scale = msgspec.structs.replace(self.scale, spec=ScaleSpec(replicas=replicas))
        name = scale.metadata.name
        await self._client.update_subresource(self._resource, name, "scale", scale, self._namespace)


async def find_target(client: Client, namespace: str, reference: CrossVersionObjectReference) -> ScaleTarget:
    """Return the target with its current scale. Raises `ScaleError`."""
    try:
        resource = await _resource_of(client, reference)
        scale = await _read(client, resource, namespace, reference.name)
    except (errors.ApiError, TransportError, TimeoutError) as error:
        raise ScaleError(str(error)) from error
    return ScaleTarget(client, resource, namespace, scale)


async def _resource_of(client: Client, reference: CrossVersionObjectReference) -> Resource:
    group, version = _parsed(reference.api_version)
    named = f"{reference.kind}.{group}" if group else reference.kind
    # Any version is acceptable: only group and kind matter.
    for word in (f"{named}/{version}" if version else "", named if group else f"{named}/v1"):
        if word:
            try:
                return await client.resolve(word)
            except NoKindMatchError:
                continue
    raise ScaleError(f"no matches for kind {quote(reference.kind)} in group {quote(group)}")


def _parsed(api_version: str) -> tuple[str, str]:
    if api_version.count("/") > 1:
        raise InvalidReference(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    return group, version


async def _read(client: Client, resource: Resource, namespace: str, name: str) -> Scale:
    found: Any = await client.get(resource, name, namespace, subresource="scale")
    return found if isinstance(found, Scale) else codec.from_plain(dict(found), Scale)
