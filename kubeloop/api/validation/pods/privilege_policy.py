# SPDX-License-Identifier: Apache-2.0
"""Validation for servers that do not allow privileged containers (`--allow-privileged=false`)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from kubeloop.api.generated.batch_v1 import CronJob
from kubeloop.api.generated.core_v1 import Container, EphemeralContainer, Pod, PodSpec, PodTemplate
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden

_DETAIL: Final = "disallowed by cluster policy"
_SPEC: Final = FieldPath("spec")


def validate_unprivileged(obj: Any) -> FieldErrors:
    """Return an error for each privileged container of a pod or pod template; other objects have none."""
    found = _pod_spec_of(obj)
    if found is None:
        return []
    spec, path = found
    errors: FieldErrors = []
    for name, containers in _containers_of(spec):
        for index, container in enumerate(containers):
            context = container.security_context
            if context is not None and context.privileged:
                at = path.child(name).index(index).child("securityContext").child("privileged")
                errors.append(forbidden(at, _DETAIL))
    if _has_host_process(spec):
        errors.append(forbidden(path, f"hostProcess containers are {_DETAIL}"))
    return errors


def validate_unprivileged_ephemeral(pod: Pod) -> FieldErrors:
    """Return an error for each privileged ephemeral container, of an update of these alone."""
    return [error for error in validate_unprivileged(pod) if ".ephemeralContainers[" in error.field]


def _containers_of(spec: PodSpec) -> Iterable[tuple[str, tuple[Container | EphemeralContainer, ...]]]:
    yield "containers", spec.containers or ()
    yield "ephemeralContainers", spec.ephemeral_containers
    yield "initContainers", spec.init_containers


def _has_host_process(spec: PodSpec) -> bool:
    containers = chain.from_iterable(group for _, group in _containers_of(spec))
    contexts = (spec.security_context, *(one.security_context for one in containers))
    options = (context.windows_options for context in contexts if context is not None)
    return any(one is not None and one.host_process for one in options)


def _pod_spec_of(obj: Any) -> tuple[PodSpec, FieldPath] | None:
    if isinstance(obj, Pod):
        return obj.spec, _SPEC
    if isinstance(obj, PodTemplate):
        return (obj.template.spec, FieldPath("template").child("spec")) if obj.template is not None else None
    template, path = getattr(getattr(obj, "spec", None), "template", None), _SPEC.child("template").child("spec")
    if isinstance(obj, CronJob):
        template = obj.spec.job_template.spec.template
        path = _SPEC.child("jobTemplate").child("spec").child("template").child("spec")
    spec = getattr(template, "spec", None)
    return (spec, path) if isinstance(spec, PodSpec) else None
