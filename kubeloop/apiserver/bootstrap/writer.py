# SPDX-License-Identifier: Apache-2.0
"""Writes bootstrap objects: creates missing ones, updates those that describe the server, reconciles others.

The writes bypass admission and authorization, which need some of these objects themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.fields.field_owners import update_field_owners
from kubeloop.api.conversion import to_storage_version
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.rbac_v1 import AggregationRule, ClusterRole, ClusterRoleBinding, Role, RoleBinding
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import object_meta
from kubeloop.api.scalars.times import format_time
from kubeloop.api.schema import node_of
from kubeloop.apiserver.authorization.escalation import uncovered_rules
from kubeloop.apiserver.bootstrap.flow_control_reconciliation import GROUP as _FLOW_CONTROL
from kubeloop.apiserver.bootstrap.flow_control_reconciliation import reconcile_flow_control
from kubeloop.apiserver.registry.field_manager import set_entries
from kubeloop.apiserver.registry.serializer import encode_stored
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry
from kubeloop.clock import Clock, new_uid
from kubeloop.store import DependentConflict, Record, StoreConflict, StoreEvent

MANAGER = "kube-apiserver"
# Depends on how the server was started; all other objects belong to the administrators once created.
_SERVER_DESCRIPTIONS = {
    ("services", "kubernetes"),
    ("endpoints", "kubernetes"),
    ("endpointslices", "kubernetes"),
}
_ACCESS = "rbac.authorization.k8s.io"
_FURTHER_SLICES = "kubernetes-"  # of servers that listen on other ports
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_A = TypeVar("_A")


class BootstrapWriter:
    """Writer of bootstrap objects to one server's storages."""

    def __init__(self, registry: StorageRegistry, clock: Clock, features: Features) -> None:
        self._registry = registry
        self._clock = clock
        self._features = features

    async def ensure(self, objects: Iterable[tuple[Resource, Any]]) -> None:
        """Write objects and wait until all are durable; they share a flush."""
        wanted = list(objects)
        while writes := [write for resource, obj in wanted if (write := self.write(resource, obj)) is not None]:
            results = await asyncio.gather(*writes, return_exceptions=True)
            failures = [one for one in results if isinstance(one, BaseException)]
            if not failures:
                return
            for failure in failures:  # another server may have created some meanwhile
                if not isinstance(failure, StoreConflict | DependentConflict):
                    raise failure

    def write(self, resource: Resource, obj: Any) -> asyncio.Future[StoreEvent] | None:
        """Start to create or update an object; None if there is nothing to do."""
        storage = self._registry.storage_of(resource)
        name, namespace = obj.metadata.name, obj.metadata.namespace
        record = storage.peek(namespace, name)
        if record is not None and not _is_server_description(resource, name):
            reconcile = _reconciliation_of(resource)
            return _write_reconciled(storage, record, obj, reconcile) if reconcile is not None else None
        fresh = self._prepare(storage, obj, namespace)
        if record is not None:
            return _write_corrected(storage, record, fresh)
        try:
            return storage.store.write(storage.key(namespace, name), encode_stored(fresh), 0)
        except StoreConflict:
            return None  # another server was faster, with the same result

    def _prepare(self, storage: ResourceStorage, obj: Any, namespace: str) -> Any:
        """Return a complete copy as after a create, with the status that a create would drop."""
        resource = storage.resource
        fresh = codec.decode(codec.encode(obj), type(obj))
        apply_defaults(fresh)
        now = self._clock.now()
        object_meta.fill_system_fields(fresh.metadata, namespace, new_uid(self._clock), now)
        plain = codec.to_plain(fresh)
        set_entries(fresh, _entries(plain, resource, format_time(now)))
        stored = to_storage_version(fresh, resource)
        status = getattr(stored, "status", None)
        storage.strategy.prepare_create(stored, self._features)
        if status is not None:
            codec.force_setattr(stored, "status", status)
        return stored


def _reconciliation_of(resource: Resource) -> Callable[[Any, Any], Any] | None:
    """Return how an existing object is reconciled with the default one; None if it belongs to administrators."""
    return {_ACCESS: reconcile_rbac, _FLOW_CONTROL: reconcile_flow_control}.get(resource.group)


def _is_server_description(resource: Resource, name: str) -> bool:
    if (resource.plural, name) in _SERVER_DESCRIPTIONS:
        return True
    return resource.plural == "endpointslices" and name.startswith(_FURTHER_SLICES)


def _entries(plain: dict[str, Any], resource: Resource, now: str) -> list[dict[str, Any]]:
    write = ManagedWrite(resource.kind, resource.group_version, node_of(resource.definition), MANAGER, now)
    entries: list[dict[str, Any]] = update_field_owners(None, plain, write, [])
    return entries


def _write_reconciled(
    storage: ResourceStorage, record: Record, wanted: Any, reconcile: Callable[[Any, Any], Any]
) -> asyncio.Future[StoreEvent] | None:
    """Write an object with what it lacks; None if nothing is missing."""
    present = storage.serializer.decode_stored(record.value, record.mod_revision)
    found = reconcile(present, wanted)
    if found is present:
        return None
    try:
        return storage.store.write(record.key, encode_stored(found), record.mod_revision)
    except StoreConflict:
        return None


def _write_corrected(storage: ResourceStorage, record: Record, fresh: Any) -> asyncio.Future[StoreEvent] | None:
    """Write the record with new content; None if it is unchanged."""
    old = storage.serializer.decode_stored(record.value, record.mod_revision)
    corrected = msgspec.structs.replace(fresh, metadata=old.metadata)
    if corrected == old:
        return None
    try:
        return storage.store.write(record.key, encode_stored(corrected), record.mod_revision)
    except StoreConflict:
        return None


def reconcile_rbac(present: Any, wanted: Any) -> Any:
    """Return a role or binding with all that it should have; the same object if nothing is missing.

    A later version or an enabled feature adds to existing default roles. Nothing is removed: administrators' additions
    stay. They opt a role out by the annotation.
    """
    if present.metadata.annotations.get(AUTOUPDATE) == "false":
        return present
    meta = replace(
        present.metadata,
        labels={**wanted.metadata.labels, **present.metadata.labels},
        annotations={**wanted.metadata.annotations, **present.metadata.annotations},
    )
    changed = replace(_with_content(present, wanted), metadata=meta)
    return present if changed == present else changed


def _with_content(present: Any, wanted: Any) -> Any:
    if isinstance(present, ClusterRoleBinding | RoleBinding):
        return replace(present, subjects=_union(present.subjects, wanted.subjects))
    if isinstance(present, ClusterRole) and wanted.aggregation_rule is not None:
        return replace(present, aggregation_rule=_aggregation(present.aggregation_rule, wanted.aggregation_rule))
    if isinstance(present, ClusterRole | Role):
        rules = present.rules or ()
        missing = uncovered_rules(rules, wanted.rules or ())
        return replace(present, rules=(*rules, *missing)) if missing else present
    return present


def _aggregation(present: AggregationRule | None, wanted: AggregationRule) -> AggregationRule:
    if present is None:
        return wanted
    selectors = _union(present.cluster_role_selectors, wanted.cluster_role_selectors)
    return replace(present, cluster_role_selectors=selectors)


def _union(present: tuple[_A, ...], wanted: tuple[_A, ...]) -> tuple[_A, ...]:
    return (*present, *(one for one in wanted if one not in present))
