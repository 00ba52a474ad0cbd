# SPDX-License-Identifier: Apache-2.0
"""Priority: resolves the priority class of pods and pod groups; allows at most one default class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation

if TYPE_CHECKING:  # the kind's types are imported with its first object
    from kubeloop.api.generated.scheduling_v1 import PriorityClass

_GROUP = "scheduling.k8s.io"
_CLASSES = "priorityclasses.scheduling.k8s.io"
# Kinds of pod groups that have a priority, and their names in errors.
_GROUPS = {"podgroups.scheduling.k8s.io": "pod group", "compositepodgroups.scheduling.k8s.io": "composite pod group"}
_SYSTEM_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})


class _ResolvedPriority(NamedTuple):
    """Resolved priority: class name, value and preemption policy."""

    class_name: str
    priority: int
    preemption_policy: str | None


_WITHOUT_CLASS = _ResolvedPriority("", 0, "PreemptLowerPriority")


class PriorityPlugin(AdmissionPlugin):
    """Resolves priority classes, and validates PriorityClass objects."""

    name = "Priority"

    def __init__(self, lookup: Lookup, features: Features = DEFAULT_FEATURES) -> None:
        self._lookup = lookup
        self._features = features
        # The lookup result from which the default was derived, and the default.
        self._classes: Sequence[PriorityClass] | None = None
        self._default = _WITHOUT_CLASS

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for pods, creates of pod groups, and PriorityClasses."""
        if subresource:
            return False
        if resource.group_resource == "pods":
            return operation in ("CREATE", "UPDATE")
        if resource.group_resource in _GROUPS:
            return operation == "CREATE"
        return resource.group_resource == _CLASSES and operation != "CONNECT"

    def admit(self, attempt: Attributes) -> None:
        """Set priority and preemption policy from the class on create; keep them on update."""
        if attempt.resource.group_resource in _GROUPS:
            self._set_group_priority(attempt, _GROUPS[attempt.resource.group_resource])
        if not isinstance(attempt.obj, Pod):
            return
        if attempt.operation == "CREATE":
            self._set_priority(attempt, attempt.obj)
        elif isinstance(attempt.old_obj, Pod):
            _keep_priority(attempt.obj, attempt.old_obj)

    def validate(self, attempt: Attributes) -> None:
        """Reject a second default class, and the deletion of a system class."""
        if attempt.operation == "DELETE" and attempt.name in _SYSTEM_CLASSES:
            raise attempt.forbidden("this is a system priority class and cannot be deleted")
        if attempt.obj is None or attempt.resource.group_resource != _CLASSES or not attempt.obj.global_default:
            return
        wanted: PriorityClass = attempt.obj
        current = self._default_class()
        if current is not None and (attempt.operation == "CREATE" or current.metadata.name != wanted.metadata.name):
            raise attempt.forbidden(
                f"PriorityClass {current.metadata.name} is already marked as default. Only one default can exist"
            )

    def _set_priority(self, attempt: Attributes, pod: Pod) -> None:
        spec = pod.spec
        rank = (
            self._priority_of(attempt, spec.priority_class_name)
            if spec.priority_class_name
            else self._default_priority()
        )
        if spec.priority is not None and spec.priority != rank.priority:
            raise attempt.forbidden(
                f"the integer value of priority ({spec.priority}) must not be provided in pod spec; "
                f"priority admission controller computed {rank.priority} from the given PriorityClass name"
            )
        policy = rank.preemption_policy
        if policy is not None and spec.preemption_policy not in (None, policy):
            raise attempt.forbidden(
                f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
        force_setattr(spec, "priority_class_name", rank.class_name)
        force_setattr(spec, "priority", rank.priority)
        if policy is not None:
            force_setattr(spec, "preemption_policy", policy)

    def _set_group_priority(self, attempt: Attributes, called: str) -> None:
        assert attempt.obj is not None
        spec = attempt.obj.spec
        rank = (
            self._priority_of(attempt, spec.priority_class_name)
            if spec.priority_class_name
            else self._default_priority()
        )
        if spec.priority is not None and spec.priority != rank.priority:
            raise attempt.forbidden(
                f"priority set in the {called} ({spec.priority}) must match the priority computed ({rank.priority}) "
                "based on the priority class set in the spec"
            )
        force_setattr(spec, "priority", rank.priority)
        force_setattr(spec, "priority_class_name", rank.class_name)
        if self._features.is_enabled("PodGroupPreemptionPolicy") and rank.preemption_policy is not None:
            _set_preemption_policy(attempt, rank.preemption_policy, called)

    def _priority_of(self, attempt: Attributes, class_name: str) -> _ResolvedPriority:
        found: PriorityClass | None = self._lookup.get_object("priorityclasses", "", class_name, _GROUP)
        if found is None:
            raise attempt.forbidden(f"no PriorityClass with name {class_name} was found")
        return _ResolvedPriority(class_name, found.value, found.preemption_policy)

    def _default_priority(self) -> _ResolvedPriority:
        classes = self._lookup.list_objects("priorityclasses", "", _GROUP)
        if classes is not self._classes:
            default = self._default_class()
            self._default = _WITHOUT_CLASS
            if default is not None:
                self._default = _ResolvedPriority(default.metadata.name, default.value, default.preemption_policy)
            self._classes = classes
        return self._default

    def _default_class(self) -> PriorityClass | None:
        """Return the default class; if a race has left two, the lower one."""
        defaults = [known for known in self._lookup.list_objects("priorityclasses", "", _GROUP) if known.global_default]
        return min(defaults, key=lambda known: known.value, default=None)


def _set_preemption_policy(attempt: Attributes, policy: str, called: str) -> None:
    """Set or verify a group's preemption policy; an unset one means the default, even if its class differs."""
    assert attempt.obj is not None
    spec = attempt.obj.spec
    wanted = spec.preemption_policy or _WITHOUT_CLASS.preemption_policy
    if wanted != policy:
        raise attempt.forbidden(
            f"the string value of PreemptionPolicy ({wanted}) must not be provided in {called} spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
    force_setattr(spec, "preemption_policy", policy)


def _keep_priority(pod: Pod, old: Pod) -> None:
    """Restore priority and preemption policy if an update leaves them out."""
    if pod.spec.priority is None and old.spec.priority is not None:
        force_setattr(pod.spec, "priority", old.spec.priority)
    if pod.spec.preemption_policy is None and old.spec.preemption_policy is not None:
        force_setattr(pod.spec, "preemption_policy", old.spec.preemption_policy)
