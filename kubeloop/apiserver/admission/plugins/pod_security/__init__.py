# SPDX-License-Identifier: Apache-2.0
"""PodSecurity: enforces the Pod Security Standards that a namespace's labels select.

namespace labels ─▶ labels.policy_of ─▶ enforce, audit, warn ─▶ evaluation.evaluate(pod) ─▶ rejection
                                                                      audit annotations, warnings

Pods must meet the enforced level; workloads (Deployments, Jobs, …) are only audited and warned about; a namespace
whose level is raised gets warnings about existing pods that violate it. The configuration exempts namespaces, users
and runtime classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation
from kubeloop.apiserver.admission.plugins.pod_security.configuration import PodSecurityConfiguration
from kubeloop.apiserver.admission.plugins.pod_security.evaluation import evaluate, forbidden_details, forbidden_reasons
from kubeloop.apiserver.admission.plugins.pod_security.labels import (
    PREFIX,
    LevelVersion,
    PodSecurityPolicy,
    is_stricter,
    labelled_modes,
    policy_of,
)
from kubeloop.apiserver.admission.plugins.pod_security.metrics import PodSecurityMetrics
from kubeloop.metrics import MetricRegistry

_Template = tuple[ObjectMeta, PodSpec]
_TEMPLATED = frozenset(
    {
        "podtemplates",
        "replicationcontrollers",
        "replicasets.apps",
        "deployments.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
    }
)
# Subresources of a pod that can change its containers.
_POD_WRITES = ("", "ephemeralcontainers", "resize")
# Maximum number of pods that are evaluated when a namespace's level is raised.
_MAX_PODS = 3000
_NO_CONFIGURATION = PodSecurityConfiguration()


class PodSecurity(AdmissionPlugin):
    """Enforces the Pod Security Standards on pods, workloads and namespaces."""

    name = "PodSecurity"
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(
        self,
        lookup: Lookup,
        config: PodSecurityConfiguration = _NO_CONFIGURATION,
        metrics: PodSecurityMetrics | None = None,
    ) -> None:
        self._lookup = lookup
        self._metrics = metrics or PodSecurityMetrics(MetricRegistry())
        self._defaults = config.policy()
        self._exempt = config.exemptions

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for pods, their spec-changing subresources, pod templates and namespaces."""
        if operation not in self.operations:
            return False
        if resource.group_resource == "pods":
            return subresource in _POD_WRITES
        return not subresource and (resource.group_resource == "namespaces" or resource.group_resource in _TEMPLATED)

    def validate(self, attempt: Attributes) -> None:
        """Evaluate the namespace's policy: reject a violating pod, or audit and warn."""
        if attempt.resource.group_resource == "namespaces":
            self._check_namespace(attempt)
        elif attempt.namespace in self._exempt.namespaces:
            self._exempt_by(attempt, "namespace")
        elif attempt.user.name in self._exempt.usernames:
            self._exempt_by(attempt, "user")
        else:
            self._check_pod(attempt)

    def _check_pod(self, attempt: Attributes) -> None:
        namespace = self._lookup.get_object("namespaces", "", attempt.namespace)
        policy = policy_of(namespace.metadata.labels if namespace is not None else {}, self._defaults)
        is_pod = isinstance(attempt.obj, Pod)
        if not policy.errors and policy.is_privileged():
            if is_pod:
                _annotate(attempt, "enforce-policy", "privileged:latest")
                self._metrics.count_evaluation(policy.enforce, "enforce", attempt, allowed=True)
            return
        if is_pod and attempt.old_obj is not None and not _is_significant_update(attempt.obj, attempt.old_obj):
            return
        template = _template_of(attempt.obj)
        if template is None:
            return
        if template[1].runtime_class_name in self._exempt.runtime_classes:
            self._exempt_by(attempt, "runtimeClass")
            return
        self._evaluate(attempt, policy, template, enforced=is_pod)

    def _exempt_by(self, attempt: Attributes, what: str) -> None:
        self._metrics.count_exemption(attempt)
        _annotate(attempt, "exempt", what)

    def _evaluate(self, attempt: Attributes, policy: PodSecurityPolicy, template: _Template, *, enforced: bool) -> None:
        """Annotate the audit event with violations; then reject a pod, or warn."""
        results: dict[LevelVersion, str] = {}

        def violations(level: LevelVersion) -> str:
            if level not in results:
                results[level] = forbidden_details(evaluate(level, *template))
            return results[level]

        count = self._metrics.count_evaluation
        if policy.errors:
            texts = _texts(policy.errors)
            text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            _annotate(attempt, "error", f"Failed to parse policy: {text}")
            self._metrics.count_error(attempt)
        if enforced:
            _annotate(attempt, "enforce-policy", str(policy.enforce))
            count(policy.enforce, "enforce", attempt, allowed=not violations(policy.enforce))
        if found := violations(policy.audit):
            _annotate(attempt, "audit-violations", f'would violate PodSecurity "{policy.audit}": {found}')
            count(policy.audit, "audit", attempt, allowed=False)
        if enforced and (found := violations(policy.enforce)):
            raise attempt.forbidden(f'violates PodSecurity "{policy.enforce}": {found}')
        if found := violations(policy.warn):
            attempt.warn(f'would violate PodSecurity "{policy.warn}": {found}')
            count(policy.warn, "warn", attempt, allowed=False)

    def _check_namespace(self, attempt: Attributes) -> None:
        assert attempt.obj is not None
        labels = attempt.obj.metadata.labels
        new = policy_of(labels, self._defaults)
        old = policy_of(attempt.old_obj.metadata.labels, self._defaults) if attempt.old_obj is not None else None
        if new.errors and (old is None or _texts(new.errors) != _texts(old.errors)):
            raise errors.invalid("", "Namespace", attempt.name, new.errors)
        if old is not None and not _is_tightened(new.enforce, old.enforce):
            return
        if attempt.name in self._exempt.namespaces:
            if not new.is_privileged() and not new.is_equivalent(self._defaults):
                attempt.warn(
                    f'namespace "{attempt.name}" is exempt from Pod Security, '
                    f"and the policy ({labelled_modes(labels, new)}) will be ignored"
                )
        elif old is not None:
            for text in self._violations_in(attempt.name, new.enforce):
                attempt.warn(text)

    def _violations_in(self, namespace: str, enforce: LevelVersion) -> Iterator[str]:
        pods = [
            pod
            for pod in self._lookup.list_objects("pods", namespace)
            if pod.spec.runtime_class_name not in self._exempt.runtime_classes
        ]
        if len(pods) > _MAX_PODS:
            yield (
                f"new PodSecurity enforce level only checked against the first {_MAX_PODS} of {len(pods)} existing pods"
            )
        names: dict[str, list[str]] = {}
        for pod in _prioritize_by_owner(pods)[:_MAX_PODS]:
            found = evaluate(enforce, pod.metadata, pod.spec)
            if found:
                names.setdefault(forbidden_reasons(found), []).append(pod.metadata.name)
        if names:
            yield f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{enforce}"'
        yield from sorted(f"{_with_others(violating)}: {reason}" for reason, violating in names.items())


def _is_tightened(new: LevelVersion, old: LevelVersion) -> bool:
    """Return True if existing pods may violate a new level."""
    if new.level == "privileged":
        return False
    return new.version != old.version or is_stricter(new, old)


def _annotate(attempt: Attributes, key: str, value: str) -> None:
    attempt.annotations.setdefault(PREFIX + key, value)


def _template_of(obj: Any) -> _Template | None:
    """Return the pod metadata and spec in an object: its own, or its (nested) template's; None if there is none."""
    if isinstance(obj, Pod):
        return obj.metadata, obj.spec
    holder = obj if hasattr(obj, "template") else obj.spec
    holder = holder.job_template.spec if hasattr(holder, "job_template") else holder
    return None if holder.template is None else (holder.template.metadata, holder.template.spec)


def _is_significant_update(pod: Any, old: Any) -> bool:
    """Return True if images changed or ephemeral containers were added; other updates can't violate a level."""
    for new, before in (
        (pod.spec.containers or (), old.spec.containers or ()),
        (pod.spec.init_containers, old.spec.init_containers),
    ):
        if [container.image for container in new] != [container.image for container in before]:
            return True
    known = {container.name: container.image for container in old.spec.ephemeral_containers}
    return any(known.get(container.name) != container.image for container in pod.spec.ephemeral_containers)


def _prioritize_by_owner(pods: Any) -> list[Any]:
    """Return the pods with the first of each owner in front, because replicas are alike."""
    first: list[Any] = []
    others: list[Any] = []
    seen: set[str] = set()
    for pod in pods:
        owner = next((reference.uid for reference in pod.metadata.owner_references if reference.controller), "")
        (others if owner in seen else first).append(pod)
        if owner:
            seen.add(owner)
    return first + others


def _with_others(names: list[str]) -> str:
    first, count = min(names), len(names) - 1
    if not count:
        return first
    return f"{first} (and {count} other {'pod' if count == 1 else 'pods'})"


def _texts(found: tuple[Any, ...]) -> list[str]:
    return [error.message() for error in found]
