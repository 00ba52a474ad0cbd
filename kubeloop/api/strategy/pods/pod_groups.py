# SPDX-License-Identifier: Apache-2.0
"""Strategies of PodGroups, CompositePodGroups and Workloads: drops fields of disabled features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.strategy.base import RESETS_METADATA, STATUS_METADATA, Strategy

_CLAIMS = "DRAWorkloadResourceClaims"
_COMPOSITES = "CompositePodGroup"
_PREEMPTION = {"preemption_policy": "PodGroupPreemptionPolicy"}
_OF_TEMPLATES = {
    "scheduling_constraints": "TopologyAwareWorkloadScheduling",
    "resource_claims": _CLAIMS,
    **_PREEMPTION,
}
_OF_GROUPS = {**_OF_TEMPLATES, "parent_composite_pod_group_name": _COMPOSITES}
_OF_COMPOSITES = {"composite_pod_group_templates": _COMPOSITES}


def _drop(new: Any, old: Any, gates: Mapping[str, str], features: Features) -> None:
    """Clear the fields whose gate is disabled, unless the old object has a value there too."""
    for field, gate in gates.items():
        if not features.is_enabled(gate) and not (old is not None and getattr(old, field)):
            force_setattr(new, field, () if isinstance(getattr(new, field), tuple) else None)


def _drop_group_fields(new: Any, old: Any, features: Features) -> None:
    _drop(new.spec, None if old is None else old.spec, _OF_GROUPS, features)


def _drop_status_fields(new: Any, old: Any, features: Features) -> None:
    if not features.is_enabled(_CLAIMS) and not old.spec.resource_claims:
        force_setattr(new.status, "resource_claim_statuses", ())


def _drop_composite_fields(new: Any, old: Any, features: Features) -> None:
    _drop(new.spec, None if old is None else old.spec, _PREEMPTION, features)


def _drop_workload_fields(new: Any, old: Any, features: Features) -> None:
    before = None if old is None else old.spec
    _drop_in_templates(new.spec.pod_group_templates, () if before is None else before.pod_group_templates, features)
    _drop(new.spec, before, _OF_COMPOSITES, features)
    _drop_in_branches(new.spec, before, features)


def _drop_in_branches(new: Any, old: Any, features: Features) -> None:
    """Drop in a tree of templates: composite ones are matched by name, group templates by index, as upstream."""
    before = {} if old is None else {one.name: one for one in reversed(old.composite_pod_group_templates)}
    for template in new.composite_pod_group_templates:
        same = before.get(template.name)
        _drop(template, same, {**_PREEMPTION, **_OF_COMPOSITES}, features)
        _drop_in_branches(template, same, features)
        _drop_in_templates(template.pod_group_templates, () if same is None else same.pod_group_templates, features)


def _drop_in_templates(new: Iterable[Any] | None, old: Iterable[Any] | None, features: Features) -> None:
    before = tuple(old or ())
    for index, template in enumerate(new or ()):
        _drop(template, before[index] if index < len(before) else None, _OF_TEMPLATES, features)


POD_GROUP = Strategy(
    has_status=True,
    status_preserved_meta=STATUS_METADATA,
    reset_fields=RESETS_METADATA,
    allow_unconditional_update=False,
    drop_disabled=_drop_group_fields,
    drop_disabled_status=_drop_status_fields,
)
COMPOSITE_POD_GROUP = Strategy(
    has_status=True,
    status_preserved_meta=STATUS_METADATA,
    reset_fields=RESETS_METADATA,
    allow_unconditional_update=False,
    drop_disabled=_drop_composite_fields,
)
WORKLOAD = Strategy(allow_unconditional_update=False, drop_disabled=_drop_workload_fields)
