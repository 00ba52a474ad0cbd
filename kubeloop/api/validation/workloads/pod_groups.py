# SPDX-License-Identifier: Apache-2.0
"""Validation of PodGroups, CompositePodGroups and Workloads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from kubeloop.api.features.gates import Features
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, duplicate, invalid, required
from kubeloop.api.validation.shared.declarative import sort_generated_last
from kubeloop.api.validation.shared.formats import (
    validate_label_key,
    validate_long_name,
    validate_path_segment_name,
    validate_short_name,
)
from kubeloop.api.validation.shared.meta_conditions import validate_conditions
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.tags import DeclarativeValidation, FieldTags, StructTags, Table

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_COMPOSITE: Final = "CompositePodGroup"
_TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
_MAX_DEPTH: Final = 4


_SHORT_NAME: Final = FieldTags(required=True, format=validate_short_name)
_LONG_NAME: Final = FieldTags(format=validate_long_name)
_CLASS_NAME: Final = FieldTags(immutable="always", format=validate_long_name)
_PRIORITY: Final = FieldTags(immutable="always", maximum=1_000_000_000)
_PREEMPTION: Final = FieldTags(
    gate="PodGroupPreemptionPolicy", immutable="always", symbols=("Never", "PreemptLowerPriority")
)
_CLAIMS: Final = FieldTags(immutable="always", max_items=4, keys=("name",), shape="claim")
_TEMPLATES: Final = FieldTags(max_items=8, keys=("name",), items_immutable=True, shape="template")
_COMPOSITES: Final = replace(_TEMPLATES, shape="composite template")

_TABLE: Final[Table] = {
    "group": StructTags(
        {
            "parentCompositePodGroupName": FieldTags(gate=_COMPOSITE, immutable="always", format=validate_long_name),
            "workloadRef": FieldTags(immutable="always", shape="reference"),
            "schedulingPolicy": FieldTags(shape="policy"),
            "schedulingConstraints": FieldTags(gate=_TOPOLOGY, immutable="with its gate", shape="constraints"),
            "resourceClaims": _CLAIMS,
            "disruptionMode": FieldTags(required=True, immutable="always", shape="mode"),
            "priorityClassName": _CLASS_NAME,
            "priority": _PRIORITY,
            "preemptionPolicy": _PREEMPTION,
        }
    ),
    "group status": StructTags({"resourceClaimStatuses": FieldTags(max_items=4, keys=("name",), shape="claim status")}),
    "composite": StructTags(
        {
            "parentCompositePodGroupName": _CLASS_NAME,
            "workloadRef": FieldTags(required=True, immutable="always", shape="reference"),
            "schedulingPolicy": FieldTags(immutable="always", shape="composite policy"),
            "schedulingConstraints": FieldTags(immutable="always", shape="constraints"),
            "disruptionMode": FieldTags(required=True, immutable="always", shape="mode"),
            "priorityClassName": _CLASS_NAME,
            "priority": _PRIORITY,
            "preemptionPolicy": _PREEMPTION,
        }
    ),
    "workload": StructTags(
        {
            "controllerRef": FieldTags(immutable="always", shape="controller"),
            "podGroupTemplates": _TEMPLATES,
            "compositePodGroupTemplates": replace(_COMPOSITES, gate=_COMPOSITE),
        },
        unions=(("podGroupTemplates", "compositePodGroupTemplates"),),
    ),
    "template": StructTags(
        {
            "name": _SHORT_NAME,
            "schedulingPolicy": FieldTags(shape="policy"),
            "schedulingConstraints": FieldTags(gate=_TOPOLOGY, immutable="always", shape="constraints"),
            "resourceClaims": _CLAIMS,
            "disruptionMode": FieldTags(immutable="always", shape="mode"),
            "priorityClassName": _CLASS_NAME,
            "priority": _PRIORITY,
            "preemptionPolicy": _PREEMPTION,
        }
    ),
    "composite template": StructTags(
        {
            "name": _SHORT_NAME,
            "schedulingPolicy": FieldTags(shape="composite policy"),
            "schedulingConstraints": FieldTags(immutable="always", shape="constraints"),
            "disruptionMode": FieldTags(immutable="always", shape="mode"),
            "priorityClassName": _CLASS_NAME,
            "priority": _PRIORITY,
            "preemptionPolicy": _PREEMPTION,
            "podGroupTemplates": _TEMPLATES,
            "compositePodGroupTemplates": _COMPOSITES,
        }
    ),
    "controller": StructTags(
        {
            "apiGroup": _LONG_NAME,
            "kind": FieldTags(required=True, format=validate_path_segment_name),
            "name": FieldTags(required=True, format=validate_path_segment_name),
        }
    ),
    "reference": StructTags(
        {"workloadName": FieldTags(required=True, format=validate_long_name), "templateName": _SHORT_NAME}
    ),
    "policy": StructTags(
        {"basic": FieldTags(immutable="always"), "gang": FieldTags(presence_immutable=True, shape="gang")},
        unions=(("basic", "gang"),),
    ),
    "gang": StructTags({"minCount": FieldTags(required=True, minimum=1)}),
    "composite policy": StructTags(
        {
            "basic": FieldTags(immutable="always"),
            "gang": FieldTags(presence_immutable=True, shape="gang of groups"),
        },
        unions=(("basic", "gang"),),
    ),
    "gang of groups": StructTags({"minGroupCount": FieldTags(required=True, minimum=1)}),
    "constraints": StructTags({"topology": FieldTags(max_items=1, shape="topology")}),
    "topology": StructTags({"key": FieldTags(required=True, format=validate_label_key)}),
    "claim": StructTags(
        {"name": _SHORT_NAME, "resourceClaimName": _LONG_NAME, "resourceClaimTemplateName": _LONG_NAME},
        unions=(("resourceClaimName", "resourceClaimTemplateName"),),
    ),
    "claim status": StructTags({"resourceClaimName": _LONG_NAME}),
    "mode": StructTags({}, unions=(("single", "all"),)),
}


def _validate_group(tags: DeclarativeValidation, obj: Any) -> FieldErrors:
    errors: FieldErrors = []
    if obj.spec.parent_composite_pod_group_name is not None and obj.spec.workload_ref is None:
        errors.append(required(_SPEC.child("workloadRef"), "must be set when parentCompositePodGroupName is set"))
    return errors + tags.validate_create(obj.spec, "group", _SPEC)


def _validate_group_update(tags: DeclarativeValidation, new: Any, old: Any) -> FieldErrors:
    return tags.validate_update(new.spec, old.spec, "group", _SPEC)


def _validate_group_status(tags: DeclarativeValidation, new: Any, old: Any) -> FieldErrors:
    errors = validate_conditions(new.status.conditions, _STATUS.child("conditions"))
    known = {claim.name for claim in new.spec.resource_claims}
    for index, status in enumerate(new.status.resource_claim_statuses):
        if status.name not in known:
            at = _STATUS.child("resourceClaimStatuses").index(index).child("name")
            errors.append(invalid(at, status.name, "must match the name of an entry in `spec.resourceClaims`"))
    return errors + tags.validate_update(new.status, old.status, "group status", _STATUS)


def _validate_composite(tags: DeclarativeValidation, obj: Any) -> FieldErrors:
    return tags.validate_create(obj.spec, "composite", _SPEC)


def _validate_composite_update(tags: DeclarativeValidation, new: Any, old: Any) -> FieldErrors:
    return tags.validate_update(new.spec, old.spec, "composite", _SPEC)


def _validate_composite_status(new: Any, old: Any) -> FieldErrors:
    return validate_conditions(new.status.conditions, _STATUS.child("conditions"))


def _validate_workload(tags: DeclarativeValidation, obj: Any) -> FieldErrors:
    return sort_generated_last(_validate_templates(obj.spec) + tags.validate_create(obj.spec, "workload", _SPEC))


def _validate_workload_update(tags: DeclarativeValidation, new: Any, old: Any) -> FieldErrors:
    return sort_generated_last(
        _validate_templates(new.spec) + tags.validate_update(new.spec, old.spec, "workload", _SPEC)
    )


def _validate_templates(spec: Any) -> FieldErrors:
    """Validate the template tree: unique names, limited depth, one priority, no empty branches."""
    names = {one.name for one in spec.pod_group_templates or ()}
    errors = _repeated_names(spec, _SPEC, names)
    at = _SPEC.child("compositePodGroupTemplates")
    for index, template in enumerate(spec.composite_pod_group_templates):
        if _depth(template) >= _MAX_DEPTH:
            told = f"maximum template hierarchy depth is {_MAX_DEPTH}"
            errors.append(invalid(at.index(index), template.composite_pod_group_templates, told))
    errors += _different_priorities(spec)
    return errors + [invalid(path, name, _CHILDLESS) for path, name in _childless(spec, _SPEC)]


_CHILDLESS: Final = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"


def _repeated_names(parent: Any, path: FieldPath, names: set[str]) -> FieldErrors:
    """Return errors for names that repeat across lists; declarative validation finds those in one list."""
    at = path.child("compositePodGroupTemplates")
    templates = parent.composite_pod_group_templates
    errors = _taken(templates, at, names)
    for index, template in enumerate(templates):
        groups = template.pod_group_templates
        errors += _taken(groups, at.index(index).child("podGroupTemplates"), names)
        errors += _repeated_names(template, at.index(index), names)
    return errors


def _taken(templates: Any, path: FieldPath, names: set[str]) -> FieldErrors:
    taken = [(index, one.name) for index, one in enumerate(templates) if one.name in names]
    names.update(one.name for one in templates)
    return [duplicate(path.index(index).child("name"), name) for index, name in taken]


def _depth(template: Any) -> int:
    return 1 + max((_depth(child) for child in template.composite_pod_group_templates), default=0)


def _different_priorities(spec: Any) -> FieldErrors:
    own = [_rank(one) for one in spec.pod_group_templates or ()]
    if len(set(own)) > 1:
        return [invalid(_SPEC, None, "detected multiple priority configurations")]
    if len({*own, *(_rank(one) for one in _below(spec))}) > 1:
        told = "all priority and priorityClassName values must be identical, detected multiple values"
        return [invalid(_SPEC, None, told)]
    return []


def _below(parent: Any) -> Iterator[Any]:
    """Yield every template below the composite ones of a parent, and these."""
    for template in parent.composite_pod_group_templates:
        yield template
        yield from template.pod_group_templates
        yield from _below(template)


def _rank(template: Any) -> tuple[str, int | None]:
    return template.priority_class_name, template.priority


def _childless(parent: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    for index, template in enumerate(parent.composite_pod_group_templates):
        at = path.child("compositePodGroupTemplates").index(index)
        if not template.pod_group_templates and not template.composite_pod_group_templates:
            yield at, template.name
        yield from _childless(template, at)


def pod_group_rules(features: Features) -> ValidationRules:
    """Return the rules of PodGroups."""
    tags = DeclarativeValidation(_TABLE, features)
    return ValidationRules(
        partial(_validate_group, tags),
        partial(_validate_group_update, tags),
        {"status": partial(_validate_group_status, tags)},
    )


def composite_pod_group_rules(features: Features) -> ValidationRules:
    """Return the rules of CompositePodGroups."""
    tags = DeclarativeValidation(_TABLE, features)
    return ValidationRules(
        partial(_validate_composite, tags),
        partial(_validate_composite_update, tags),
        {"status": _validate_composite_status},
    )


def workload_rules(features: Features) -> ValidationRules:
    """Return the rules of Workloads."""
    tags = DeclarativeValidation(_TABLE, features)
    return ValidationRules(partial(_validate_workload, tags), partial(_validate_workload_update, tags))
