"""PodSecurity: enforces the Pod Security Standards that a namespace's labels select.

namespace labels ─▶ labels.policy_of ─▶ enforce, warn ─▶ evaluation.evaluate(pod) ─▶ rejection, or warnings

Pods must meet the enforced level; workloads (Deployments, Jobs, …) only get warnings; a namespace whose level is
raised gets warnings about existing pods that violate it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Pod, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation
from kubeloop.apiserver.admission.plugins.pod_security.evaluation import evaluate, forbidden_details, forbidden_reasons
from kubeloop.apiserver.admission.plugins.pod_security.labels import PREFIX, LevelVersion, is_stricter, policy_of

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
_ENFORCE, _WARN = PREFIX + "enforce", PREFIX + "warn"
# Maximum number of pods that are evaluated when a namespace's level is raised.
_MAX_PODS = 3000


class PodSecurity(AdmissionPlugin):
    """Enforces the Pod Security Standards on pods, workloads and namespaces."""

    name = "PodSecurity"
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for pods, their spec-changing subresources, pod templates and namespaces."""
        if operation not in self.operations:
            return False
        if resource.qualified == "pods":
            return subresource in _POD_WRITES
        return not subresource and (resource.qualified == "namespaces" or resource.qualified in _TEMPLATED)

    def check(self, attempt: Attributes) -> None:
        """Evaluate the namespace's policy: reject a violating pod, or warn."""
        if attempt.resource.qualified == "namespaces":
            self._check_namespace(attempt)
            return
        namespace = self._lookup.find("namespaces", "", attempt.namespace)
        labels = namespace.metadata.labels if namespace is not None else {}
        if _ENFORCE not in labels and _WARN not in labels:
            return
        policy = policy_of(labels)
        if isinstance(attempt.obj, Pod):
            if isinstance(attempt.old, Pod) and not _is_significant_update(attempt.obj, attempt.old):
                return
            _enforce(attempt, policy.enforce, attempt.obj)
        _warn(attempt, policy.warn)

    def _check_namespace(self, attempt: Attributes) -> None:
        assert attempt.obj is not None
        new = policy_of(attempt.obj.metadata.labels)
        old = policy_of(attempt.old.metadata.labels) if attempt.old is not None else None
        if new.errors and (old is None or _texts(new.errors) != _texts(old.errors)):
            raise errors.invalid("", "Namespace", attempt.name, new.errors)
        if old is None or new.enforce == old.enforce or new.enforce.level == "privileged":
            return
        if new.enforce.version != old.enforce.version or is_stricter(new.enforce, old.enforce):
            attempt.warnings.extend(self._violations_in(attempt.name, new.enforce))

    def _violations_in(self, namespace: str, enforce: LevelVersion) -> Iterator[str]:
        pods = self._lookup.every("pods", namespace)
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


def _enforce(attempt: Attributes, enforce: LevelVersion, pod: Pod) -> None:
    found = evaluate(enforce, pod.metadata, pod.spec)
    if found:
        raise attempt.forbidden(f'violates PodSecurity "{enforce}": {forbidden_details(found)}')


def _warn(attempt: Attributes, warn: LevelVersion) -> None:
    template = _template_of(attempt.obj)
    if template is None:
        return
    found = evaluate(warn, *template)
    if found:
        attempt.warnings.append(f'would violate PodSecurity "{warn}": {forbidden_details(found)}')


def _template_of(obj: Any) -> tuple[ObjectMeta, PodSpec] | None:
    """Return the pod metadata and spec in an object: its own, or its (nested) template's; None if there is none."""
    if isinstance(obj, Pod):
        return obj.metadata, obj.spec
    holder = obj if hasattr(obj, "template") else obj.spec
    holder = holder.job_template.spec if hasattr(holder, "job_template") else holder
    return None if holder.template is None else (holder.template.metadata, holder.template.spec)


def _is_significant_update(pod: Pod, old: Pod) -> bool:
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
