"""Conversion of an object between the served versions of its kind, for field managers of different versions."""

from __future__ import annotations

from functools import cache
from typing import Any

from kubeloop.api import codec
from kubeloop.api.apply.change import Convert
from kubeloop.api.conversion import differs, to_served, to_stored
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.schema import Node
from kubeloop.apiserver.decoding import decode_document


def conversion_of(resource: Resource) -> Convert | None:
    """Return the conversion between a kind's versions; None if there is one version or all are equal.

    The versions of custom resources count as equal here.
    """
    return None if resource.is_custom or not differs(resource.kind) else _conversion_under(resource.key_prefix)


@cache
def _conversion_under(key_prefix: str) -> Convert:
    from kubeloop.api.features.optional_resources import OFFERED  # few kinds have versions that differ

    known = (*RESOURCES, *OFFERED)
    versions = {each.group_version: each for each in known if each.key_prefix == key_prefix}

    def convert(plain: dict[str, Any], version: str) -> tuple[dict[str, Any], Node] | None:
        target = versions.get(version)
        if target is None:
            return None
        source = versions[plain["apiVersion"]]
        obj = decode_document(plain, source, "Ignore").obj
        return codec.to_plain(to_served(to_stored(obj, source), target)), target.node

    return convert
