"""One object in the several versions that its kind is served in, for managers that speak different ones."""

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
    """Between the versions of a kind; None where there is one, or all are alike, as those of custom resources are."""
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
