# SPDX-License-Identifier: Apache-2.0
"""RESTMapper: resolves a struct class, an object or a name; first in the kinds table, then by discovery.

Names are read as `deployments.apps/v1`: a plural, singular, short name or kind, an optional group, an optional
version. The first match in discovery order counts, as for kubectl.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.client.errors import UsageError

ResourceRef = type | Resource | str


class PartialResource(NamedTuple):
    """Reference to a resource; an empty version means any, a group of None any."""

    name: str
    group: str | None = None
    version: str = ""

    def __str__(self) -> str:
        return self.name + (f".{self.group}" if self.group else "") + (f"/{self.version}" if self.version else "")


def _by_class(resources: Iterable[Resource]) -> dict[tuple[str, str], Resource]:
    table: dict[tuple[str, str], Resource] = {}
    for resource in resources:
        package, version, kind = resource.definition.rsplit(".", 2)
        module = f"kubeloop.api.generated.{package.rpartition('.')[2]}_{version}"
        table.setdefault((module, kind), resource)
    return table


@cache
def _default_resources() -> dict[tuple[str, str], Resource]:
    return _by_class(RESOURCES)


@cache
def _optional_resources() -> dict[tuple[str, str], Resource]:
    from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES  # needed by few programs

    return _by_class(OPTIONAL_RESOURCES)


@cache
def _resources_by_name() -> dict[str, tuple[Resource, ...]]:
    table: dict[str, tuple[Resource, ...]] = {}
    for resource in RESOURCES:
        for word in names_of(resource):
            table[word] = (*table.get(word, ()), resource)
    return table


def names_of(resource: Resource) -> set[str]:
    """Return all names of a resource."""
    return {resource.plural, resource.singular, resource.kind, *resource.short_names}


def find_resource_of_class(cls: type) -> Resource | None:
    """Return the resource whose objects are of a struct class; None if there is none."""
    key = (cls.__module__, cls.__name__)
    return _default_resources().get(key) or _optional_resources().get(key)


def resource_of_class(cls: type) -> Resource:
    """Return the resource whose objects are of a struct class."""
    found = find_resource_of_class(cls)
    if found is None:
        raise UsageError(f"{cls.__name__} is not the class of a resource")
    return found


def parse_resource(what: str) -> PartialResource:
    """Parse a resource name."""
    text, _, version = what.partition("/")
    word, dot, group = text.partition(".")
    if not word or (version and not _is_version(version)):
        raise UsageError(f"{what!r} is not a resource; write it as plural.group/version")
    return PartialResource(word, group if dot or version else None, version)


def resource_of_object(obj: Mapping[str, Any]) -> PartialResource:
    """Return the resource reference of a mapping with apiVersion and kind."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if not kind or not api_version:
        raise UsageError("an object given as a mapping must have apiVersion and kind")
    group, _, version = str(api_version).rpartition("/")
    return PartialResource(str(kind), group, version)


@cache
def find_built_in(wanted: PartialResource) -> Resource | None:
    """Return the matching resource of the kinds table, if there is one.

    Alpha and beta versions match only if they are named in full; the others are left to discovery.
    """
    for resource in _resources_by_name().get(wanted.name, ()):
        if wanted.group in (None, resource.group) and wanted.version in ("", resource.version):
            return resource
    if wanted.group is None or "a" not in wanted.version:  # neither alpha nor beta
        return None
    return next((one for one in _optional_resources().values() if _matches(one, wanted)), None)


def _matches(resource: Resource, wanted: PartialResource) -> bool:
    is_version = (resource.group, resource.version) == (wanted.group, wanted.version)
    return is_version and wanted.name in names_of(resource)


def _is_version(text: str) -> bool:
    return text.startswith("v") and text[1:2].isdigit() and text.isalnum()
