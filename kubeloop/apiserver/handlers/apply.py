# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: from an applied configuration to the resulting object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api import codec, errors
from kubeloop.api.apply.change import ManagedWrite
from kubeloop.api.apply.server_side import apply, describe
from kubeloop.api.generated.apps_v1 import ControllerRevision
from kubeloop.api.kinds import Resource
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.decoding import decode_document, parse_yaml
from kubeloop.apiserver.decoding.go_shapes import shape_of
from kubeloop.apiserver.decoding.unstructured_converter import conversion_error, wrap_integers
from kubeloop.apiserver.registry.existing_object import ExistingObject
from kubeloop.apiserver.registry.field_manager import set_entries, settable_fields_of
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.registry.store import check_namespace
from kubeloop.apiserver.registry.versions import conversion_of
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.write_options import field_validation

# Applied configuration, and the strict parser's errors about duplicate keys.
AppliedConfig = tuple[dict[str, Any], list[str]]


def apply_config(
    ctx: RequestContext, storage: ResourceStorage, applied_config: AppliedConfig
) -> Callable[[ExistingObject | None], Any]:
    """Return a function that applies the configuration to the newest record, including managedFields."""
    config, repeated = applied_config
    resource = ctx.resource
    write = ManagedWrite(
        resource.kind,
        resource.group_version,
        resource.schema_node,
        ctx.query.text("fieldManager"),
        format_time(ctx.now),
        ctx.target.subresource,
        settable_fields_of(storage.strategy, ctx.target.subresource),
        conversion_of(resource),
    )

    def produce(current: ExistingObject | None) -> Any:
        applied = apply(
            None if current is None else current.use_owned().plain,
            config,
            write,
            [] if current is None else current.form.managed_fields,
            force=ctx.query.flag("force"),
        )
        report_duplicate_keys(ctx, repeated)
        obj = _converted(applied.obj, resource, config)
        if current is not None and isinstance(obj, ControllerRevision):
            _keep_text(obj, applied.obj, current)
        _check(ctx, applied.obj, creating=current is None)
        set_entries(obj, applied.entries)
        return obj

    return produce


def _keep_text(obj: ControllerRevision, document: dict[str, Any], current: ExistingObject) -> None:
    """Keep the text of the data, which must not change, if the object is unchanged: upstream then keeps all of it."""
    if _is_same(document, current.use_owned().plain):
        codec.force_setattr(obj, "data", current.form.served.data)


def _is_same(new: dict[str, Any], old: dict[str, Any]) -> bool:
    """Return True if two documents differ at most in their managedFields."""
    return _without_owners(new) == _without_owners(old)


def _without_owners(document: dict[str, Any]) -> dict[str, Any]:
    meta = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {**document, "metadata": meta}


def _converted(document: dict[str, Any], resource: Resource, config: dict[str, Any]) -> Any:
    """Decode the resulting object with the errors of Go's converter, which upstream uses instead of a decoder."""
    try:
        return decode_document(document, resource, "Ignore").obj
    except errors.BadRequest:
        if resource.is_custom:
            raise
        shape = shape_of(resource.definition)
        if why := conversion_error(document, shape):
            version = resource.group_version if resource.group else f"/{resource.group_version}"
            raise errors.ApiError(
                f"failed to convert new object ({describe(config)}) to proper version: "
                f"unable to convert unstructured object to {version}, Kind={resource.kind}: {why}"
            ) from None
        return decode_document(wrap_integers(document, shape), resource, "Ignore").obj


def read_config(ctx: RequestContext) -> AppliedConfig:
    """Decode the applied configuration from YAML or JSON; run it by `WorkerThread.run_for`."""
    try:
        document, repeated = parse_yaml(ctx.request.body)
    except ValueError as error:
        # What looks like JSON is not converted at first, and fails only when it is decoded.
        is_json = ctx.request.body.lstrip().startswith(b"{")
        failed = "error decoding patch: error converting YAML to JSON" if is_json else "error encoding patch"
        raise errors.bad_request(f"{failed}: {error}") from None
    if document is not None and not isinstance(document, dict):
        raise errors.bad_request(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {_json_kind(document)} into Go value of type map[string]interface {{}}"
        )
    return document or {}, repeated


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "array" if isinstance(value, list) else "string" if isinstance(value, str) else "number"


def report_duplicate_keys(ctx: RequestContext, repeated: list[str]) -> None:
    """Reject or warn about duplicate keys; upstream does so only if the configuration is valid otherwise."""
    mode = field_validation(ctx.query)
    if repeated and mode == "Strict":
        told = "".join(f"\n  {line}" for line in repeated)
        raise errors.bad_request(
            f"error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:{told}"
        )
    if mode != "Ignore":
        for warning in repeated:
            ctx.warn(warning)


def _check(ctx: RequestContext, document: dict[str, Any], creating: bool) -> None:
    meta = document.get("metadata") or {}
    target = ctx.target
    if creating and meta.get("uid"):
        why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise errors.conflict(ctx.resource.group, ctx.resource.plural, target.name, why)
    check_namespace(meta.get("namespace") or "", target.namespace)
    name = meta.get("name", "")
    if not name:
        raise errors.bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
