# SPDX-License-Identifier: Apache-2.0
"""Conversion of an object between the served versions of its kind, for field managers of different versions."""

from __future__ import annotations

from functools import cache
from typing import Any

from kubeloop.api import codec
from kubeloop.api.apply.change import Convert
from kubeloop.api.conversion import has_differing_versions, to_served_version, to_storage_version
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.schema import SchemaNode
from kubeloop.apiserver.decoding import decode_document


def conversion_of(resource: Resource) -> Convert | None:
    """Return the conversion between a kind's versions; None if there is one version or all are equal.

    The versions of custom resources count as equal here.
    """
    return (
        None
        if resource.is_custom or not has_differing_versions(resource.kind)
        else _conversion_under(resource.key_prefix)
    )


@cache
def _conversion_under(key_prefix: str) -> Convert:
    from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES  # few kinds have versions that differ

    known = (*RESOURCES, *OPTIONAL_RESOURCES)
    versions = {each.group_version: each for each in known if each.key_prefix == key_prefix}

    def convert(plain: dict[str, Any], version: str) -> tuple[dict[str, Any], SchemaNode] | None:
        target = versions.get(version)
        if target is None:
            return None
        source = versions[plain["apiVersion"]]
        obj = decode_document(plain, source, "Ignore").obj
        return codec.to_plain(to_served_version(to_storage_version(obj, source), target)), target.schema_node

    return convert
