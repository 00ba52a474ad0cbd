# SPDX-License-Identifier: Apache-2.0
"""Conversion between a kind's served versions and its storage version. Most kinds have only one version."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kubeloop.api.kinds import Resource, definition_of

Version = tuple[str, str]

_DEVICES, _OLD_DEVICES = ("resource.k8s.io", "v1"), ("resource.k8s.io", "v1beta1")

# (from, to, kind) to the converter; imported on first use.
_CONVERTERS: dict[tuple[Version, Version, str], str] = {
    (("", "v1"), ("events.k8s.io", "v1"), "Event"): "events:to_events",
    (("events.k8s.io", "v1"), ("", "v1"), "Event"): "events:to_core",
    (("autoscaling", "v2"), ("autoscaling", "v1"), "HorizontalPodAutoscaler"): "autoscaling:to_v1",
    (("autoscaling", "v1"), ("autoscaling", "v2"), "HorizontalPodAutoscaler"): "autoscaling:to_v2",
    (_OLD_DEVICES, _DEVICES, "ResourceClaim"): "devices:claim_to_v1",
    (_DEVICES, _OLD_DEVICES, "ResourceClaim"): "devices:claim_to_v1beta1",
    (_OLD_DEVICES, _DEVICES, "ResourceClaimTemplate"): "devices:template_to_v1",
    (_DEVICES, _OLD_DEVICES, "ResourceClaimTemplate"): "devices:template_to_v1beta1",
    (_OLD_DEVICES, _DEVICES, "ResourceSlice"): "devices:slice_to_v1",
    (_DEVICES, _OLD_DEVICES, "ResourceSlice"): "devices:slice_to_v1beta1",
}
_DIFFERING = frozenset(kind for _, _, kind in _CONVERTERS)


def has_differing_versions(kind: str) -> bool:
    """Return True if the versions of a kind differ in more than their name."""
    return kind in _DIFFERING


def converter(source: Version, target: Version, kind: str) -> Callable[[Any], Any]:
    """Return the function that converts a struct between two versions.

    Versions that are not in the table differ in name only.
    """
    if (source, target, kind) not in _CONVERTERS:
        from kubeloop.api.conversions.same_fields import to_version

        return to_version(definition_of("/".join(target), kind))
    module, _, name = _CONVERTERS[source, target, kind].partition(":")

    def convert(obj: Any) -> Any:
        return getattr(import_module(f"kubeloop.api.conversions.{module}"), name)(obj)

    return convert


def to_storage_version(obj: Any, resource: Resource) -> Any:
    """Convert an object from the served version to the storage version."""
    if resource.storage_override is None:
        return obj
    return converter((resource.group, resource.version), resource.storage_override, resource.kind)(obj)


def to_served_version(obj: Any, resource: Resource) -> Any:
    """Convert a stored object to the version of a resource."""
    if resource.storage_override is None:
        return obj
    return converter(resource.storage_override, (resource.group, resource.version), resource.kind)(obj)
