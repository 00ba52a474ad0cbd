# SPDX-License-Identifier: Apache-2.0
"""Custom resource in one version, created from its CRD at run time."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from kubeloop.api import codec
from kubeloop.api.generated import apiextensions_v1
from kubeloop.api.kinds import SCALE, STATUS, Resource, Subresource
from kubeloop.api.scalars.wire import NO_JSON
from kubeloop.api.schema import SchemaNode
from kubeloop.api.structural.custom_resource_rules import ScalePaths, VersionRules
from kubeloop.api.structural.instance import CustomResourceObject

if TYPE_CHECKING:
    from kubeloop.apiserver.apiextensions.conversion.cache import Conversions, VersionConversion

Definition = apiextensions_v1.CustomResourceDefinition
Version = apiextensions_v1.CustomResourceDefinitionVersion
Names = apiextensions_v1.CustomResourceDefinitionNames

# In upstream's order.
VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_KUBE_VERSION: Final = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_STABILITY: Final = {"alpha": 1, "beta": 2, None: 3}


@dataclass(frozen=True, eq=False, kw_only=True)
class CustomResource(Resource):
    """Resource of a CRD's version, compared by identity: another schema means another resource."""

    names: Names
    rules: VersionRules
    stored_in: str
    columns: tuple[apiextensions_v1.CustomResourceColumnDefinition, ...] = ()
    selectable: tuple[str, ...] = ()
    # True if all versions have the same schema, so that stored objects look the same in all.
    has_equal_schemas: bool = True
    conversion: VersionConversion | None = None  # set if a webhook converts between versions

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def is_custom(self) -> bool:
        """Always True."""
        return True

    @cached_property
    def singular(self) -> str:
        """Singular name."""
        return self.names.singular

    @cached_property
    def list_kind(self) -> str:
        """Kind of lists."""
        return self.names.list_kind

    @cached_property
    def definition(self) -> str:
        """OpenAPI definition name: `stable.example.com/v1`, `CronTab` is `com.example.stable.v1.CronTab`."""
        return ".".join((*reversed(self.group.split(".")), self.version, self.kind))

    @cached_property
    def type(self) -> Any:
        """Class of the decoded objects."""
        return CustomResourceObject

    @cached_property
    def schema_node(self) -> SchemaNode:
        """Schema node for field managers."""
        return self.rules.node

    @cached_property
    def key_prefix(self) -> str:
        """Key prefix in the store."""
        return f"/registry/{self.group}/{self.plural}/"

    @cached_property
    def storage_version_hash(self) -> str:
        """Hash of the storage version, for discovery."""
        digest = hashlib.sha256(f"{self.group}/{self.stored_in}/{self.kind}".encode()).digest()
        return base64.b64encode(digest[:8]).decode()


def resources_of(definition: Definition, names: Names, conversions: Conversions | None = None) -> list[CustomResource]:
    """Return the served versions of a CRD under its accepted names, best version first."""
    versions = definition.spec.versions or ()
    stored = next(version.name for version in versions if version.storage)
    schemas = {version.name: _schema_bytes(version) for version in versions}
    alike = len(set(schemas.values())) == 1
    served = sorted((version for version in versions if version.served), key=lambda one: version_priority_key(one.name))
    made = [_resource(definition, names, version, schemas[version.name], stored, alike) for version in served]
    return made if conversions is None else [_converted(resource, conversions) for resource in made]


def _converted(resource: CustomResource, conversions: Conversions) -> CustomResource:
    """Return the resource with webhook conversion: objects are encoded as sent, then converted for storage."""
    from kubeloop.apiserver.apiextensions.conversion.cache import VersionConversion  # few CRDs have webhooks

    rules, group = resource.rules, resource.group
    own = VersionRules(
        resource.group_version, resource.namespaced, rules.source, has_status=rules.has_status, scale=rules.scale
    )
    stored = f"{group}/{resource.stored_in}"
    conversion = VersionConversion(conversions, resource.group_version, stored, resource.list_kind)
    return replace(resource, rules=own, has_equal_schemas=False, conversion=conversion)


def _resource(
    definition: Definition, names: Names, version: Version, schema: bytes, stored: str, alike: bool
) -> CustomResource:
    group, namespaced = definition.spec.group, definition.spec.scope == "Namespaced"
    subresources = _subresources(version)
    rules = VersionRules(
        f"{group}/{stored}", namespaced, schema, has_status=STATUS in subresources, scale=_scale_paths(version)
    )
    return CustomResource(
        group=group,
        version=version.name,
        plural=names.plural,
        kind=names.kind,
        namespaced=namespaced,
        short_names=names.short_names,
        categories=names.categories,
        verbs=VERBS,
        subresources=subresources,
        names=names,
        rules=rules,
        stored_in=stored,
        columns=version.additional_printer_columns,
        selectable=tuple(field.json_path.removeprefix(".") for field in version.selectable_fields),
        deprecation=_deprecation(definition, version),
        has_equal_schemas=alike,
    )


def _schema_bytes(version: Version) -> bytes:
    schema = version.schema.open_apiv3_schema if version.schema is not None else None
    return codec.encode(schema) if schema is not None else b"{}"


def _subresources(version: Version) -> tuple[Subresource, ...]:
    declared = version.subresources
    if declared is None:
        return ()
    has_status = declared.status not in (NO_JSON, b"null")
    return (*((STATUS,) if has_status else ()), *((SCALE,) if declared.scale is not None else ()))


def _scale_paths(version: Version) -> ScalePaths | None:
    scale = version.subresources.scale if version.subresources is not None else None
    if scale is None:
        return None
    selector = scale.label_selector_path or ""
    return ScalePaths(_names(scale.spec_replicas_path), _names(scale.status_replicas_path), _names(selector))


def _names(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split(".")) if path else ()


def _deprecation(definition: Definition, version: Version) -> str:
    if not version.deprecated:
        return ""
    if version.deprecation_warning is not None:
        return version.deprecation_warning
    text = f"{definition.spec.group}/{version.name} {definition.spec.names.kind} is deprecated"
    newest = min((one.name for one in definition.spec.versions or () if one.served and not one.deprecated),
                 key=version_priority_key, default="")  # fmt: skip
    if newest and version_priority_key(newest) < version_priority_key(version.name):
        text += f"; use {definition.spec.group}/{newest} {definition.spec.names.kind}"
    return text


def version_priority_key(name: str) -> tuple[Any, ...]:
    """Return the sort key of upstream's version priority: v2, v1, v1beta2, v1beta1, v1alpha1, others by name."""
    found = _KUBE_VERSION.fullmatch(name)
    if found is None:
        return (1, name)
    major, stability, minor = found.groups()
    return (0, -_STABILITY[stability], -int(major), -int(minor or 0))
