# SPDX-License-Identifier: Apache-2.0
"""Scale subresource of custom objects, at the paths that the CRD declares."""

from __future__ import annotations

from typing import Any

from kubeloop.api import errors
from kubeloop.api.generated.autoscaling_v1 import Scale, ScaleSpec, ScaleStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.structural.custom_resource_rules import ScalePaths, VersionRules, value_at
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.api.structural.pruning import prune


def _rules(parent: CustomResourceObject) -> VersionRules:
    assert isinstance(parent.rules, VersionRules)
    return parent.rules


def _paths(parent: CustomResourceObject) -> ScalePaths:
    rules = _rules(parent)
    assert rules.scale is not None  # the subresource exists only if it is declared
    return rules.scale


def replicas_path(parent: CustomResourceObject) -> tuple[str, ...]:
    """Return the path of the spec replicas."""
    return _paths(parent).spec_replicas


def require_replicas(parent: CustomResourceObject) -> None:
    """Raise an internal error if the object has no replicas: then there is no scale."""
    path = replicas_path(parent)
    if value_at(parent, path) is None:
        raise errors.internal_error(f'the spec replicas field ".{".".join(path)}" does not exist')


def scale_of_instance(parent: CustomResourceObject) -> Scale:
    """Return the Scale of a custom object."""
    paths, meta = _paths(parent), parent.metadata
    selector = value_at(parent, paths.selector) if paths.selector else ""
    return Scale(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            creation_timestamp=meta.creation_timestamp,
        ),
        spec=ScaleSpec(replicas=_number(value_at(parent, paths.spec_replicas))),
        status=ScaleStatus(
            replicas=_number(value_at(parent, paths.status_replicas)),
            selector=selector if isinstance(selector, str) else "",
        ),
    )


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def set_replicas(parent: CustomResourceObject, replicas: int) -> None:
    """Set the replicas at the declared path; missing parents are created."""
    *above, last = replicas_path(parent)
    at: dict[str, Any] = parent
    for name in above:
        inner = at.get(name)
        below = dict(inner) if isinstance(inner, dict) else {}
        at[name] = below
        at = below
    at[last] = replicas
    if replicas >= 0:  # a path that the schema does not know is validated, but not stored
        prune(parent, _rules(parent).structural)
