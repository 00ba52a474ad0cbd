# SPDX-License-Identifier: Apache-2.0
"""Usage of pods: count of live pods, and their requests and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from kubeloop.api.generated.core_v1 import Container, Pod, PodAffinityTerm, ScopedResourceSelectorRequirement
from kubeloop.api.quota.amounts import ONE, Amounts, amounts_of
from kubeloop.api.quota.evaluator import QuotaEvaluator, matches_scope_selector
from kubeloop.api.quota.pod_amounts import has_pod_level_resources, limits_of, requests_of
from kubeloop.api.quota.resource_names import is_extended_quota_resource, is_extended_resource
from kubeloop.api.scalars.times import parse_time
from kubeloop.api.strategy.pods.qos import BEST_EFFORT, qos_class_of

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_NAMES = ("pods", *_COMPUTE, *(f"requests.{name}" for name in _COMPUTE), *(f"limits.{name}" for name in _COMPUTE))
_PREFIXES = ("hugepages-", "requests.hugepages-")
# Upstream keeps that quotas of these require every container to specify them, but won't extend it to others.
_TO_BE_STATED = frozenset(("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"))


class PodEvaluator(QuotaEvaluator):
    """Meter of pods."""

    def __init__(self) -> None:
        super().__init__("pods", *_NAMES)

    def handles(self, operation: str, subresource: str, new: Pod, old: Pod) -> bool:
        """Return True for creates, resizes, and updates that change the deadline and thus the scope."""
        if operation == "CREATE":
            return not subresource
        if subresource == "resize":
            return True
        return not subresource and _is_terminating(new) != _is_terminating(old)

    def matching_resources(self, names: Iterable[str]) -> list[str]:
        """Return the quota names that pods count towards, sorted."""
        return sorted(
            name
            for name in names
            if name in self.names or name.startswith(_PREFIXES) or is_extended_quota_resource(name)
        )

    def missing_constraints(self, names: list[str], obj: Pod) -> str:
        """Return the requests and limits that quotas require but some containers lack."""
        if has_pod_level_resources(obj.spec):
            return ""
        demanded = _TO_BE_STATED.intersection(names)
        missing: dict[str, set[str]] = {}
        for container in (*(obj.spec.containers or ()), *obj.spec.init_containers):
            for name in demanded - _stated(container).keys():
                missing.setdefault(name, set()).add(container.name)
        if not missing:
            return ""
        return "must specify " + "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))

    def matches_scope(self, scope: ScopedResourceSelectorRequirement, obj: Pod) -> bool:
        """Return True if a pod matches a scope: termination, QoS class, priority class or affinity."""
        match scope.scope_name:
            case "Terminating":
                return _is_terminating(obj)
            case "NotTerminating":
                return not _is_terminating(obj)
            case "BestEffort":
                return qos_class_of(obj.spec) == BEST_EFFORT
            case "NotBestEffort":
                return qos_class_of(obj.spec) != BEST_EFFORT
            case "PriorityClass":
                return matches_scope_selector(scope, filter(None, [obj.spec.priority_class_name]))
            case "CrossNamespacePodAffinity":
                return any(term.namespaces or term.namespace_selector is not None for term in _affinity_terms(obj))
        return False

    def usage(self, obj: Pod, now: datetime) -> Amounts:
        """Return a pod's usage: every pod counts as an object, only live ones as pods with their resources."""
        used = {"count/pods": ONE}
        if _is_alive(obj, now):
            used.update(_named_for_quota(requests_of(obj), limits_of(obj)))
        return used


def _stated(container: Container) -> Amounts:
    return _named_for_quota(amounts_of(container.resources.requests), amounts_of(container.resources.limits))


def _named_for_quota(requests: Amounts, limits: Amounts) -> Amounts:
    used = {"pods": ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith("hugepages-"):
            used[name] = used[f"requests.{name}"] = amount
        elif is_extended_resource(name):
            used[f"requests.{name}"] = amount
    for name in _COMPUTE:
        if name in limits:
            used[f"limits.{name}"] = limits[name]
    return used


def _is_terminating(pod: Pod) -> bool:
    deadline = pod.spec.active_deadline_seconds
    return deadline is not None and deadline >= 0


def _is_alive(pod: Pod, now: datetime) -> bool:
    """Return True if a pod is not finished, and not stuck in a deletion past its grace period."""
    if pod.status.phase in ("Failed", "Succeeded"):
        return False
    meta = pod.metadata
    if meta.deletion_timestamp is None or meta.deletion_grace_period_seconds is None:
        return True
    return now <= parse_time(meta.deletion_timestamp) + timedelta(seconds=meta.deletion_grace_period_seconds)


def _affinity_terms(pod: Pod) -> Iterator[PodAffinityTerm]:
    affinity = pod.spec.affinity
    if affinity is None:
        return
    for side in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if side is not None:
            yield from side.required_during_scheduling_ignored_during_execution
            for weighted in side.preferred_during_scheduling_ignored_during_execution:
                yield weighted.pod_affinity_term
