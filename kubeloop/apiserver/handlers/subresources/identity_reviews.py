"""SelfSubjectReview and TokenReview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.authentication_v1 import (
    SelfSubjectReview,
    SelfSubjectReviewStatus,
    TokenReview,
    TokenReviewStatus,
    UserInfo,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.object_meta import time_of
from kubeloop.apiserver.handlers.subresources.answers import unstored_object_response
from kubeloop.apiserver.handlers.write import read_body
from kubeloop.apiserver.registry.field_manager import update_managed_fields
from kubeloop.apiserver.registry.store import ensure_namespace
from kubeloop.apiserver.request.context import RequestContext, User
from kubeloop.apiserver.request.write_options import validate_write_options
from kubeloop.http import Request, Response

if TYPE_CHECKING:
    from kubeloop.apiserver.app import ApiServer

_UNKNOWN = "invalid bearer token"


async def review_self_subject(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a SelfSubjectReview."""
    validate_write_options(ctx.query, "CreateOptions")
    asked = read_body(ctx, ctx.resource)
    ensure_namespace(asked.metadata, "")
    await server.mutations.admit_posted(ctx, asked)
    review = SelfSubjectReview(
        metadata=ObjectMeta(creation_timestamp=time_of(ctx.now)),
        status=SelfSubjectReviewStatus(user_info=_user_info(ctx.user)),
    )
    return unstored_object_response(ctx, ctx.resource, review, 201)


async def review_token(ctx: RequestContext, server: ApiServer) -> Response:
    """Handle POST of a TokenReview."""
    validate_write_options(ctx.query, "CreateOptions")
    review: TokenReview = read_body(ctx, ctx.resource)
    ensure_namespace(review.metadata, "")
    update_managed_fields(review, None, ctx.resource, ctx, "", None)
    if not review.spec.token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    await server.mutations.admit_posted(ctx, review)
    force_setattr(review, "status", _review_status(server, review.spec.token, review.spec.audiences))
    return unstored_object_response(ctx, ctx.resource, review, 201)


def _review_status(server: ApiServer, token: str, wanted: Sequence[str]) -> TokenReviewStatus:
    own = server.tokens.audiences if server.tokens is not None else ()
    audiences = tuple(wanted) or own
    if server.tokens is not None:
        from kubeloop.api.signed_tokens import InvalidToken
        from kubeloop.apiserver.authentication.service_account_tokens import InvalidTokenError

        try:
            found = server.tokens.recognize(token, audiences)
            return TokenReviewStatus(authenticated=True, user=_user_info(found.user), audiences=found.audiences)
        except InvalidTokenError as rejected:
            return TokenReviewStatus(error=f"[{_UNKNOWN}, {rejected}]")
        except InvalidToken:
            pass
    return _review_static_token(server, token, audiences, own)


def _review_static_token(
    server: ApiServer, token: str, audiences: Sequence[str], own: Sequence[str]
) -> TokenReviewStatus:
    """Review a token without audience (static or bootstrap), which is valid for this server alone."""
    shared = tuple(audience for audience in audiences if audience in own)
    if audiences and not shared:
        return TokenReviewStatus(error=_UNKNOWN)
    try:
        user = server.authenticator.authenticate(Request("GET", "/", headers={"authorization": f"Bearer {token}"}))
    except errors.Unauthorized:
        return TokenReviewStatus(error=_UNKNOWN)
    return TokenReviewStatus(authenticated=True, user=_user_info(user), audiences=shared)


def _user_info(user: User) -> UserInfo:
    return UserInfo(username=user.name, uid=user.uid, groups=user.groups, extra=dict(user.extra))
