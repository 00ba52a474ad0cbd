# SPDX-License-Identifier: Apache-2.0
"""eviction: deletes a pod if its disruption budget allows it.

pod ─▶ pending, finished or being deleted? ── yes ──▶ delete
            │ no
            ▼
        its budget ─▶ none, or the pod is unready and the budget's policy allows it ──▶ delete
            │                                                                            ▲
            └──▶ disruptions allowed? decrement in the budget's status ──────────────────┘    else 429
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.meta_v1 import DeleteOptions, Preconditions
from kubeloop.api.generated.policy_v1 import Eviction
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.meta.object_meta import time_of
from kubeloop.apiserver.handlers.delete import Deletion, check_delete_preconditions
from kubeloop.apiserver.handlers.subresources import disruption
from kubeloop.apiserver.handlers.subresources.unstored_responses import success_response
from kubeloop.apiserver.handlers.write import read_body
from kubeloop.apiserver.registry.existing_object import ExistingObject
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.registry.store import UpdateMode, ensure_namespace
from kubeloop.apiserver.request.context import RequestContext, User
from kubeloop.apiserver.request.negotiation import PLAIN
from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import Target
from kubeloop.apiserver.request.write_options import validate_write_options
from kubeloop.http import Request, Response
from kubeloop.store import Record, StoreConflict

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

EVICTION = Resource("policy", "v1", "evictions", "Eviction", verbs=("create",))
_ATTEMPTS = 20
# The server itself changes budgets, and is named in their managedFields.
_SERVER = User("system:apiserver", ("system:masters", "system:authenticated"))
_SERVER_AGENT = {"user-agent": "kube-apiserver/v1.37"}


async def evict(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of an Eviction to a pod."""
    validate_write_options(ctx.query, "CreateOptions")
    eviction: Eviction = await server.worker_thread.run_for(ctx.request, _read_eviction, ctx)
    ensure_namespace(eviction.metadata, ctx.target.namespace)
    if ctx.target.name != eviction.metadata.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    options = _delete_options(ctx, eviction)
    await server.object_store.admit_create_subresource(ctx, eviction)
    storage = server.registry.storage_of(ctx.resource)
    pod = await _delete_if_unguarded(ctx, server, storage, options)
    if pod is not None:
        await _delete_guarded(ctx, server, storage, pod, options)
    return success_response(ctx)


def _read_eviction(ctx: RequestContext) -> Eviction:
    _accept_old_version(ctx.request)
    eviction: Eviction = read_body(ctx, EVICTION)
    return eviction


def _accept_old_version(request: Request) -> None:
    """Accept policy/v1beta1, which is no longer served; the fields of an Eviction are the same."""
    try:
        document = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # the decoder reports any error
    if isinstance(document, dict) and document.get("apiVersion") == "policy/v1beta1":
        document["apiVersion"] = EVICTION.group_version
        request.body = msgspec.json.encode(document)


def _delete_options(ctx: RequestContext, eviction: Eviction) -> DeleteOptions:
    """Return the options for the deletion; a dry run can be requested in the query or in them."""
    options = eviction.delete_options or DeleteOptions()
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        path = FieldPath("deleteOptions").child("ignoreStoreReadErrorWithClusterBreakingPotential")
        wrong = field_path.invalid(path, True, "can not be set for pod eviction, try after removing the option")
        raise errors.invalid(EVICTION.group, EVICTION.kind, eviction.metadata.name, [wrong])
    asked = ctx.query.all_values("dryRun")
    if asked and options.dry_run and asked != options.dry_run:
        shown, stated = " ".join(asked), " ".join(options.dry_run)
        raise errors.ApiError(f"Non-matching dry-run options in request and content: [{shown}] and [{stated}]")
    ctx.dry_run = bool(asked or options.dry_run)
    return replace(options, dry_run=asked or options.dry_run)


async def _delete_if_unguarded(
    ctx: RequestContext, server: ApiServer, storage: ResourceStorage, options: DeleteOptions
) -> Any:
    """Delete a pod that needs no budget and return None; return any other pod."""
    for remaining in range(_ATTEMPTS - 1, -1, -1):
        pod = storage.serializer.decode_record(_newest(ctx, storage))
        if not disruption.needs_no_budget(pod):
            return pod
        chosen = options
        if disruption.may_become_guarded(pod) and _has_no_version_precondition(options):
            chosen = _with_version(options, pod.metadata.resource_version)
        try:
            await _mark_and_delete(ctx, server, storage, chosen)
        except errors.Conflict:
            if not remaining or not _has_no_version_precondition(options):
                raise
            continue
        return None
    raise AssertionError("the last attempt returns or raises")


async def _delete_guarded(
    ctx: RequestContext, server: ApiServer, storage: ResourceStorage, pod: Any, options: DeleteOptions
) -> None:
    budgets = disruption.budgets_of(
        pod, server.registry.list_objects("poddisruptionbudgets", pod.metadata.namespace, "policy")
    )
    if len(budgets) > 1:
        raise errors.ApiError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not budgets or not disruption.can_evict_unhealthy(pod, budgets[0]):
        if budgets:
            await _decrement_budget(ctx, server, budgets[0].metadata.name, pod.metadata.name)
        await _mark_and_delete(ctx, server, storage, options)
        return
    try:
        # It is evicted as an unhealthy pod, so it must be unchanged.
        await _mark_and_delete(ctx, server, storage, _with_version(options, pod.metadata.resource_version))
    except errors.Conflict:
        if _has_no_version_precondition(options):
            raise disruption.still_processing_error(budgets[0].metadata.name) from None
        raise


async def _decrement_budget(ctx: RequestContext, server: ApiServer, budget_name: str, pod_name: str) -> None:
    """Decrement a budget's allowed disruptions, with retries on conflicts."""
    storage = server.registry.storage_named("policy", "v1", "poddisruptionbudgets")
    target = Target(storage.resource, "update", ctx.target.namespace, budget_name, "status")
    request = Request("PUT", "", headers=_SERVER_AGENT)
    own = RequestContext(request, target, Query(""), _SERVER, PLAIN, lambda: ctx.now, dry_run=ctx.dry_run)

    def produce(current: ExistingObject | None) -> Any:
        assert current is not None  # a status is never created
        budget = storage.serializer.decode_record(current.record)
        disruption.decrement_disruptions_allowed(budget, pod_name, time_of(ctx.now))
        return budget

    try:
        await server.object_store.update(own, produce, UpdateMode("status", retry=True))
    except errors.Conflict:
        told = f"couldn't update PodDisruptionBudget {field_path.quote(budget_name)} due to conflicts"
        raise errors.timeout(told, 10) from None


async def _mark_and_delete(
    ctx: RequestContext, server: ApiServer, storage: ResourceStorage, options: DeleteOptions
) -> None:
    """Set the DisruptionTarget condition on the pod, then delete it."""
    record = _newest(ctx, storage)
    if not ctx.dry_run:
        record = await _mark(ctx, server, storage, record, options)
        if not _has_no_version_precondition(options):
            options = _with_version(options, str(record.mod_revision))
    await Deletion(ctx, storage, server.object_store, options, admit=False).delete(record)


async def _mark(
    ctx: RequestContext, server: ApiServer, storage: ResourceStorage, record: Record, options: DeleteOptions
) -> Record:
    for _ in range(_ATTEMPTS):
        pod = storage.serializer.decode_stored(record.value, record.mod_revision)
        check_delete_preconditions(storage, pod.metadata, options)
        force_setattr(pod, "status", disruption.with_disruption_target(pod, time_of(ctx.now)))
        try:
            written = await server.object_store.put_record(ctx, storage, record, pod)
        except StoreConflict:
            record = _newest(ctx, storage)
            continue
        return Record(record.key, written.value, record.create_revision, written.revision)
    raise errors.conflict("", "pods", ctx.target.name)


def _newest(ctx: RequestContext, storage: ResourceStorage) -> Record:
    record = storage.peek(ctx.target.namespace, ctx.target.name)
    if record is None:
        raise errors.not_found("", "pods", ctx.target.name)
    return record


def _has_no_version_precondition(options: DeleteOptions) -> bool:
    return options.preconditions is None or options.preconditions.resource_version is None


def _with_version(options: DeleteOptions, resource_version: str) -> DeleteOptions:
    demands = options.preconditions or Preconditions()
    return replace(options, preconditions=replace(demands, resource_version=resource_version))
