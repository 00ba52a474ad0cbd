# SPDX-License-Identifier: Apache-2.0
"""Generic store of objects: create, update and delete, from a decoded object to a durable revision.

create: system metadata ─ field manager ─ mutating admission ─ prepare ─ validate ─ validating admission ─ write
update: the same on the newest record; retried if another write was faster
delete: preconditions ─ grace period ─ finalizers ─ mark, or remove
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.conversion import to_storage_version
from kubeloop.api.features.gates import Features
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import field_path, object_meta
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.scalars.times import format_time
from kubeloop.api.strategy import Strategy
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.api.validation import ObjectValidator
from kubeloop.api.warnings import warnings_for
from kubeloop.api.warnings.pods import name_warnings
from kubeloop.apiserver.admission import AdmissionChain, Attributes, LookupRecord, Operation
from kubeloop.apiserver.background.offload import WorkerThread, is_expensive_body, is_expensive_json
from kubeloop.apiserver.registry.cause_journal import CauseJournal
from kubeloop.apiserver.registry.existing_object import ExistingObject
from kubeloop.apiserver.registry.field_manager import ManagedFieldsUpdater, settable_fields_of
from kubeloop.apiserver.registry.lease_renewal_cache import LeaseRenewalCache
from kubeloop.apiserver.registry.pod_create_cache import PodCreateCache, PodCreateEntry, clone_pod
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.watch.counters import ComparisonOutcome
from kubeloop.clock import Clock, new_uid, random_suffix
from kubeloop.metrics import FastHistogram
from kubeloop.store import Record, StoreConflict

if TYPE_CHECKING:
    from kubeloop.apiserver.registry.allocation.service_allocation import ServiceAllocation

T = TypeVar("T")

_NAME_ATTEMPTS = 8
_UPDATE_ATTEMPTS = 5
# Subresources that may change what the main resource may: scale sets the replicas of the spec.
_WHOLE_OBJECT = ("", "scale")
# Makes the new object from the existing one (None if there is none).
Produce = Callable[[ExistingObject | None], Any]


class WriteResult(NamedTuple):
    """Result of a write: stored bytes, their revision (0 for an object that a dry run created), and the key."""

    value: bytes
    revision: int
    created: bool = False
    key: str = ""  # empty if nothing was written
    obj: Any = None  # the object as a struct, if there is one that is not changed any more


class UpdateMode(NamedTuple):
    """Variant of an update: by which subresource, with which side effects."""

    subresource: str = ""
    may_create: bool = False
    tracked: bool = True  # the field manager attributes the changes to the request
    retry: bool = False  # on the newest record, if another write was faster


# Authorizes a request to create its target; raises Forbidden. What is returned must be awaited, if anything.
AuthorizeCreate = Callable[[RequestContext], Awaitable[None] | None]


class ObjectStore:
    """Create, update and delete of all objects of one server.

    Its features never change, so its caches need not have them in their keys.
    """

    def __init__(
        self,
        registry: StorageRegistry,
        admission: AdmissionChain,
        clock: Clock,
        features: Features,
        worker_thread: WorkerThread,
        *,
        allow_privileged: bool = True,
        authorize_create: AuthorizeCreate = lambda _: None,
    ) -> None:
        self._authorize_create = authorize_create
        self.worker_thread = worker_thread
        self._registry = registry
        self._admission = admission
        self._clock = clock
        self._features = features
        self._validator = ObjectValidator(features, allow_privileged, clock.now)
        self.managed_fields = ManagedFieldsUpdater()
        self.causes = CauseJournal()
        self.pod_create_cache = PodCreateCache(admission)
        self.lease_renewal_cache = LeaseRenewalCache(admission, clock)

    # -- create -----------------------------------------------------------------------------------------------------

    async def create(self, ctx: RequestContext, obj: Any, tracked: bool = True) -> WriteResult:
        """Store a new object; a generated name that is taken is replaced by another one."""
        storage = self._registry.storage_of(ctx.resource)
        meta = obj.metadata
        ensure_namespace(meta, ctx.target.namespace)
        object_meta.fill_system_fields(meta, ctx.target.namespace, new_uid(self._clock), ctx.now)
        if object_meta.deduplicate_owner_references(meta):
            ctx.warn(_DUPLICATE_OWNERS)
        long = is_expensive_body(ctx.request)
        signature = self.pod_create_cache.signature_of(ctx, obj) if tracked and not long else None
        if signature is not None and (entry := self.pod_create_cache.get(ctx, signature)) is not None:
            return await self.create_from_cache(ctx, entry, meta.uid, meta.name)
        if tracked:
            tracking = obj, ctx.resource, ctx, settable_fields_of(storage.strategy, ""), signature is None
            if long:
                await self.worker_thread.run(self.managed_fields.create, *tracking)
            else:
                self.managed_fields.create(*tracking)
        if storage.allocator is None:
            return await self._create(ctx, storage, obj, signature)
        with storage.allocator.allocation_for_write(self._clock, ctx.dry_run) as claim:
            return await self._create(ctx, storage, obj, None, claim)

    async def _create(
        self,
        ctx: RequestContext,
        storage: ResourceStorage,
        obj: Any,
        signature: bytes | None,
        claim: ServiceAllocation | None = None,
    ) -> WriteResult:
        long = is_expensive_body(ctx.request)
        attempt = self._attributes("CREATE", ctx, "", obj, None)
        if obj.metadata.generate_name and not obj.metadata.name:
            self._generate_name(obj.metadata)
            attempt.name, attempt.has_generated_name = obj.metadata.name, True
        answers: list[LookupRecord] | None = None
        if signature is not None:
            answers, waiting = self._admission.admit_recording_lookups(attempt)
            if waiting is not None:
                await waiting
                answers = None
        else:
            obj = await self._admit(attempt, long)
        meta = obj.metadata
        stored = to_storage_version(obj, ctx.resource)
        if claim is not None:
            claim.allocate(stored, None)
        strategy = storage.strategy
        if long:
            await self.worker_thread.run(self._prepare_create, ctx, strategy, stored)
        else:
            self._prepare_create(ctx, strategy, stored)
        found = await self._run_rules(
            long, self._validator.validate_create, obj if strategy.validated_as_served else stored
        )
        self._raise_invalid(ctx.resource, meta.name, found)
        for text in await self.worker_thread.run(warnings_for, stored, None) if long else warnings_for(stored, None):
            ctx.warn(text)
        validated = stored.metadata
        await self._validate_admission(attempt, long)
        if storage.strategy.default_stored is not None:
            storage.strategy.default_stored(stored)
        if meta.resource_version and not ctx.dry_run and _names_revision(meta.resource_version):
            raise errors.ApiError("resourceVersion should not be set on objects to be created")
        if signature is not None and answers is not None and stored.metadata is validated:  # else marked by a plugin
            self.pod_create_cache.put(ctx, signature, stored, answers, attempt.has_generated_name)
        return await self._insert(ctx, storage, stored, attempt.has_generated_name, claim)

    async def create_from_cache(
        self, ctx: RequestContext, entry: PodCreateEntry, uid: str = "", name: str = ""
    ) -> WriteResult:
        """Store a new pod cloned from a cached one, with its own or a generated name."""
        storage = self._registry.storage_of(ctx.resource)
        stored = clone_pod(entry, ctx.now, uid or new_uid(self._clock), name)
        if not name:
            self._generate_name(stored.metadata)
        if storage.strategy.set_timestamps is not None:
            storage.strategy.set_timestamps(stored, None, format_time(ctx.now))
        if name:
            self._raise_invalid(ctx.resource, name, self._validator.validate_metadata(stored))
            for text in name_warnings(name):  # other fields cause none: a pod with warnings is not cached
                ctx.warn(text)
        attempt = self._attributes("CREATE", ctx, "", stored, None)
        attempt.has_generated_name = not name
        await self._validate_admission(attempt)
        return await self._insert(ctx, storage, stored, not name, None)

    def _prepare_create(self, ctx: RequestContext, strategy: Strategy, stored: Any) -> None:
        strategy.prepare_create(stored, self._features)
        if strategy.set_creator is not None:
            user = ctx.user
            strategy.set_creator(stored, user.name, user.uid, user.groups, dict(user.extra))
        if strategy.set_timestamps is not None:
            strategy.set_timestamps(stored, None, format_time(ctx.now))

    async def _insert(
        self,
        ctx: RequestContext,
        storage: ResourceStorage,
        stored: Any,
        generated: bool,
        claim: ServiceAllocation | None,
    ) -> WriteResult:
        """Write an object under its name, or under the first free one of several generated names."""
        version = stored.metadata.resource_version  # an object to be stored has none that counts
        for attempts_left in range(_NAME_ATTEMPTS - 1 if generated else 0, -1, -1):
            key = storage.key(ctx.target.namespace, stored.metadata.name)
            value = encode_stored(stored) if storage.conversion is None else await storage.encode(stored)
            if ctx.dry_run:
                if storage.store.peek(key) is None:
                    return WriteResult(storage.serializer.with_version(value, version) if version else value, 0, True)
            else:
                storage.intern(stored)
                try:
                    with storage.publish_struct(key, value, stored):
                        started = self._clock.monotonic()
                        event = await (claim or storage.store).write(key, value, 0)
                except StoreConflict:
                    pass
                else:
                    self._observe_write(ctx, storage.writes.create, started)
                    self.causes.record(ctx, key, event.revision)
                    return WriteResult(event.record.value if event.record else value, event.revision, True, key)
            if attempts_left:
                self._generate_name(stored.metadata)
        await storage.prepare_conversion(storage.peek(ctx.target.namespace, stored.metadata.name))
        raise self._already_exists(storage, ctx.target.namespace, stored.metadata, generated)

    def _generate_name(self, meta: Any) -> None:
        force_setattr(meta, "name", object_meta.generate_name(meta.generate_name, random_suffix(self._clock)))

    def _already_exists(self, storage: ResourceStorage, namespace: str, meta: Any, generated: bool) -> errors.ApiError:
        resource = storage.resource
        if generated:
            return errors.generate_name_conflict(resource.group, resource.plural, meta.name)
        error = errors.already_exists(resource.group, resource.plural, meta.name)
        record = storage.peek(namespace, meta.name)
        if record is not None and storage.serializer.decode_record(record).metadata.deletion_timestamp is not None:
            error.message = f"object is being deleted: {error.message}"
        return error

    # -- update -----------------------------------------------------------------------------------------------------

    async def update(self, ctx: RequestContext, produce: Produce, mode: UpdateMode) -> WriteResult:
        """Replace an object by the result of `produce` on its newest record."""
        storage = self._registry.storage_of(ctx.resource)
        key = storage.key(ctx.target.namespace, ctx.target.name)
        for _ in range(_UPDATE_ATTEMPTS):
            record = storage.store.peek(key)
            if record is None:
                if not mode.may_create:
                    raise errors.not_found(ctx.resource.group, ctx.resource.plural, ctx.target.name)
                wanted = await self.worker_thread.run_if(is_expensive_body(ctx.request), produce, None)
                return await self._create_by_update(ctx, wanted, mode.tracked)
            if storage.conversion is not None:
                await storage.prepare_conversion(record)
            current = ExistingObject(storage, record)
            try:
                long = is_expensive_body(ctx.request) or is_expensive_json(record.value)
                wanted = await self.worker_thread.run(produce, current) if long else produce(current)
                if storage.allocator is None or mode.subresource:
                    return await self._replace(ctx, current, wanted, mode)
                with storage.allocator.allocation_for_write(self._clock, ctx.dry_run) as claim:
                    return await self._replace(ctx, current, wanted, mode, claim)
            except StoreConflict:
                if not mode.retry:
                    break
        raise errors.conflict(ctx.resource.group, ctx.resource.plural, ctx.target.name)

    async def _create_by_update(self, ctx: RequestContext, obj: Any, tracked: bool) -> WriteResult:
        if obj.metadata.uid:
            raise errors.conflict(
                ctx.resource.group,
                ctx.resource.plural,
                ctx.target.name,
                f"Precondition failed: UID in precondition: {obj.metadata.uid}, UID in object meta: ",
            )
        _requested_revision(obj.metadata)
        waiting = self._authorize_create(ctx)  # the request was authorized for an update or a patch
        if waiting is not None:
            await waiting
        force_setattr(obj.metadata, "resource_version", "")
        return await self.create(ctx, obj, tracked)

    async def _replace(
        self,
        ctx: RequestContext,
        current: ExistingObject,
        obj: Any,
        mode: UpdateMode,
        claim: ServiceAllocation | None = None,
    ) -> WriteResult:
        storage, record, subresource = current.storage, current.record, mode.subresource
        resource, strategy = storage.resource, storage.strategy
        self._check_version(resource, ctx.target.name, obj.metadata, record, strategy.allow_unconditional_update)
        if object_meta.deduplicate_owner_references(obj.metadata):
            ctx.warn(_DUPLICATE_OWNERS)
        old = current.form.stored
        long = is_expensive_body(ctx.request) or is_expensive_json(record.value)
        if mode.tracked:
            tracking = obj, current, ctx, subresource, settable_fields_of(strategy, subresource)
            if long:
                await self.worker_thread.run(self.managed_fields.update, *tracking)
            else:
                self.managed_fields.update(*tracking)
        attempt = self._attributes("UPDATE", ctx, subresource, obj, current.form.served)
        obj = await self._admit(attempt, long)
        new = to_storage_version(obj, resource)
        if claim is not None:
            claim.allocate(new, old)
        if long:
            await self.worker_thread.run(self._prepare_update, ctx, strategy, new, old, subresource)
        else:
            self._prepare_update(ctx, strategy, new, old, subresource)
        checked_as = "" if subresource in _WHOLE_OBJECT else subresource
        checked = (obj, current.form.served) if strategy.validated_as_served else (new, old)
        found = await self._run_rules(long, self._validator.validate_update, *checked, checked_as)
        self._raise_invalid(resource, ctx.target.name, found)
        compared = new, old, checked_as
        for text in await self.worker_thread.run(warnings_for, *compared) if long else warnings_for(*compared):
            ctx.warn(text)
        await self._validate_admission(attempt, long)
        value = encode_stored(new) if storage.conversion is None else await storage.encode(new)
        if object_meta.should_delete_during_update(new.metadata, old.metadata) and not object_meta.has_spec_finalizers(
            new
        ):
            return await self._remove(ctx, storage, record, value)
        unchanged = self._is_unchanged(storage, new, old, value, record.value)
        if unchanged and not storage.is_stale(record):
            return WriteResult(record.value, await storage.store.wait_durable(record))
        if ctx.dry_run:
            return WriteResult(value, await storage.store.wait_durable(record))
        with storage.publish_struct(record.key, value, new):
            started = self._clock.monotonic()
            event = await (claim or storage.store).write(record.key, value, record.mod_revision)
        self._observe_write(ctx, storage.writes.update, started)
        self.causes.record(ctx, record.key, event.revision)
        return WriteResult(event.record.value if event.record else value, event.revision, False, record.key)

    def _is_unchanged(self, storage: ResourceStorage, new: Any, old: Any, value: bytes, stored: bytes) -> bool:
        """Return True if nothing but timestamps of managedFields would change: such a write is skipped."""
        started = self._clock.monotonic()
        outcome: ComparisonOutcome
        outcome = "unequal_objects_fast" if value == stored else _compare_except_timestamps(new, old, value, stored)
        storage.writes.observe_comparison(outcome, self._clock.monotonic() - started)
        return value == stored or outcome == "equal_objects"

    def _check_version(self, resource: Resource, name: str, meta: Any, record: Record, unconditional: bool) -> None:
        current = str(record.mod_revision)
        if meta.resource_version == current:
            return
        asked = _requested_revision(meta)
        if not asked and not unconditional:
            missing = field_path.invalid(_RESOURCE_VERSION, 0, "must be specified for an update")
            raise errors.invalid(resource.group, resource.plural, name, [missing])
        if asked and asked != record.mod_revision:
            raise errors.conflict(resource.group, resource.plural, name)
        force_setattr(meta, "resource_version", current)

    def _prepare_update(self, ctx: RequestContext, strategy: Strategy, new: Any, old: Any, subresource: str) -> None:
        ensure_namespace(new.metadata, ctx.target.namespace)
        force_setattr(new.metadata, "generation", old.metadata.generation)
        if subresource in _WHOLE_OBJECT:
            strategy.prepare_update(new, old, self._features)
        elif subresource in strategy.subresource_updates:
            strategy.subresource_updates[subresource](new, old, self._features)
        else:
            strategy.prepare_status_update(new, old, self._features)
        if strategy.set_timestamps is not None:
            strategy.set_timestamps(new, old, format_time(ctx.now))
        object_meta.preserve_on_update(new.metadata, old.metadata)

    # -- delete -----------------------------------------------------------------------------------------------------

    async def remove_record(self, ctx: RequestContext, storage: ResourceStorage, record: Record) -> WriteResult:
        """Remove an object from the store unconditionally."""
        return await self._remove(ctx, storage, record, record.value)

    async def put_record(self, ctx: RequestContext, storage: ResourceStorage, record: Record, obj: Any) -> WriteResult:
        """Write an object that the server itself changed, as deletion does."""
        value = await storage.encode(obj)
        if ctx.dry_run:
            return WriteResult(value, await storage.store.wait_durable(record), obj=obj)
        with storage.publish_struct(record.key, value, obj):
            started = self._clock.monotonic()
            event = await storage.store.write(record.key, value, record.mod_revision)
        self._observe_write(ctx, storage.writes.update, started)
        self.causes.record(ctx, record.key, event.revision)
        return WriteResult(value, event.revision, False, record.key, obj)

    async def _remove(self, ctx: RequestContext, storage: ResourceStorage, record: Record, last: bytes) -> WriteResult:
        if ctx.dry_run:
            return WriteResult(last, await storage.store.wait_durable(record))
        started = self._clock.monotonic()
        if storage.allocator is not None:
            event = await storage.allocator.remove(record, self._clock)
        else:
            event = await storage.store.write(record.key, None, record.mod_revision)
        self._observe_write(ctx, storage.writes.delete, started)
        self.causes.record(ctx, record.key, event.revision)
        return WriteResult(last, event.revision)

    async def admit_delete(self, ctx: RequestContext, old: Any, options: Any) -> None:
        """Run mutating and validating admission for a DELETE."""
        attempt = self._attributes("DELETE", ctx, "", None, old)
        attempt.delete_options = options
        await self._admit(attempt)
        await self._validate_admission(attempt)

    async def admit_create_subresource(self, ctx: RequestContext, obj: Any) -> Any:
        """Run admission for a POST that is not stored (binding, eviction, token request).

        Returns the admitted object.
        """
        attempt = self._attributes("CREATE", ctx, ctx.target.subresource, obj, None)
        long = is_expensive_body(ctx.request)
        await self._admit(attempt, long)
        await self._validate_admission(attempt, long)
        return attempt.obj

    async def admit_connect(self, ctx: RequestContext, options: Any) -> Any:
        """Run admission for a CONNECT to a pod, service or node; return the admitted options."""
        attempt = self._attributes("CONNECT", ctx, ctx.target.subresource, options, None)
        await self._admit(attempt)
        await self._validate_admission(attempt)
        return attempt.obj

    # -- admission --------------------------------------------------------------------------------------------------

    async def _admit(self, attempt: Attributes, long: bool = False) -> Any:
        """Run mutating admission and return the object; awaits only plugins, webhooks and policies that wait.

        The plugins look at a long object in the worker thread, from where they look up other objects through the loop.
        """
        admit = self._admission.admit
        waiting = await self.worker_thread.run(admit, attempt) if long else admit(attempt)
        if waiting is not None:
            await waiting
        if self._admission.dynamic_mutate is not None:
            await self._admission.dynamic_mutate(attempt)
        return attempt.obj

    async def _validate_admission(self, attempt: Attributes, long: bool = False) -> None:
        validate = self._admission.validate
        waiting = await self.worker_thread.run(validate, attempt) if long else validate(attempt)
        if waiting is not None:
            await waiting
        if self._admission.dynamic_validate is not None:
            await self._admission.dynamic_validate(attempt)
        waiting = self._admission.validate_quota(attempt)
        if waiting is not None:
            await waiting

    async def _run_rules(self, long: bool, work: Callable[..., T], checked: Any, *others: Any) -> T:
        """Run a step that evaluates the validation rules of custom objects, likewise."""
        if long:
            return await self.worker_thread.run(work, checked, *others)
        if isinstance(checked, CustomResourceObject):
            return await self.worker_thread.run_within_budget(work, checked, *others)
        return work(checked, *others)

    # -- shared -----------------------------------------------------------------------------------------------------

    def _attributes(
        self, operation: Operation, ctx: RequestContext, subresource: str, obj: Any, old: Any
    ) -> Attributes:
        target = ctx.target
        name = target.name or (obj.metadata.name if obj is not None else "")
        if self._admission.dynamic_mutate is not None or self._admission.dynamic_validate is not None:
            ctx.ensure_latency()
        return Attributes(
            operation,
            target.resource,
            subresource,
            target.namespace,
            name,
            obj,
            old,
            ctx.user,
            ctx.dry_run,
            ctx.now,
            ctx.warnings,
            ctx.query,
            annotations=ctx.annotations,
            method=ctx.request.method,
            latency=ctx.latency,
        )

    def _observe_write(self, ctx: RequestContext, durations: FastHistogram, started: float) -> None:
        """Count a write of the store, which began at a reading of the monotonic clock."""
        seconds = self._clock.monotonic() - started
        durations.observe(seconds)
        if ctx.audit is not None:
            ctx.audit.observe_storage(seconds)

    def _raise_invalid(self, resource: Resource, name: str, found: list[field_path.FieldError]) -> None:
        if found:
            # Upstream names the kind of the stored version.
            raise errors.invalid(resource.storage_version[0], resource.kind, name, found)


_RESOURCE_VERSION = FieldPath("metadata").child("resourceVersion")
_DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
    "and may reject such requests as early as 1.24; please fix your requests"
)


def ensure_namespace(meta: Any, namespace: str) -> None:
    """Set the namespace from the path; raises BadRequest if the object names another one."""
    check_namespace(meta.namespace, namespace)
    force_setattr(meta, "namespace", namespace)


def check_namespace(found: str, requested: str) -> None:
    """Raise BadRequest if an object names another namespace than the path."""
    if requested and found and found != requested:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def _requested_revision(meta: Any) -> int:
    """Return the revision that an update expects, 0 if any; raises ApiError (500, as upstream) if it is no number."""
    try:
        return object_meta.parse_resource_version(meta.resource_version)
    except ValueError as error:
        raise errors.ApiError(str(error)) from None


def _names_revision(resource_version: str) -> bool:
    """Return True if a resourceVersion is a revision; zero and what is no number are ignored on create."""
    try:
        return object_meta.parse_resource_version(resource_version) != 0
    except ValueError:
        return False


def _compare_except_timestamps(new: Any, old: Any, value: bytes, stored: bytes) -> ComparisonOutcome:
    """Compare objects without the timestamps of managedFields; those must differ, or the comparison ends early."""
    if len(value) != len(stored) or new.metadata.managed_fields == old.metadata.managed_fields:
        return "unequal_objects_fast"
    mine, theirs = new.metadata.managed_fields, old.metadata.managed_fields
    if len(mine) != len(theirs):
        return "unequal_objects_fast"
    force_setattr(new.metadata, "managed_fields", theirs)
    same = encode_stored(new) == stored
    force_setattr(new.metadata, "managed_fields", mine)
    is_equal = same and all(
        msgspec.structs.replace(a, time=None) == msgspec.structs.replace(b, time=None)
        for a, b in zip(mine, theirs, strict=True)
    )
    return "equal_objects" if is_equal else "unequal_objects_slow"
