# SPDX-License-Identifier: Apache-2.0
"""binding: assigns a pod to a node, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kubeloop.api import errors
from kubeloop.api.generated.core_v1 import Binding, PodCondition
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import conditions, field_path, name_rules
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.api.meta.object_meta import time_of
from kubeloop.apiserver.handlers.subresources.unstored_responses import success_response
from kubeloop.apiserver.handlers.write import read_body
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.registry.store import ensure_namespace
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.preconditions import check_preconditions
from kubeloop.apiserver.request.write_options import validate_write_options
from kubeloop.http import Response
from kubeloop.store import Record, StoreConflict

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

BINDING = Resource("", "v1", "bindings", "Binding", verbs=("create",))
_ATTEMPTS = 5
# Annotations from before init containers were fields; never stored.
_FORGOTTEN_ANNOTATIONS = tuple(
    f"pod.{stage}.kubernetes.io/{name}"
    for stage in ("alpha", "beta")
    for name in ("init-containers", "init-container-statuses")
)


async def bind(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a Binding, to its pod or to the deprecated bindings collection."""
    validate_write_options(ctx.query, "CreateOptions")
    binding: Binding = await server.worker_thread.run_for(ctx.request, read_body, ctx, BINDING)
    ensure_namespace(binding.metadata, ctx.target.namespace)
    if ctx.target.name and ctx.target.name != binding.metadata.name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    found = validate_binding(binding)
    if found:
        raise errors.ApiError(field_path.aggregate(error.message() for error in found))
    binding = await server.object_store.admit_create_subresource(ctx, binding)
    await _assign(ctx, server, binding)
    return success_response(ctx)


def validate_binding(binding: Binding) -> list[FieldError]:
    """Return the field errors of a binding's target."""
    path, target = FieldPath("target"), binding.target
    found: list[FieldError] = []
    if target.kind not in ("", "Node"):
        found.append(field_path.not_supported(path.child("kind"), target.kind, ("Node", "<empty>")))
    if not target.name:
        found.append(field_path.required(path.child("name")))
    elif target.kind in ("", "Node"):
        problems = name_rules.check_dns1123_subdomain(target.name)
        found += [field_path.invalid(path.child("name"), target.name, problem) for problem in problems]
    return found


async def _assign(ctx: RequestContext, server: ApiServer, binding: Binding) -> None:
    storage = server.registry.storage_named("", "v1", "pods")
    name = binding.metadata.name
    for _ in range(_ATTEMPTS):
        record = storage.peek(ctx.target.namespace, name)
        if record is None:
            raise errors.not_found("", "pods", name)
        try:
            await server.object_store.put_record(ctx, storage, record, _with_node(ctx, storage, record, binding))
        except StoreConflict:
            continue
        return
    raise errors.conflict("", "pods", name)


def _with_node(ctx: RequestContext, storage: ResourceStorage, record: Record, binding: Binding) -> Any:
    """Return the pod assigned to its node, bypassing strategy and field manager: the server makes the change."""
    pod = storage.peek_decoded(record)  # shared: unchanged parts are reused in the new object
    meta, status = pod.metadata, pod.status
    check_preconditions(storage, record, meta, binding.metadata.uid, binding.metadata.resource_version)
    if why := reason_not_to_bind(pod):
        raise errors.conflict("", "pods/binding", meta.name, why)
    annotations = {**meta.annotations, **binding.metadata.annotations}
    for forgotten in _FORGOTTEN_ANNOTATIONS:
        annotations.pop(forgotten, None)
    labels = {**meta.labels, **binding.metadata.labels}
    scheduled = PodCondition(type="PodScheduled", status="True")
    found = conditions.set_condition(status.conditions, scheduled, time_of(ctx.now))
    return replace(
        pod,
        metadata=replace(meta, annotations=annotations, labels=labels),
        spec=replace(pod.spec, node_name=binding.target.name),
        status=replace(status, nominated_node_name="", conditions=found),
    )


def reason_not_to_bind(pod: Any) -> str:
    """Return the reason why a pod cannot be assigned to a node; empty if it can."""
    name = pod.metadata.name
    if pod.metadata.deletion_timestamp is not None:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if pod.spec.node_name:
        return f"pod {name} is already assigned to node {field_path.quote(pod.spec.node_name)}"
    if pod.spec.scheduling_gates:
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""
