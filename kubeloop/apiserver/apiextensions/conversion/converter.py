# SPDX-License-Identifier: Apache-2.0
"""Conversion of one object between the versions of its kind, built in or by webhook."""

from __future__ import annotations

from typing import Any

from kubeloop.api.conversion import to_served_version, to_storage_version
from kubeloop.api.kinds import Resource
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.apiserver.apiextensions.resource import CustomResource


async def convert(obj: Any, source: Resource, target: Resource) -> Any:
    """Return the object converted to the target's version; the same object if the versions are equal."""
    if source is target or source.group_version == target.group_version:
        return obj
    if isinstance(source, CustomResource) and source.conversion is not None and isinstance(target, CustomResource):
        from kubeloop.apiserver.apiextensions.conversion.serializer import decode_converted

        value = await source.conversion.convert(obj.stored_bytes(), target.group_version)
        return decode_converted(value, target, obj.metadata.resource_version)
    if isinstance(target, CustomResource):
        renamed = CustomResourceObject(target.kind, target.group_version, obj.metadata, target.rules)
        renamed.update({name: value for name, value in obj.items() if name not in ("kind", "apiVersion", "metadata")})
        return renamed
    return to_served_version(to_storage_version(obj, source), target)
