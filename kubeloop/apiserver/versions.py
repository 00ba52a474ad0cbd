"""One object in the several versions that its kind is served in, for managers that speak different ones."""

from __future__ import annotations

from functools import cache
from typing import Any

from kubeloop.api import codec
from kubeloop.api.apply.change import Convert
from kubeloop.api.conversion import to_served, to_stored
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.schema import Node
from kubeloop.apiserver.decoding import decode_document


def conversion_of(resource: Resource) -> Convert | None:
    """Between the versions of a kind; None for most, which have one, and for custom ones, which are all alike."""
    return None if resource.is_custom else _conversion_under(resource.key_prefix)


@cache
def _conversion_under(key_prefix: str) -> Convert | None:
    versions = {each.group_version: each for each in RESOURCES if each.key_prefix == key_prefix}
    if len(versions) < 2:
        return None

    def convert(plain: dict[str, Any], version: str) -> tuple[dict[str, Any], Node] | None:
        target = versions.get(version)
        if target is None:
            return None
        source = versions[plain["apiVersion"]]
        obj = decode_document(plain, source, "Ignore").obj
        return codec.to_plain(to_served(to_stored(obj, source), target)), target.node

    return convert
