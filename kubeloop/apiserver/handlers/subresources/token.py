# SPDX-License-Identifier: Apache-2.0
"""serviceaccounts/token: issues a signed service account token, optionally bound to a pod, secret or node."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestStatus
from kubeloop.api.kinds import Resource
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.api.meta.object_meta import time_of
from kubeloop.apiserver.authentication.service_account_tokens import (
    ClaimReference,
    KubernetesClaim,
    ServiceAccountTokens,
)
from kubeloop.apiserver.handlers.subresources.unstored_bodies import read_unstored
from kubeloop.apiserver.handlers.subresources.unstored_responses import unstored_object_response
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.write_options import validate_write_options
from kubeloop.clock import new_uid
from kubeloop.http import Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

TOKEN_REQUEST = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest", verbs=("create",))
# Audit annotation that names the token without revealing it.
_ISSUED_CREDENTIAL = "authentication.kubernetes.io/issued-credential-id"
_SHORTEST_SECONDS = 600
_LONGEST_SECONDS = 2**32
# Expiration that kubelets request: extended to a year for clients that never reread the token, counted in metrics.
_PROJECTED_SECONDS = 3607
_EXTENDED_SECONDS = 365 * 24 * 3600


class _BoundObjects(NamedTuple):
    """Objects that a token is bound to."""

    pod: ClaimReference | None = None
    secret: ClaimReference | None = None
    node: ClaimReference | None = None


async def request_token(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a TokenRequest to a service account."""
    if server.tokens is None:
        raise errors.generic_server_response(404)
    validate_write_options(ctx.query, "CreateOptions")
    request: TokenRequest = await read_unstored(ctx, server, TOKEN_REQUEST)
    given_uid = request.metadata.uid
    # Before defaulting: a node may request no audience, which differs from requesting the server's own.
    request = await server.object_store.admit_create_subresource(ctx, request)
    account = _account(ctx, server.registry, request)
    if given_uid and given_uid != account.metadata.uid:
        told = (
            f"the UID in the token request ({given_uid}) does not match the UID of the service account "
            f"({account.metadata.uid})"
        )
        raise errors.conflict(TOKEN_REQUEST.group, TOKEN_REQUEST.kind, ctx.target.name, told)
    _complete(ctx, request, account, server.tokens)
    found = validate_token_request(request)
    if found:
        raise errors.invalid(TOKEN_REQUEST.group, TOKEN_REQUEST.kind, "", found)
    bound = _bound(ctx, server.registry, request.spec.bound_object_ref)
    _shorten(ctx, request, server.run_options.max_token_expiration)
    _issue(ctx, request, account, bound, server)
    return unstored_object_response(ctx, TOKEN_REQUEST, request, 201)


def _account(ctx: RequestContext, registry: StorageRegistry, request: TokenRequest) -> Any:
    target = ctx.target
    if request.metadata.name not in ("", target.name):
        path = FieldPath("metadata").child("name")
        wrong = field_path.invalid(path, request.metadata.name, "must match the service account name if specified")
        raise errors.invalid(TOKEN_REQUEST.group, TOKEN_REQUEST.kind, target.name, [wrong])
    account = registry.get_object("serviceaccounts", target.namespace, target.name)
    if account is None:
        raise errors.not_found("", "serviceaccounts", target.name)
    return account


def _complete(ctx: RequestContext, request: TokenRequest, account: Any, tokens: ServiceAccountTokens) -> None:
    meta = request.metadata
    force_setattr(meta, "name", account.metadata.name)
    force_setattr(meta, "uid", account.metadata.uid)
    force_setattr(meta, "creation_timestamp", time_of(ctx.now))
    force_setattr(request, "status", TokenRequestStatus())
    if not request.spec.audiences:
        force_setattr(request.spec, "audiences", tokens.audiences)


def validate_token_request(request: TokenRequest) -> list[FieldError]:
    """Return the field errors of a completed token request."""
    spec, path = request.spec, FieldPath("spec")
    if spec.attestations:
        told = "attestations may only be specified with a webhook bound object reference"
        return [field_path.invalid(path.child("attestations"), dict(spec.attestations), told)]
    seconds = spec.expiration_seconds or 0
    if seconds < _SHORTEST_SECONDS:
        told = "may not specify a duration less than 10 minutes"
        return [field_path.invalid(path.child("expirationSeconds"), seconds, told)]
    if seconds > _LONGEST_SECONDS:
        told = "may not specify a duration larger than 2^32 seconds"
        return [field_path.invalid(path.child("expirationSeconds"), seconds, told)]
    return []


def _bound(ctx: RequestContext, registry: StorageRegistry, wanted: BoundObjectReference | None) -> _BoundObjects:
    if wanted is None:
        return _BoundObjects()
    found = _bound_object(ctx, registry, wanted)
    if wanted.kind == "Pod" and found.spec.service_account_name != ctx.target.name:
        raise errors.bad_request(
            f"cannot bind token for serviceaccount {field_path.quote(ctx.target.name)} "
            "to pod running with different serviceaccount name."
        )
    if wanted.uid and wanted.uid != found.metadata.uid:
        told = (
            f"the UID in the bound object reference ({wanted.uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict("", wanted.kind, wanted.name, told)
    reference = ClaimReference(found.metadata.name, found.metadata.uid)
    if wanted.kind == "Pod":
        return _BoundObjects(pod=reference, node=_node_of(registry, found.spec.node_name))
    return _BoundObjects(secret=reference) if wanted.kind == "Secret" else _BoundObjects(node=reference)


def _bound_object(ctx: RequestContext, registry: StorageRegistry, wanted: BoundObjectReference) -> Any:
    group, _, version = wanted.api_version.rpartition("/")
    if group or wanted.kind not in ("Pod", "Secret", "Node"):
        raise errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={wanted.kind}")
    if not wanted.name:
        raise errors.bad_request("Name parameter required.")
    plural = wanted.kind.lower() + "s"
    found = registry.get_object(plural, "" if wanted.kind == "Node" else ctx.target.namespace, wanted.name)
    if found is None:
        raise errors.not_found("", plural, wanted.name)
    return found


def _node_of(registry: StorageRegistry, name: str) -> ClaimReference | None:
    if not name:
        return None
    node = registry.get_object("nodes", "", name)
    return ClaimReference(name, node.metadata.uid if node is not None else "")


def _shorten(ctx: RequestContext, request: TokenRequest, longest: int) -> None:
    """Shorten the expiration to the server's limit, with a warning."""
    asked = request.spec.expiration_seconds or 0
    if 0 < longest < asked:
        ctx.warn(f"requested expiration of {asked} seconds shortened to {longest} seconds")
        force_setattr(request.spec, "expiration_seconds", longest)


def _issue(ctx: RequestContext, request: TokenRequest, account: Any, bound: _BoundObjects, server: ApiServer) -> None:
    spec, tokens = request.spec, server.tokens
    assert tokens is not None, "checked before"
    extends = server.run_options.extend_token_expiration
    asked, audiences = spec.expiration_seconds or 0, spec.audiences or ()
    seconds, warn_after = asked, None
    if extends and bound.pod and asked == _PROJECTED_SECONDS and audiences and set(audiences) <= set(tokens.audiences):
        seconds, warn_after = _EXTENDED_SECONDS, int(ctx.now.timestamp()) + asked
    meta = account.metadata
    binding = KubernetesClaim(
        meta.namespace, ClaimReference(meta.name, meta.uid), bound.pod, bound.secret, bound.node, warn_after
    )
    jti = new_uid(server.clock)
    ctx.annotations[_ISSUED_CREDENTIAL] = f"JTI={jti}"
    status = TokenRequestStatus(
        token=tokens.issue(binding, audiences, seconds, jti),
        expiration_timestamp=time_of(ctx.now + timedelta(seconds=asked)),
    )
    force_setattr(request, "status", status)
