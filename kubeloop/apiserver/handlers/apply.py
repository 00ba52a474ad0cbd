"""Server-side apply: from an applied configuration to the resulting object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubeloop.api import errors
from kubeloop.api.apply.server_side import apply
from kubeloop.api.scalars.times import format_time
from kubeloop.apiserver.decoding import decode_document, parse_yaml
from kubeloop.apiserver.registry.existing import ExistingObject
from kubeloop.apiserver.registry.field_manager import set_entries, settable_fields_of
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.registry.versions import conversion_of
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.write_options import field_validation


def apply_config(ctx: RequestContext, storage: ResourceStorage) -> Callable[[ExistingObject | None], Any]:
    """Return a function that applies the configuration to the newest record, including managedFields."""
    config, repeated = read_config(ctx)
    resource = ctx.resource
    settable = settable_fields_of(storage.strategy, ctx.target.subresource)

    def produce(current: ExistingObject | None) -> Any:
        applied = apply(
            None if current is None else current.plain,
            config,
            resource.node,
            resource.kind,
            ctx.query.text("fieldManager"),
            resource.group_version,
            ctx.target.subresource,
            ctx.query.flag("force"),
            format_time(ctx.now),
            [] if current is None else current.entries,
            settable,
            conversion_of(resource),
        )
        report_duplicate_keys(ctx, repeated)
        _check(ctx, applied.obj, creating=current is None)
        obj = decode_document(applied.obj, resource, "Ignore").obj
        set_entries(obj, applied.entries)
        return obj

    return produce


def read_config(ctx: RequestContext) -> tuple[dict[str, Any], list[str]]:
    """Return the applied configuration, from YAML or JSON, and the strict parser's errors about duplicate keys."""
    try:
        document, repeated = parse_yaml(ctx.request.body)
    except ValueError as error:
        raise errors.bad_request(f"error encoding patch: {error}") from None
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
    name = meta.get("name", "")
    target = ctx.target
    if not name:
        raise errors.bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")
    if creating and meta.get("uid"):
        why = f"uid mismatch: the provided object specified uid {meta['uid']}, and no existing object was found"
        raise errors.conflict(ctx.resource.group, ctx.resource.plural, name, why)
