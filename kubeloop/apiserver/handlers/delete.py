# SPDX-License-Identifier: Apache-2.0
"""delete and deletecollection: preconditions, grace periods, finalizers, propagation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.generated.meta_v1 import DeleteOptions
from kubeloop.api.meta import field_path, object_meta
from kubeloop.apiserver.decoding.delete_options import IGNORES_READ_ERROR, read_delete_options
from kubeloop.apiserver.handlers.list_objects import list_page
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.registry.store import ObjectStore, WriteResult
from kubeloop.apiserver.request.context import InProcessRequest, RequestContext
from kubeloop.apiserver.request.list_options import has_long_selector, parse_list_options
from kubeloop.apiserver.response.writers import (
    ObjectResponse,
    document_response,
    included_object,
    list_response,
    object_response,
)
from kubeloop.http import Response
from kubeloop.store import Record, StoreConflict

_ATTEMPTS = 5
# Number of objects of a collection that are deleted concurrently: one flush of the store covers them all.
_CONCURRENT_DELETES = 64
_ORPHANS_PODS = (
    "child pods are preserved by default when jobs are deleted; "
    "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
)
_NO_UNSAFE_COLLECTIONS = "is not allowed with DELETECOLLECTION, try again after removing the option"
# Resources whose DELETE returns the object instead of a Status.
_ANSWER_WITH_OBJECT = {
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "namespaces",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourcequotas",
    "resourceslices.resource.k8s.io",
    "serviceaccounts",
    "services",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
}


async def delete_object(ctx: RequestContext, storage: ResourceStorage, mutations: ObjectStore) -> Response:
    """Handle DELETE of one object."""
    options = await mutations.worker_thread.run_for(ctx.request, read_delete_options, ctx)
    _set_dry_run(ctx, options)
    _warn_of_orphans(ctx, options)
    record = storage.peek(ctx.target.namespace, ctx.target.name)
    if record is None:
        raise errors.not_found(ctx.resource.group, ctx.resource.plural, ctx.target.name)
    removed, written = await Deletion(ctx, storage, mutations, options).delete(record)
    if removed and storage.resource.group_resource not in _ANSWER_WITH_OBJECT:
        if ctx.format.convert == "Table":
            included_object(ctx)  # a Status has no rows, but the option is validated
        return document_response(ctx, _success(ctx, written.obj.metadata.uid))
    if isinstance(ctx, InProcessRequest) and ctx.wants_object:
        return ObjectResponse(written)
    code = 202 if not removed and options.orphan_dependents is False else 200
    return object_response(ctx, storage, written.value, written.revision, code)


async def delete_collection(ctx: RequestContext, storage: ResourceStorage, mutations: ObjectStore) -> Response:
    """Handle DELETE of a collection: delete what a list would return, and respond with that list."""
    long = has_long_selector(ctx.query)
    selected = await mutations.worker_thread.run_if(long, parse_list_options, ctx.query, storage.field_cache, False)
    options = await mutations.worker_thread.run_for(ctx.request, read_delete_options, ctx)
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        problem = field_path.invalid(IGNORES_READ_ERROR, True, _NO_UNSAFE_COLLECTIONS)
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [problem])
    _set_dry_run(ctx, options)
    _warn_of_orphans(ctx, options)
    if selected.resource_version not in ("", "0") and not selected.match:
        # Upstream lists in pages: with a limit, a version means exactly this one.
        selected = msgspec.structs.replace(selected, match="Exact")
    page = await list_page(storage.store, storage.prefix(ctx.target.namespace), selected, storage.lists)
    await _delete_records(page.records, Deletion(ctx, storage, mutations, options))
    return list_response(ctx, storage, page)


async def _delete_records(records: Sequence[Record], deletion: Deletion) -> None:
    """Delete the newest state of each record; after a failure, no further deletion begins."""
    failures: list[BaseException] = []

    async def delete(record: Record) -> None:
        newest = None if failures else deletion.storage.store.peek(record.key)
        if newest is None:
            return
        try:
            await deletion.delete(newest)
        except errors.NotFound:
            return
        except Exception as error:
            failures.append(error)

    for begin in range(0, len(records), _CONCURRENT_DELETES):
        await asyncio.gather(*map(delete, records[begin : begin + _CONCURRENT_DELETES]))
        if failures:
            raise failures[0]


class Deletion:
    """Deletion of objects of one resource, for one request: preconditions, admission, grace period, finalizers."""

    def __init__(
        self,
        ctx: RequestContext,
        storage: ResourceStorage,
        object_store: ObjectStore,
        options: DeleteOptions,
        *,
        admit: bool = True,
    ) -> None:
        self.storage = storage
        self._ctx = ctx
        self._object_store = object_store
        self._options = options
        self._admit = admit

    async def delete(self, record: Record) -> tuple[bool, WriteResult]:
        """Delete an object; return (is removed, last or remaining state).

        If it changes meanwhile, preconditions and admission are checked again for its new state.
        """
        resource, name = self.storage.resource, record.key.rpartition("/")[2]
        for _ in range(_ATTEMPTS):
            try:
                return await self._delete_once(record)
            except StoreConflict as conflict:
                if conflict.current is None:
                    raise errors.not_found(resource.group, resource.plural, name) from None
                record = conflict.current
        raise errors.conflict(resource.group, resource.plural, name)

    async def _delete_once(self, record: Record) -> tuple[bool, WriteResult]:
        ctx, storage, options = self._ctx, self.storage, self._options
        await storage.prepare_conversion(record)
        if _is_namespace(storage) or _is_definition(storage):  # their status changes, too
            obj = storage.serializer.decode_stored(record.value, record.mod_revision)
        else:
            obj = storage.copy_for_deletion(record)
        if options.ignore_store_read_error_with_cluster_breaking_potential:
            raise _decodable_error(storage, record, obj.metadata.name)
        check_delete_preconditions(storage, obj.metadata, options)
        if _is_definition(storage) and obj.metadata.deletion_timestamp is None:
            await self._run_admission(record)
            return False, await _mark_definition(ctx, storage, self._object_store, record, obj)
        changed = _set_grace(ctx, storage, obj, options.grace_period_seconds)
        if changed is None:
            return False, WriteResult(record.value, await storage.store.wait_durable(record), obj=obj)
        await self._run_admission(record)
        orphan, foreground = _propagation_of(storage, obj.metadata, options)
        changed |= _set_finalizers(ctx, storage, obj, orphan, foreground)
        return await self._write(record, obj, changed)

    async def _write(self, record: Record, obj: Any, changed: bool) -> tuple[bool, WriteResult]:
        ctx, storage, object_store = self._ctx, self.storage, self._object_store
        graceful = storage.strategy.grace_period is not None
        waits = (
            bool(obj.metadata.finalizers)
            or object_meta.has_spec_finalizers(obj)
            or (graceful and bool(obj.metadata.deletion_grace_period_seconds))
        )
        if not changed:
            if waits:
                return False, WriteResult(record.value, await storage.store.wait_durable(record), obj=obj)
            return True, (await object_store.remove_record(ctx, storage, record))._replace(obj=obj)
        written = await object_store.put_record(ctx, storage, record, obj)
        if waits or ctx.dry_run:
            return not waits, written
        marked = Record(record.key, written.value, record.create_revision, written.revision)
        return True, (await self._remove_marked(marked) or written)._replace(obj=obj)

    async def _remove_marked(self, marked: Record) -> WriteResult | None:
        """Remove an object that has no grace period left; None if another client, as a kubelet, removes it first."""
        record = marked
        for _ in range(_ATTEMPTS):
            try:
                return await self._object_store.remove_record(self._ctx, self.storage, record)
            except StoreConflict as conflict:
                if conflict.current is None or conflict.current.create_revision != marked.create_revision:
                    return None
                record = conflict.current
            await self._run_admission(record)
        resource = self.storage.resource
        raise errors.conflict(resource.group, resource.plural, record.key.rpartition("/")[2])

    async def _run_admission(self, record: Record) -> None:
        if self._admit:
            await self._object_store.admit_delete(self._ctx, self.storage.peek_decoded(record), self._options)


def _warn_of_orphans(ctx: RequestContext, options: DeleteOptions) -> None:
    """Warn if a Job's pods are orphaned by default; no other kind's default needs a warning."""
    undecided = options.propagation_policy is None and options.orphan_dependents is None
    if undecided and ctx.resource.group_resource == "jobs.batch":
        ctx.warn(_ORPHANS_PODS)


async def _mark_definition(
    ctx: RequestContext, storage: ResourceStorage, mutations: ObjectStore, record: Record, obj: Any
) -> WriteResult:
    """Mark a CustomResourceDefinition as terminating; its finalizer waits until its objects are gone."""
    from kubeloop.apiserver.apiextensions.naming_conditions import (
        mark_terminating,  # imported only if there are custom resources
    )

    return await mutations.put_record(ctx, storage, record, mark_terminating(obj, object_meta.time_of(ctx.now)))


def _set_grace(ctx: RequestContext, storage: ResourceStorage, obj: Any, asked: int | None) -> bool | None:
    """Set deletion timestamp and grace period; None if an earlier deletion has a grace period at most as long."""
    meta, grace_period = obj.metadata, storage.strategy.grace_period
    if grace_period is None:
        return False
    if meta.deletion_timestamp is None:
        object_meta.set_deletion_timestamp(meta, ctx.now, grace_period(obj, asked))
        return True
    if not meta.deletion_grace_period_seconds:
        return False
    if asked is not None and asked < 0:
        asked = 1
    if asked is None or asked >= meta.deletion_grace_period_seconds:
        return None
    object_meta.shorten_grace_period(meta, asked, ctx.now)
    return True


def _set_finalizers(ctx: RequestContext, storage: ResourceStorage, obj: Any, orphan: bool, foreground: bool) -> bool:
    """Set the finalizers of the propagation policy; mark the object as deleted if any finalizer holds it."""
    meta, changed = obj.metadata, False
    finalizers = object_meta.finalizers_for_policy(meta.finalizers, orphan, foreground)
    if finalizers != meta.finalizers:
        codec.force_setattr(meta, "finalizers", finalizers)
        changed = True
    if (finalizers or object_meta.has_spec_finalizers(obj)) and meta.deletion_timestamp is None:
        object_meta.set_deletion_timestamp(meta, ctx.now, 0)
        if _is_namespace(storage):
            codec.force_setattr(meta, "deletion_grace_period_seconds", None)
            codec.force_setattr(obj.status, "phase", "Terminating")
        changed = True
    return changed


def _propagation_of(storage: ResourceStorage, meta: Any, options: DeleteOptions) -> tuple[bool, bool]:
    """Return (orphan dependents, delete dependents first): by the options, else by the object's finalizers."""
    if storage.strategy.garbage_collection == "Unsupported":
        return False, False
    if options.orphan_dependents is not None:
        return options.orphan_dependents, False
    if options.propagation_policy is not None:
        return options.propagation_policy == "Orphan", options.propagation_policy == "Foreground"
    for finalizer in meta.finalizers:
        if finalizer in (object_meta.ORPHAN, object_meta.FOREGROUND):
            return finalizer == object_meta.ORPHAN, finalizer == object_meta.FOREGROUND
    return storage.strategy.garbage_collection == "Orphan", False


def check_delete_preconditions(storage: ResourceStorage, meta: Any, options: DeleteOptions) -> None:
    """Raise Conflict if the object does not meet the preconditions of the options."""
    wanted = options.preconditions
    if wanted is None:
        return
    kind = storage.resource
    if _is_namespace(storage) and wanted.uid not in (None, meta.uid):
        why = f"Precondition failed: UID in precondition: {wanted.uid}, UID in object meta: {meta.uid}"
        raise errors.conflict(kind.group, kind.plural, meta.name, why)
    if wanted.uid is not None and wanted.uid != meta.uid:
        raise errors.conflict(
            kind.group,
            kind.kind,
            meta.name,
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({meta.uid}). "
            "The object might have been deleted and then recreated",
        )
    if wanted.resource_version is not None and wanted.resource_version != meta.resource_version:
        raise errors.conflict(
            kind.group,
            kind.kind,
            meta.name,
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({meta.resource_version}). The object might have been modified",
        )


def _decodable_error(storage: ResourceStorage, record: Record, name: str) -> errors.ApiError:
    """Return the error for an unsafe deletion: only objects that cannot be decoded may be deleted so."""
    resource = storage.resource
    why = "unsafe deletion is not allowed because the object is decodable from storage"
    told = f"StorageError: invalid object, Code: 4, Key: {record.key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    return errors.conflict(resource.group, resource.plural, name, told)


def _is_definition(storage: ResourceStorage) -> bool:
    return storage.resource.group_resource == "customresourcedefinitions.apiextensions.k8s.io"


def _is_namespace(storage: ResourceStorage) -> bool:
    """Return True for namespaces, which the namespace controller empties before they are removed."""
    return storage.resource.group_resource == "namespaces"


def _set_dry_run(ctx: RequestContext, options: DeleteOptions) -> None:
    """Set the dry run from the options alone: with a body, the query is ignored."""
    ctx.dry_run = bool(options.dry_run)


def _success(ctx: RequestContext, uid: str) -> bytes:
    details: dict[str, str] = {"name": ctx.target.name}
    if ctx.resource.group:
        details["group"] = ctx.resource.group
    details |= {"kind": ctx.resource.plural, "uid": uid}
    return msgspec.json.encode(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    )
