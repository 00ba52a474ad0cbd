"""Between a kind's served versions and the one it is stored in. Most kinds have one version, and nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kubeloop.api.kinds import Resource

Version = tuple[str, str]

# (from, to, kind) to the function that converts; imported when first needed.
_CONVERTERS: dict[tuple[Version, Version, str], str] = {
    (("", "v1"), ("events.k8s.io", "v1"), "Event"): "events:to_events",
    (("events.k8s.io", "v1"), ("", "v1"), "Event"): "events:to_core",
    (("autoscaling", "v2"), ("autoscaling", "v1"), "HorizontalPodAutoscaler"): "autoscaling:to_v1",
    (("autoscaling", "v1"), ("autoscaling", "v2"), "HorizontalPodAutoscaler"): "autoscaling:to_v2",
}


def converter(source: Version, target: Version, kind: str) -> Callable[[Any], Any]:
    """The function that turns a struct of one version into another's."""
    module, _, name = _CONVERTERS[source, target, kind].partition(":")

    def convert(obj: Any) -> Any:
        return getattr(import_module(f"kubeloop.api.conversions.{module}"), name)(obj)

    return convert


def to_stored(obj: Any, resource: Resource) -> Any:
    """An object of the served version as it is stored."""
    if resource.stored_as is None:
        return obj
    return converter((resource.group, resource.version), resource.stored_as, resource.kind)(obj)


def to_served(obj: Any, resource: Resource) -> Any:
    """A stored object as a resource's version shows it."""
    if resource.stored_as is None:
        return obj
    return converter(resource.stored_as, (resource.group, resource.version), resource.kind)(obj)
