# SPDX-License-Identifier: Apache-2.0
"""Plugin arguments of KubeSchedulerConfiguration: their fields, and validation with upstream's messages.

A plugin receives its arguments as written; here they are only parsed to validate them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubeloop.api.generated.core_v1 import NodeAffinity, TopologySpreadConstraint
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.api.scalars.duration import DurationError, parse_duration
from kubeloop.api.validation.pods.scheduling import validate_node_selector, validate_node_selector_term

_SECOND: Final = 1_000_000_000
_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_RATIO: Final = _STRATEGIES[2]


class _Args(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Fields common to all plugin arguments."""

    api_version: str = ""
    kind: str = ""


class UtilizationShapePoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Point of a shape function: a utilization percentage and its score."""

    utilization: int
    score: int


class ResourceSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Resource with its weight in scores."""

    name: str
    weight: int = 0


class RequestedToCapacityRatioParam(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of RequestedToCapacityRatio."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Scoring strategy of NodeResourcesFit."""

    type: str = _STRATEGIES[0]
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(_Args, frozen=True):
    """Arguments of DefaultPreemption."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def validate(self, path: FieldPath) -> FieldErrors:
        """Return validation errors."""
        found: FieldErrors = []
        part, least = path.child("minCandidateNodesPercentage"), path.child("minCandidateNodesAbsolute")
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            found.append(invalid(part, percentage, "not in valid range [0, 100]"))
        if absolute < 0:
            found.append(invalid(least, absolute, "not in valid range [0, inf)"))
        if not percentage and not absolute:
            both = "cannot be zero at the same time as "
            found.append(invalid(part, percentage, f"{both}minCandidateNodesAbsolute"))
            found.append(invalid(least, absolute, f"{both}minCandidateNodesPercentage"))
        return found


class InterPodAffinityArgs(_Args, frozen=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def validate(self, path: FieldPath) -> FieldErrors:
        """Return validation errors."""
        weight = self.hard_pod_affinity_weight
        if 0 <= weight <= 100:
            return []
        return [invalid(path.child("hardPodAffinityWeight"), weight, "not in valid range [0, 100]")]


class NodeAffinityArgs(_Args, frozen=True):
    """Arguments of NodeAffinity."""

    added_affinity: NodeAffinity | None = None

    def validate(self, path: FieldPath) -> FieldErrors:
        """Return validation errors."""
        added, found = self.added_affinity or NodeAffinity(), FieldErrors()
        where = path.child("addedAffinity")
        if (needed := added.required_during_scheduling_ignored_during_execution) is not None:
            found += validate_node_selector(needed, where.child("requiredDuringSchedulingIgnoredDuringExecution"))
        liked = where.child("preferredDuringSchedulingIgnoredDuringExecution")
        for index, one in enumerate(added.preferred_during_scheduling_ignored_during_execution):
            found += validate_node_selector_term(one.preference, liked.index(index), any_values=True)
        return found


class NodeResourcesBalancedAllocationArgs(_Args, frozen=True):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: tuple[ResourceSpec, ...] = ()

    def validate(self, path: FieldPath) -> FieldErrors:
        """Return validation errors."""
        found: FieldErrors = []
        seen: set[str] = set()
        for index, one in enumerate(self.resources):
            where = path.child("resources").index(index)
            if one.name in seen:
                found.append(duplicate(where.child("name"), one.name))
            seen.add(one.name)
            if one.weight not in (0, 1):
                found.append(invalid(where.child("weight"), one.weight, "must be 1"))
        return found


class NodeResourcesFitArgs(_Args, frozen=True):
    """Arguments of NodeResourcesFit."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = None

    def validate(self, path: FieldPath) -> FieldErrors:
        """Return validation errors."""
        found: FieldErrors = []
        for index, name in enumerate(self.ignored_resources):
            found += _label_name(path.child("ignoredResources").index(index), name)
        for index, group in enumerate(self.ignored_resource_groups):
            where = path.child("ignoredResourceGroups").index(index)
            if "/" in group:
                found.append(invalid(where, group, "resource group name can't contain '/'"))
            found += _label_name(where, group)
        if self.scoring_strategy is not None:
            found += _strategy(path.child("scoringStrategy"), self.scoring_strategy)
        return found


class PodTopologySpreadArgs(_Args, frozen=True):
    """Arguments of PodTopologySpread."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"

    def validate(self, path: FieldPath) -> FieldErrors:
        """Return validation errors."""
        found: FieldErrors = []
        kind, constraints = self.defaulting_type or "System", self.default_constraints
        if kind not in ("System", "List"):
            found.append(not_supported(path.child("defaultingType"), kind, ("System", "List")))
        elif kind == "System" and constraints:
            found.append(invalid(path.child("defaultingType"), kind, "when .defaultConstraints are not empty"))
        for index in range(len(constraints)):
            found += _constraint(path.child("defaultConstraints"), constraints, index)
        return found


class VolumeBindingArgs(_Args, frozen=True):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] = ()

    def validate(self, path: FieldPath) -> FieldErrors:
        """Return validation errors."""
        found: FieldErrors = []
        if self.bind_timeout_seconds < 0:
            why = "invalid BindTimeoutSeconds, should not be a negative value"
            found.append(invalid(path.child("bindTimeoutSeconds"), self.bind_timeout_seconds, why))
        return found + (_shape(path.child("shape"), self.shape) if self.shape else [])


class DynamicResourcesArgs(_Args, frozen=True):
    """Arguments of DynamicResources."""

    filter_timeout: str | None = None
    binding_timeout: str | None = None

    def validate(self, path: FieldPath) -> FieldErrors:
        """Return validation errors."""
        found = _at_least(path.child("filterTimeout"), self.filter_timeout, 0, "must be zero or positive")
        why = "must be at least 1 second"
        return found + _at_least(path.child("bindingTimeout"), self.binding_timeout, _SECOND, why)


ARGS: Final[Mapping[str, Any]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}


def validate_plugin_args(plugin: str, args: Mapping[str, Any], path: FieldPath) -> list[str]:
    """Return validation errors of a built-in plugin's arguments; other plugins validate their own."""
    kind = ARGS.get(plugin)
    if kind is None:
        return []
    if args.get("kind", f"{plugin}Args") != f"{plugin}Args":
        return [str(invalid(path, args["kind"], "has to match plugin args"))]
    try:
        read = msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        return [f"{path}: {error}"]
    problems: Callable[[FieldPath], FieldErrors] = read.validate
    return [str(one) for one in problems(path)]


def _label_name(path: FieldPath, name: str) -> FieldErrors:
    return [invalid(path, name, why) for why in check_qualified_name(name)]


def _strategy(path: FieldPath, strategy: ScoringStrategy) -> FieldErrors:
    found: FieldErrors = []
    if strategy.type not in _STRATEGIES:
        found.append(not_supported(path.child("type"), strategy.type, _STRATEGIES))
    for index, one in enumerate(strategy.resources):
        if not 0 <= one.weight <= 100:
            why = f"resource weight of {one.name} not in valid range (0, 100]"
            found.append(invalid(path.child("resources").index(index).child("weight"), one.weight, why))
    ratio, where = strategy.requested_to_capacity_ratio, path.child("requestedToCapacityRatio")
    if strategy.type == _RATIO:
        needed = f"must be specified when type is {_RATIO}"
        found += [required(where, needed)] if ratio is None else _shape(where.child("shape"), ratio.shape)
    elif ratio is not None:
        found.append(forbidden(where, f"must be nil when type is not {_RATIO}"))
    return found


def _shape(path: FieldPath, shape: Sequence[UtilizationShapePoint]) -> FieldErrors:
    if not shape:
        return [required(path, "at least one point must be specified")]
    found: FieldErrors = []
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            where = path.index(index).child("utilization")
            found.append(invalid(where, shape[index].utilization, "values must be sorted in increasing order"))
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            where = path.index(index).child("utilization")
            found.append(invalid(where, point.utilization, "not in valid range [0, 100]"))
        if not 0 <= point.score <= 10:
            found.append(invalid(path.index(index).child("score"), point.score, "not in valid range [0, 10]"))
    return found


def _constraint(path: FieldPath, constraints: Sequence[TopologySpreadConstraint], index: int) -> FieldErrors:
    one, where, found = constraints[index], path.index(index), FieldErrors()
    action, actions = one.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
    if one.max_skew <= 0:
        found.append(invalid(where.child("maxSkew"), one.max_skew, "not in valid range (0, inf)"))
    if not one.topology_key:
        found.append(required(where.child("topologyKey"), "can not be empty"))
    else:
        found += _label_name(where.child("topologyKey"), one.topology_key)
    if not action:
        found.append(required(where.child("whenUnsatisfiable"), "can not be empty"))
    elif action not in actions:
        found.append(not_supported(where.child("whenUnsatisfiable"), action, actions))
    if one.label_selector is not None:
        why = "constraint must not define a selector, as they deduced for each pod"
        found.append(forbidden(where.child("labelSelector"), why))
    if any((each.topology_key, each.when_unsatisfiable) == (one.topology_key, action) for each in constraints[:index]):
        found.append(duplicate(where, f"{{{one.topology_key}, {action}}}"))
    return found


def seconds_of(text: str | None, default: float) -> float:
    """Return the seconds of a validated duration."""
    return default if text is None else parse_duration(text) / _SECOND


def _at_least(path: FieldPath, text: str | None, least: int, why: str) -> FieldErrors:
    if text is None:
        return []
    try:
        return [] if parse_duration(text) >= least else [invalid(path, text, why)]
    except DurationError as error:
        return [invalid(path, text, str(error))]
