# SPDX-License-Identifier: Apache-2.0
"""Fast path for patches of single parts of an object: only these parts are converted and decoded.

A status patch of a pod needs nothing of its spec. Any other patch, and every invalid one, takes the full path.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from kubeloop.api import codec
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.errors import ApiError
from kubeloop.api.kinds import Resource
from kubeloop.api.strategy import Strategy
from kubeloop.api.struct_patch import StructPatch
from kubeloop.apiserver.decoding import decode_parts
from kubeloop.apiserver.handlers.patch import JSON_PATCH, apply_patch
from kubeloop.apiserver.registry.existing_object import ExistingObject
from kubeloop.apiserver.registry.versions import conversion_of
from kubeloop.apiserver.request.context import RequestContext

_PARTS: Final = frozenset({"metadata", "spec", "status"})
_STATUS: Final = ("status",)
_PATCHED_SUBRESOURCES: Final = ("", "status")
# Kinds whose status has defaults that depend on the spec.
_DEFAULTS_CROSS_PARTS: Final = frozenset({"services", "customresourcedefinitions.apiextensions.k8s.io"})
_TYPE: Final = frozenset({"kind", "api_version"})


def patch_parts(media: str, patch: Any, current: ExistingObject, ctx: RequestContext, strategy: Strategy) -> Any | None:
    """Return the patched object, or None if the patch needs the full path."""
    resource, subresource = ctx.resource, ctx.target.subresource
    if media == JSON_PATCH or resource.is_custom or conversion_of(resource) is not None:
        return None
    if resource.group_resource in _DEFAULTS_CROSS_PARTS or type(patch) is not dict or not patch.keys() <= _PARTS:
        return None
    fields = resource.type.__struct_fields__
    if subresource not in _PATCHED_SUBRESOURCES or not _has_only_parts(fields):
        return None
    if subresource or strategy.preserves_old or "status" not in fields:
        current.use_shared()
    names = _patched_part_names(patch, current.form.served, strategy, subresource)
    obj = _patched(media, {name: patch[name] for name in names}, current, resource, subresource) if names else None
    if obj is None:
        current.use_owned()
    return obj


def apply_struct_patch(overlay: StructPatch, current: ExistingObject, ctx: RequestContext) -> Any | None:
    """Return the object patched by a struct patch of an in-process caller, or None if it must be merged."""
    if conversion_of(ctx.resource) is not None or not _can_change_only(overlay.part, ctx):
        return None
    was = current.use_shared().served
    part = overlay.apply_to(getattr(was, overlay.part)) if overlay.uid in ("", was.metadata.uid) else None
    if part is None:
        current.use_owned()
        return None
    current.restrict_to((overlay.part,))
    obj = type(was)(**{overlay.part: _copied(part)})
    apply_defaults(obj)
    codec.force_setattr(obj, "metadata", _copy_metadata(was.metadata))
    if overlay.part == "status":
        codec.force_setattr(obj, "spec", was.spec)
    return obj


def _can_change_only(part: str, ctx: RequestContext) -> bool:
    """Return True if the write can change this part only: a status, or the spec of a kind without status."""
    fields = ctx.resource.type.__struct_fields__
    if not _has_only_parts(fields) or part not in fields:
        return False
    return ctx.target.subresource == part == "status" or (
        part == "spec" and not ctx.target.subresource and "status" not in fields
    )


def _patched(
    media: str, patch: dict[str, Any], current: ExistingObject, resource: Resource, subresource: str
) -> Any | None:
    was = current.form.served
    live = {"apiVersion": was.api_version, "kind": was.kind, **current.restrict_to(tuple(patch))}
    try:
        patched = apply_patch(media, live, patch, resource)
    except ApiError:
        return None
    spec = _copied(was.spec) if not subresource and "spec" not in patch and hasattr(was, "spec") else None
    obj = decode_parts(patched, resource, patch, {} if spec is None else {"spec": spec})
    if obj is None or (spec is not None and spec != was.spec):  # a default was added since the object was stored
        return None
    if "metadata" not in patch:
        codec.force_setattr(obj, "metadata", _copy_metadata(was.metadata))
    for name in ("spec", "status"):
        if name not in patch and hasattr(was, name):
            codec.force_setattr(obj, name, getattr(was, name) if spec is None or name != "spec" else spec)
    return obj


def _patched_part_names(patch: dict[str, Any], was: Any, strategy: Strategy, subresource: str) -> tuple[str, ...]:
    """Return the parts that a patch changes; empty if the patch needs the full path."""
    for name, part in patch.items():
        if type(part) is not dict or not hasattr(was, name):
            return ()
    names = tuple(name for name in patch if name != "metadata" or patch[name] != {"uid": was.metadata.uid})
    if subresource == "status":
        # The spec is reset to its stored value, whatever a client sends.
        return names if "spec" not in names else ()
    # So is the status, for kinds with a status subresource.
    keeps_status = not hasattr(was, "status") or _STATUS in strategy.reset_fields.get("", ())
    return names if keeps_status and "status" not in names else ()


@cache
def _has_only_parts(fields: tuple[str, ...]) -> bool:
    return set(fields) <= _PARTS | _TYPE


def _copy_metadata(meta: Any) -> Any:
    """Return a copy of the metadata without managedFields, which the write may complete in place."""
    return msgspec.structs.replace(
        meta, managed_fields=(), labels=dict(meta.labels), annotations=dict(meta.annotations)
    )


def _copied(part: Any) -> Any:
    return codec.decode(codec.encode(part), type(part))
