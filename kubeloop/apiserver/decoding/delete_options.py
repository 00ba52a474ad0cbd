# SPDX-License-Identifier: Apache-2.0
"""DeleteOptions of a request: from its body, or from its query if it has none."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeloop.api import codec, errors
from kubeloop.api.generated.meta_v1 import DeleteOptions, Preconditions
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.apiserver.decoding import ACCEPTED, parse_yaml
from kubeloop.apiserver.decoding.go_json import GoJsonError, parse_json
from kubeloop.apiserver.decoding.go_shapes import shape_of
from kubeloop.apiserver.decoding.type_meta import parse_type_meta
from kubeloop.apiserver.decoding.unmarshal import unmarshal
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.query import Query

_JSON, _YAML, _PROTOBUF = ACCEPTED
_DEFINITION: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_KIND: Final = "DeleteOptions"
_META: Final = "meta.k8s.io/v1"
_SCHEME: Final = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
_POLICIES: Final = ("Foreground", "Background", "Orphan")
# Kinds of options that the scheme knows beside DeleteOptions: in every version, and in that of meta alone.
_UNVERSIONED: Final = ("CreateOptions", "UpdateOptions")
_OF_META: Final = ("GetOptions", "ListOptions", "PatchOptions", "Table", "TableOptions", "WatchEvent")
IGNORES_READ_ERROR: Final = FieldPath("ignoreStoreReadErrorWithClusterBreakingPotential")


def read_delete_options(ctx: RequestContext) -> DeleteOptions:
    """Read the DeleteOptions of a request; raises BadRequest, UnsupportedMediaType or Invalid."""
    body = ctx.request.body
    if body:
        options = _from_body(body, ctx.request.headers.get("content-type", ""))
        if ctx.audit is not None:
            ctx.audit.log_delete_options(options)
    else:
        options = _from_query(ctx.query) if ctx.query else DeleteOptions()
    found = _check(options)
    if found:
        raise errors.invalid("meta.k8s.io", _KIND, "", found)
    return options


def _from_body(body: bytes, content_type: str) -> DeleteOptions:
    media = content_type.partition(";")[0].strip().lower() or _JSON
    if media not in ACCEPTED:
        raise errors.unsupported_media_type(ACCEPTED)
    try:
        if media == _PROTOBUF:
            return codec.decode(_from_protobuf(body), DeleteOptions)
        if media == _JSON:
            options = _ordinary_options(body)
            if options is not None:
                return options
        document = parse_yaml(body)[0] if media == _YAML else _parsed_json(body)
        _check_kind(document)
        return codec.decode(codec.encode(unmarshal(document, shape_of(_DEFINITION))[0]), DeleteOptions)
    except (msgspec.MsgspecError, ValueError) as error:
        raise errors.bad_request(str(error)) from None


def _ordinary_options(body: bytes) -> DeleteOptions | None:
    """Decode a JSON body that clients send; None if it needs the path that words errors as Go does."""
    try:
        options = codec.decode(body, DeleteOptions)
    except (msgspec.MsgspecError, ValueError):
        return None
    return options if options.kind in ("", _KIND) and options.api_version.count("/") < 2 else None


def _parsed_json(body: bytes) -> Any:
    try:
        return parse_json(body)
    except GoJsonError as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {error}") from None


def _check_kind(document: Any) -> None:
    """Raise ValueError for another kind; DeleteOptions are known in every version."""
    meta = parse_type_meta(document)
    version = meta.group_version or _META
    if meta.kind in ("", _KIND):
        return
    if meta.kind in _UNVERSIONED or (meta.kind in _OF_META and version == _META):
        raise ValueError(f"converting ({version.rpartition('/')[2]}.{meta.kind}) to (v1.{_KIND}): unknown conversion")
    raise ValueError(f'no kind "{meta.kind}" is registered for version "{version}" in scheme "{_SCHEME}"')


def _from_protobuf(body: bytes) -> bytes:
    """Decode protobuf DeleteOptions to JSON; every group has them under its own version."""
    from kubeloop.api import protobuf  # imported on first use

    api_version, kind, raw = protobuf.open_envelope(body)
    _check_kind({"apiVersion": api_version, "kind": kind})
    return codec.encode(protobuf.decode_object(api_version, _KIND, raw))


def _from_query(query: Query) -> DeleteOptions:
    uid, resource_version = query.text("uid") or None, query.text("resourceVersion") or None
    return DeleteOptions(
        grace_period_seconds=query.integer("gracePeriodSeconds"),
        orphan_dependents=query.optional_flag("orphanDependents"),
        propagation_policy=query.text("propagationPolicy") or None,
        dry_run=query.values("dryRun"),
        preconditions=Preconditions(uid=uid, resource_version=resource_version) if uid or resource_version else None,
    )


def _check(options: DeleteOptions) -> list[FieldError]:
    found: list[FieldError] = []
    policy = options.propagation_policy
    if options.orphan_dependents is not None and policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        found.append(field_path.invalid(FieldPath("propagationPolicy"), policy, detail))
    if policy is not None and policy not in _POLICIES:
        found.append(field_path.not_supported(FieldPath("propagationPolicy"), policy, (*_POLICIES, "nil")))
    if any(value != "All" for value in options.dry_run):
        found.append(field_path.not_supported(FieldPath("dryRun"), list(options.dry_run), ("All",)))
    if options.ignore_store_read_error_with_cluster_breaking_potential:
        found += [
            field_path.invalid(IGNORES_READ_ERROR, True, f"cannot be set together with .{name}")
            for name, held in (
                ("propagationPolicy", policy),
                ("orphanDependents", options.orphan_dependents),
                ("gracePeriodSeconds", options.grace_period_seconds),
                ("preconditions", options.preconditions),
            )
            if held is not None
        ]
    return found
