"""Parameter objects of policy bindings."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.admissionregistration_v1 import ParamKind, ParamRef
from kubeloop.api.selectors import label_selector_as_selector
from kubeloop.apiserver.registry.storage import ResourceStorage, StorageRegistry


class PolicyConfigurationError(Exception):
    """Error for an unusable policy or binding; `binding` is True if the binding is at fault."""

    def __init__(self, message: str, *, binding: bool = True) -> None:
        super().__init__(message)
        self.binding = binding


def param_storage_of(registry: StorageRegistry, kind: ParamKind) -> ResourceStorage:
    """Return the storage of a param kind; raises `PolicyConfigurationError`."""
    for storage in registry.storages():
        if storage.resource.kind == kind.kind and storage.resource.group_version == kind.api_version:
            return storage
    group, _, version = kind.api_version.rpartition("/")
    why = f"failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind.kind}'"
    raise PolicyConfigurationError(why, binding=False)


def params_for(registry: StorageRegistry, kind: ParamKind | None, ref: ParamRef | None, namespace: str) -> list[Any]:
    """Return the parameters, one per evaluation; [None] without any. Raises `PolicyConfigurationError`."""
    if kind is None:
        return [None]
    storage = param_storage_of(registry, kind)
    if ref is None:
        return [None]
    where = _namespace(storage, ref, namespace)
    if ref.name:
        record = storage.get(where, ref.name)
        found = [] if record is None else [storage.view.decode_record(record)]
    else:
        selector = label_selector_as_selector(ref.selector)
        records = storage.store.range(storage.prefix(where)).records
        objects = (storage.view.decode_record(record) for record in records)
        found = [obj for obj in objects if selector.matches(obj.metadata.labels or {})]
    if not found and ref.parameter_not_found_action == "Deny":
        raise PolicyConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return [codec.to_plain(obj) for obj in found]


def _namespace(storage: ResourceStorage, ref: ParamRef, namespace: str) -> str:
    if not storage.resource.namespaced:
        if ref.namespace:
            raise PolicyConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        return ""
    where = ref.namespace or namespace
    if not where:
        raise PolicyConfigurationError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return where
