# SPDX-License-Identifier: Apache-2.0
"""RuntimeClass: adds the overhead and scheduling constraints of a RuntimeClass to its pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Pod, PodSpec
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup
from kubeloop.apiserver.admission.plugins.pods.tolerations import merge_tolerations

if TYPE_CHECKING:  # the kind's types are imported with its first object
    from kubeloop.api.generated.node_v1 import RuntimeClass, Scheduling

_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


class RuntimeClassPlugin(AdmissionPlugin):
    """Applies RuntimeClasses to pods."""

    name = "RuntimeClass"
    resources = frozenset({"pods"})

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup

    def admit(self, attempt: Attributes) -> None:
        """Set overhead, node selector and tolerations of the pod's RuntimeClass."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        if pod.spec.runtime_class_name is None:
            return
        found = self._class_of(attempt, pod.spec.runtime_class_name)
        if found.overhead is not None:
            if pod.spec.overhead and not _same_amounts(pod.spec.overhead, found.overhead.pod_fixed):
                raise attempt.forbidden(_MISMATCH)
            force_setattr(pod.spec, "overhead", found.overhead.pod_fixed)
        if found.scheduling is not None:
            _set_scheduling(attempt, pod.spec, found.scheduling)

    def validate(self, attempt: Attributes) -> None:
        """Reject a pod whose overhead differs from that of its RuntimeClass."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        wanted = pod.spec.runtime_class_name
        if wanted is None and not pod.spec.overhead:
            return
        found = None if wanted is None else self._class_of(attempt, wanted)
        if found is not None and found.overhead is not None:
            if not _same_amounts(pod.spec.overhead, found.overhead.pod_fixed):
                raise attempt.forbidden(_MISMATCH)
        elif pod.spec.overhead:
            raise attempt.forbidden(
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )

    def _class_of(self, attempt: Attributes, name: str) -> RuntimeClass:
        found: RuntimeClass | None = self._lookup.get_object("runtimeclasses", "", name, "node.k8s.io")
        if found is None:
            raise attempt.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
        return found


def _set_scheduling(attempt: Attributes, spec: PodSpec, scheduling: Scheduling) -> None:
    selector = dict(spec.node_selector)
    for key, value in scheduling.node_selector.items():
        own = selector.setdefault(key, value)
        if own != value:
            raise attempt.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {own}"
            )
    force_setattr(spec, "node_selector", selector)
    force_setattr(spec, "tolerations", merge_tolerations(spec.tolerations, scheduling.tolerations))


def _same_amounts(mine: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    return mine.keys() == theirs.keys() and all(
        amount == theirs[name] or parse_quantity(amount) == parse_quantity(theirs[name])
        for name, amount in mine.items()
    )
